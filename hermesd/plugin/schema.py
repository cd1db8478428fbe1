"""A function's signature as JSON Schema (2020-12), and the conversions that belong to it.

What the schema admits can be converted, except for what no schema can say (30 February): that is an
ArgumentFault of the call. What cannot be said at all is a SchemaError at load.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from hermesd.plugin.annotation import Builder, Inexpressible, type_name, with_default
from hermesd.plugin.content import Content, Part
from hermesd.plugin.context import ToolContext
from hermesd.plugin.docstring import Docstring, read_docstring
from hermesd.plugin.fault import SchemaError
from hermesd.plugin.node import Node

CONTEXT_NAME = "ctx"
_EMPTY = inspect.Parameter.empty
_REFERENCE = "#/$defs/"


class Signature(NamedTuple):
    """What a function takes. `nodes`: by parameter; `fresh`: defaults that each call needs a copy of."""

    schema: dict[str, Any]
    nodes: dict[str, Node]
    fresh: dict[str, Any]
    extra: Node | None
    context_name: str | None
    docstring: Docstring


def parameters_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of a function's parameters, the context aside. Raises SchemaError."""
    return read_signature(function).schema


def returns_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """The JSON Schema of what a function returns; None where its hint says nothing. Raises SchemaError."""
    hint = _bare_signature(function).return_annotation
    if hint is _EMPTY or hint is typing.NoReturn:
        return None
    namespace, local = _namespaces(function)
    builder = Builder(namespace | local, outgoing=True)
    try:
        data = data_hint(_evaluate(hint, namespace, local))
        if data is _EMPTY:
            return None
        node = builder.build(data)
    except (Inexpressible, NameError, TypeError, SyntaxError, AttributeError) as error:
        raise _refusal(function, "the result", hint, error) from None
    schema = _assembled(node.schema, builder.definitions)
    if not schema:
        return None
    text = read_docstring(inspect.getdoc(function)).returns
    return {**schema, "description": text} if text and "description" not in schema else schema


def data_hint(hint: Any) -> Any:
    """What the hint of a result says of its data: `Content[Order]` is an Order, parts of content are none.

    `inspect.Parameter.empty` where it says nothing.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        inner = data_hint(arguments[0])
        return inner if inner is not arguments[0] else hint
    if origin is Content:
        return arguments[0]
    if origin in (typing.Union, types.UnionType, list, tuple) and any(
        data_hint(each) is not each for each in arguments
    ):
        return _EMPTY  # content in some cases, data in others: no one schema holds for the data
    if isinstance(hint, type) and issubclass(hint, Part | Content):
        return _EMPTY
    return hint


def read_signature(function: Callable[..., Any]) -> Signature:
    """Schema, converters and docstring of a function. Raises SchemaError."""
    docstring = read_docstring(getattr(function, "__doc__", None))
    namespace, local = _namespaces(function)
    builder = Builder(namespace | local)
    nodes: dict[str, Node] = {}
    fresh: dict[str, Any] = {}
    required: list[str] = []
    extra: Node | None = None
    context_name: str | None = None
    for parameter in _bare_signature(function).parameters.values():
        _refuse_kind(function, parameter)
        hint = _hint(function, parameter, namespace, local)
        if _is_context(function, parameter, hint):
            if context_name is not None:
                raise SchemaError(
                    f"{_named(function)}: {context_name!r} and {parameter.name!r} are both contexts"
                )
            context_name = parameter.name
            continue
        try:
            node = builder.build(hint)
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                extra = node
                continue
            if parameter.default is _EMPTY:
                required.append(parameter.name)
            else:
                node = with_default(builder, node, parameter.default)
        except Inexpressible as fault:
            raise _refusal(function, f"parameter {parameter.name!r}", hint, fault) from None
        nodes[parameter.name] = _described(node, docstring.parameters.get(parameter.name, ""))
        if _is_mutable(parameter.default):
            fresh[parameter.name] = parameter.default
    schema = _object(nodes, required, extra)
    return Signature(_assembled(schema, builder.definitions), nodes, fresh, extra, context_name, docstring)


def _bare_signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):
            import annotationlib  # noqa: PLC0415

            return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"{_named(function)} has no signature that can be read: {error}") from None


def _refuse_kind(function: Callable[..., Any], parameter: inspect.Parameter) -> None:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        raise SchemaError(
            f"{_named(function)}: parameter '*{parameter.name}' has no names, and JSON objects have nothing "
            f"else; write `{parameter.name}: list[…]`"
        )
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise SchemaError(
            f"{_named(function)}: parameter {parameter.name!r} is positional-only, and arguments come by "
            "name; remove the `/`"
        )


def _hint(
    function: Callable[..., Any],
    parameter: inspect.Parameter,
    namespace: dict[str, Any],
    local: dict[str, Any],
) -> Any:
    hint = parameter.annotation
    if hint is _EMPTY:
        return ToolContext if parameter.name == CONTEXT_NAME else Any
    try:
        return _evaluate(hint, namespace, local)
    except Exception as error:  # noqa: BLE001 - evaluating runs code of the plugin
        # `if TYPE_CHECKING: from hermesd.plugin import ToolContext` leaves the name without a value.
        if parameter.name == CONTEXT_NAME and "ToolContext" in _written(hint):
            return ToolContext
        raise _refusal(function, f"parameter {parameter.name!r}", hint, error) from None


def _evaluate(hint: Any, namespace: dict[str, Any], local: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": hint})
    return typing.get_type_hints(holder, namespace, local, include_extras=True)["it"]


def _namespaces(function: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The globals of a function's module, and the names that it closes over."""
    bare: Any = inspect.unwrap(function)
    bare = getattr(bare, "func", bare)
    bare = getattr(bare, "__func__", bare)
    if not hasattr(bare, "__globals__"):
        bare = getattr(type(bare), "__call__", bare)  # noqa: B004 - an instance: its class's method has the globals
    local: dict[str, Any] = {}
    for name, cell in zip(
        getattr(getattr(bare, "__code__", None), "co_freevars", ()),
        getattr(bare, "__closure__", None) or (),
        strict=False,
    ):
        try:
            local[name] = cell.cell_contents
        except ValueError:
            continue  # a name that is bound later has no value yet
    return dict(getattr(bare, "__globals__", {})), local


