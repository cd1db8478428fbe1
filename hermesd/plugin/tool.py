"""The `tool` decorator: it notes what the author says and returns the function itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

SideEffects = Literal["none", "read", "write", "destructive"]
MARK = "__hermesd_tool__"
OPTIONS = frozenset(
    {
        "name", "version", "title", "description", "tags", "when_to_use", "when_not_to_use",
        "parameter_guide", "examples", "side_effects", "idempotent", "retryable", "timeout_ms",
        "timeout_class", "max_concurrency", "depends_on", "requires", "confirm", "coerce", "retry",
        "circuit_breaker", "fallback", "rate_limit", "roles", "correct", "deprecated", "enabled", "returns",
    }
)  # fmt: skip
_Function = TypeVar("_Function", bound=Callable[..., Any])


@overload
def tool(function: _Function, /) -> _Function: ...
@overload
def tool(
    *,
    name: str | None = ...,
    version: str | None = ...,
    title: str | None = ...,
    description: str | None = ...,
    tags: Sequence[str] = ...,
    when_to_use: str | None = ...,
    when_not_to_use: str | None = ...,
    parameter_guide: Mapping[str, str] | None = ...,
    examples: Sequence[Mapping[str, Any]] | None = ...,
    side_effects: SideEffects = ...,
    idempotent: bool = ...,
    retryable: bool = ...,
    timeout_ms: int | None = ...,
    timeout_class: str | None = ...,
    max_concurrency: int | None = ...,
    depends_on: Sequence[str] = ...,
    requires: Sequence[Any] | None = ...,
    confirm: Literal["none", "caller", "operator"] | None = ...,
    coerce: bool | None = ...,
    retry: Mapping[str, Any] | None = ...,
    circuit_breaker: Mapping[str, Any] | None = ...,
    fallback: Mapping[str, Any] | None = ...,
    rate_limit: Mapping[str, Any] | None = ...,
    roles: Sequence[str] | None = ...,
    correct: Sequence[Mapping[str, Any]] | None = ...,
    deprecated: Mapping[str, Any] | None = ...,
    enabled: bool | None = ...,
    returns: Mapping[str, Any] | None = ...,
) -> Callable[[_Function], _Function]: ...


def tool(function: Any = None, /, **options: Any) -> Any:
    """Make a function a tool. Without `name` it is `plugin.function`; without `side_effects` a write.

    The function stays an ordinary function. Raises TypeError for an option that does not exist.
    """
    unknown = sorted(options.keys() - OPTIONS)
    if unknown:
        raise TypeError(_unknown(unknown[0]))
    options.setdefault("side_effects", "write")
    given = {name: value for name, value in options.items() if value is not None}

    def mark(marked: Any) -> Any:
        if isinstance(marked, type) or not callable(marked):
            raise TypeError(f"@tool goes on a function, not on {marked!r}; options are given by name")
        setattr(marked, MARK, given)
        return marked

    return mark if function is None else mark(function)


def _unknown(option: str) -> str:
    import difflib  # noqa: PLC0415 - only needed for the message

    near = difflib.get_close_matches(option, OPTIONS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(sorted(OPTIONS))}"
    return f"@tool has no option {option!r}; {hint}"
