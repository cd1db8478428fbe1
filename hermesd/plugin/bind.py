"""From a plugin's functions to bound tools: definition, converters, and the function to run."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from hermesd.plugin.context import ToolContext
from hermesd.plugin.encode import encode_result
from hermesd.plugin.fault import ArgumentFault, LoadFault, ResultFault, SchemaError
from hermesd.plugin.hook import hooks_of, place_of
from hermesd.plugin.load import fault_of, module_root
from hermesd.plugin.node import Convert
from hermesd.plugin.schema import Signature, read_signature, returns_schema
from hermesd.plugin.tool import MARK


class BoundTool:
    """One tool, ready to be called. `raw` is its definition as JSON; `file` is relative to the plugin.

    `is_async`: `function` gives an awaitable. `context_name`: the keyword under which it takes its context.
    """

    __slots__ = (
        "_converters",
        "_extra",
        "_fresh",
        "_known",
        "context_name",
        "file",
        "function",
        "is_async",
        "line",
        "name",
        "raw",
    )

    def __init__(
        self,
        name: str,
        raw: dict[str, Any],
        function: Callable[..., Any],
        signature: Signature,
        *,
        file: str,
        line: int,
    ) -> None:
        self.name = name
        self.raw = raw
        self.function, self.is_async = _awaitable(function)
        self.context_name = signature.context_name
        self.file = file
        self.line = line
        self._converters: tuple[tuple[str, Convert], ...] = tuple(
            (each, node.convert) for each, node in signature.nodes.items() if node.convert is not None
        )
        self._fresh = signature.fresh
        self._extra = signature.extra
        self._known = frozenset(signature.nodes)

    @property
    def wants_context(self) -> bool:
        return self.context_name is not None

    def arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """Keywords for the function from JSON values that the schema admits; a new dict.

        A mutable default is copied for each call, so that no call sees another's. Raises ArgumentFault.
        """
        made = dict(values)
        for name, convert in self._converters:
            if name in made:
                try:
                    made[name] = convert(made[name])
                except ArgumentFault as fault:
                    raise fault.under(name) from None
        if self._fresh:
            self._add_fresh(made)
        if self._extra is not None:
            self._convert_extra(made)
        return made

    def invoke(self, context: ToolContext | None, values: dict[str, Any]) -> Any:
        """Convert, add the context, call: the result of a sync tool, an awaitable of it from an async one."""
        made = self.arguments(values)
        if self.context_name is not None:
            made[self.context_name] = context
        return self.function(**made)

    def _add_fresh(self, made: dict[str, Any]) -> None:
        import copy  # noqa: PLC0415 - few tools have mutable defaults

        for name, default in self._fresh.items():
            if name not in made:
                made[name] = copy.deepcopy(default) if default else copy.copy(default)

    def _convert_extra(self, made: dict[str, Any]) -> None:
        for name in made.keys() - self._known:
            if name == self.context_name:
                raise ArgumentFault("is the tool's own, and no argument", f"/{name}")
            try:
                made[name] = self._extra.value(made[name])  # type: ignore[union-attr] # the caller looked
            except ArgumentFault as fault:
                raise fault.under(name) from None


def bind_tools(module: ModuleType, plugin: str, extra: Iterable[Any] = ()) -> list[BoundTool]:
    """The decorated functions of a module in the order of their definition, then those of `extra`.

    Functions that the module imported from its own package count; those of other packages do not. What is in
    `extra` needs no decorator. Raises LoadFault with the place of the first function that cannot be bound.
    """
    bound: dict[str, BoundTool] = {}
    seen: set[int] = set()
    for function in [*_decorated(module), *extra]:
        if id(function) in seen:
            continue
        seen.add(id(function))
        made = bind_tool(function, plugin)
        first = bound.setdefault(made.name, made)
        if first is not made:
            raise LoadFault(
                f"the name {made.name!r} is taken by the function at {first.file}:{first.line}",
                made.file,
                made.line,
                remedy="give one of them another name=",
            )
    return list(bound.values())


def bind_tool(function: Any, plugin: str) -> BoundTool:
    """Bind one function, decorated or plain. Raises LoadFault."""
    file, line = place_of(function)
    if isinstance(function, type) or not callable(function):
        raise LoadFault(f"hermesd_tools offers {function!r}, which is no function", file, line)
    if _is_generator(function):
        raise LoadFault(
            f"{function.__name__}() is a generator; a tool returns its result, and tells with ctx.progress "
            "how far it is",
            file,
            line,
        )
    options = {"side_effects": "write", **getattr(function, MARK, {})}
    try:
        name = _name(function, options.get("name"), plugin)
        signature = read_signature(function)
        raw = _definition(function, name, options, signature)
    except SchemaError as error:
        raise LoadFault(str(error), file, line, remedy="write a type that JSON can express") from None
    except ResultFault as fault:
        raise LoadFault(
            f"the options of @tool: {fault.path.lstrip('/') or 'they'} {fault.problem}", file, line
        ) from None
    return BoundTool(name, raw, function, signature, file=file, line=line)


def offered_tools(module: ModuleType, context: object = None) -> tuple[Any, ...]:
    """What the module's `hermesd_tools` hook returns. Raises LoadFault, also when it fails half-way."""
    hook = hooks_of(module).get("hermesd_tools")
    if hook is None:
        return ()
    root = module_root(module)
    try:
        offered = hook(context) if takes_argument(hook) else hook()
        tools = tuple(offered or ())
    except BaseException as error:  # noqa: BLE001 - SystemExit in a hook must not end the host
        fault = fault_of(error, root)
    else:
        return tools
    if not fault.line:
        fault = LoadFault(f"hermesd_tools: {fault.reason}", *place_of(hook))
    fault.__context__ = None
    raise fault


