"""Marking functions as hooks, readable by pluggy without importing it.

pluggy's `HookimplMarker("hermesd")` sets the attribute `hermesd_impl`; so does `hookimpl`, with the same
keys, so that an installed package can use either, and a bare container needs no pluggy.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, overload

from hermesd.plugin.fault import LoadFault

HOOKS = (
    "hermesd_tools",
    "hermesd_startup",
    "hermesd_shutdown",
    "hermesd_shared",
    "hermesd_unavailable",
)
#: Hooks that nobody calls yet. One that guards calls must not seem to work: what implements them is refused.
LATER = (
    "hermesd_resources",
    "hermesd_prompts",
    "hermesd_before_call",
    "hermesd_after_call",
    "hermesd_embedder",
    "hermesd_rerank",
    "hermesd_summarize",
)
_MARK = "hermesd_impl"
_Function = TypeVar("_Function", bound=Callable[..., Any])


@overload
def hookimpl(function: _Function, /) -> _Function: ...
@overload
def hookimpl(
    *,
    specname: str | None = None,
    tryfirst: bool = False,
    trylast: bool = False,
    optionalhook: bool = False,
    hookwrapper: bool = False,
    wrapper: bool = False,
) -> Callable[[_Function], _Function]: ...


def hookimpl(
    function: Any = None,
    /,
    *,
    specname: str | None = None,
    tryfirst: bool = False,
    trylast: bool = False,
    optionalhook: bool = False,
    hookwrapper: bool = False,
    wrapper: bool = False,
) -> Any:
    """Mark a function as a hook. `specname`: the hook's name when the function is called otherwise.

    `optionalhook`: the plugin can do without it where the build does not have that hook.
    """
    options = {
        "hookwrapper": hookwrapper,
        "wrapper": wrapper,
        "optionalhook": optionalhook,
        "tryfirst": tryfirst,
        "trylast": trylast,
        "specname": specname,
    }

    def mark(marked: Any) -> Any:
        setattr(marked, _MARK, options)
        return marked

    return mark if function is None else mark(function)


def hooks_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The hooks that a module implements, by hook name: marked functions, and those named like a hook.

    Raises LoadFault for a name that looks like a hook but is none, and for two functions for one hook.
    """
    found: dict[str, Callable[..., Any]] = {}
    for name, value in list(vars(module).items()):
        options = getattr(value, _MARK, None) if callable(value) else None
        marked = isinstance(options, dict)
        if not marked and not (name.startswith("hermesd_") and hasattr(value, "__code__")):
            continue
        hook = str((options or {}).get("specname") or name) if marked else name
        if hook not in HOOKS:
            if options is not None and marked and options.get("optionalhook"):
                continue
            raise unknown_hook(hook, value)
        if found.setdefault(hook, value) is not value:
            raise LoadFault(f"two functions implement the hook {hook}", *place_of(value))
    return found


def place_of(function: Any) -> tuple[str, int]:
    """File (relative to the plugin's folder where it lies in one) and line of a function; ("", 0) unknown."""
    # Authors import this module for hookimpl; only hosts pay for what loading needs.
    from hermesd.plugin.load import relative_file  # noqa: PLC0415

    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    function = getattr(function, "func", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return "", 0
    return relative_file(code.co_filename, str(getattr(function, "__module__", ""))), code.co_firstlineno


def unknown_hook(hook: str, function: Any) -> LoadFault:
    """The fault of a function that implements a hook which is none, or none of this build."""
    if hook in LATER:
        reason, remedy = (
            f"this build does not have the hook {hook}",
            "remove it, or mark it optionalhook=True",
        )
        return LoadFault(reason, *place_of(function), remedy=remedy)
    import difflib  # noqa: PLC0415 - only needed for the message

    near = difflib.get_close_matches(hook, HOOKS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the hooks are {', '.join(HOOKS)}"
    return LoadFault(f"there is no hook {hook}; {hint}", *place_of(function), remedy="rename the function")