def _is_context(function: Callable[..., Any], parameter: inspect.Parameter, hint: Any) -> bool:
    members = [each for each in (typing.get_args(hint) or (hint,)) if each is not type(None)]
    if len(members) == 1 and isinstance(members[0], type) and issubclass(members[0], ToolContext):
        return True
    if parameter.name == CONTEXT_NAME and hint is not Any:
        raise SchemaError(
            f"{_named(function)}: parameter {CONTEXT_NAME!r} is the tool's context, and cannot be "
            f"{type_name(hint)}; rename it"
        )
    return parameter.name == CONTEXT_NAME


def _is_mutable(default: Any) -> bool:
    try:
        hash(default)
    except TypeError:
        return True
    return False


def _described(node: Node, text: str) -> Node:
    return (
        node.saying({**node.schema, "description": text})
        if text and "description" not in node.schema
        else node
    )


def _object(nodes: dict[str, Node], required: list[str], extra: Node | None) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: node.schema for name, node in nodes.items()},
    }
    if required:
        schema["required"] = required
    if extra is None:
        schema["additionalProperties"] = False
    elif extra.schema:
        schema["additionalProperties"] = extra.schema
    return schema


def _assembled(schema: dict[str, Any], definitions: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The schema with its `$defs`; a class that is used once stands where it is used."""
    uses: dict[str, int] = {}
    for part in (schema, *definitions.values()):
        for name in _references(part):
            uses[name] = uses.get(name, 0) + 1
    once = {name for name, count in uses.items() if count == 1}
    whole = _inlined(schema, definitions, once)
    kept = {
        name: _inlined(each, definitions, once) for name, each in definitions.items() if uses.get(name, 0) > 1
    }
    return {**whole, "$defs": kept} if kept else typing.cast("dict[str, Any]", whole)


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_REFERENCE)
        for each in part.values():
            yield from _references(each)
    elif isinstance(part, list):
        for each in part:
            yield from _references(each)


def _inlined(part: Any, definitions: Mapping[str, dict[str, Any]], once: set[str]) -> Any:
    if isinstance(part, list):
        return [_inlined(each, definitions, once) for each in part]
    if not isinstance(part, dict):
        return part
    name = str(part.get("$ref", "")).removeprefix(_REFERENCE)
    if name in once:
        beside = {key: each for key, each in part.items() if key != "$ref"}
        return _inlined({**definitions[name], **beside}, definitions, once)
    return {key: _inlined(each, definitions, once) for key, each in part.items()}


def _refusal(function: Callable[..., Any], where: str, hint: Any, error: Exception) -> SchemaError:
    kind, why = (
        (error.kind, error.why)
        if isinstance(error, Inexpressible)
        else (hint, f"cannot be evaluated: {error}")
    )
    written = _written(hint)
    inner = type_name(kind)
    within = "" if inner == written else f", in {written}"
    return SchemaError(f"{_named(function)}: {where}: the type {inner} {why}{within}")


def _written(hint: Any) -> str:
    if isinstance(hint, typing.ForwardRef):
        return hint.__forward_arg__
    return hint if isinstance(hint, str) else type_name(hint)


def _named(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__qualname__', None) or type(function).__qualname__}()"