def takes_argument(hook: Callable[..., Any]) -> bool:
    """Whether a hook wants its context: it may have no parameter, or one."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in kinds for each in inspect.signature(hook).parameters.values())


def _decorated(module: ModuleType) -> list[Any]:
    prefix = package_of(module.__name__)
    return [
        value
        for value in list(vars(module).values())
        if callable(value)
        and not isinstance(value, type)
        and isinstance(getattr(value, MARK, None), dict)
        and package_of(str(getattr(value, "__module__", ""))) == prefix
    ]


def package_of(module: str) -> str:
    """The outermost package of one plugin: one name for an installed one, two below `hermesd_plugins`."""
    parts = module.split(".")
    return ".".join(parts[: 2 if parts[0] == "hermesd_plugins" else 1])


def _name(function: Any, given: Any, plugin: str) -> str:
    if given is None:
        given = getattr(function, "__name__", None)
        if given is None:
            raise SchemaError(f"{function!r} has no name; say it with @tool(name=…)")
    return str(given) if "." in str(given) else f"{plugin}.{given}"


def _definition(function: Any, name: str, options: dict[str, Any], signature: Signature) -> dict[str, Any]:
    returns = options.get("returns")
    raw = {
        **options,
        "name": name,
        "description": options.get("description") or signature.docstring.description,
        "parameters": signature.schema,
        "returns": returns_schema(function) if returns is None else returns,
    }
    told = {key: value for key, value in raw.items() if value is not None and value not in ("", (), [])}
    made: dict[str, Any] = json.loads(encode_result(told))
    return made


def _is_generator(function: Any) -> bool:
    bare = inspect.unwrap(function)
    return inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare)


def _awaitable(function: Any) -> tuple[Callable[..., Any], bool]:
    call = getattr(function, "__call__", None)  # noqa: B004 - an instance's method may be the async one
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return function, True
    if not inspect.iscoroutinefunction(inspect.unwrap(function)):
        return function, False

    # A plain wrapper around an async function gives the coroutine, or what came of it.
    @functools.wraps(function)
    async def run(**arguments: Any) -> Any:
        result = function(**arguments)
        return await result if inspect.isawaitable(result) else result

    return run, True
