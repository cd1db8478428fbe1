"""How an exception of a tool reads to its caller: a code and one line, never a traceback."""

from __future__ import annotations

from typing import Any

from hermesd.plugin.fault import ArgumentFault, ResultFault, ToolCallError, ToolError

MAX_LINE = 500


def failure_of(error: BaseException) -> dict[str, Any]:
    """`{code, message, effect, retryable, detail}` for whatever a tool raised, SystemExit included.

    `effect` None: not known here.
    """
    if isinstance(error, ToolError):
        return _failure(error.code, error.message, error.effect, error.detail, retryable=error.retryable)
    if isinstance(error, ToolCallError):
        detail = {"code": error.code, **error.detail}
        return _failure("DEPENDENCY_FAILED", f"a tool that this one called failed: {error}", None, detail)
    if isinstance(error, ArgumentFault):
        fault = {"path": error.path, "problem": error.problem, "expected": error.expected, "got": error.got}
        return _failure(
            "INVALID_ARGUMENT", f"{error.path or '/'}: {error.problem}", "none", {"faults": [fault]}
        )
    if isinstance(error, ResultFault):
        return _failure("INVALID_RESULT", str(error), None, {"reason": "no JSON", "path": error.path})
    return _failure("TOOL_ERROR", one_line(error), None, {})


def one_line(error: BaseException) -> str:
    """`Kind: first line` of an exception, bounded; its `str` may itself fail, for it is the plugin's code."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - the plugin's own __str__ may do anything
        text = "(its message cannot be read)"
    lines = text.strip().splitlines()
    first = f": {lines[0]}" if lines else ""
    return f"{type(error).__name__}{first}"[:MAX_LINE]


def _failure(
    code: str, message: str, effect: str | None, detail: dict[str, Any], *, retryable: bool = False
) -> dict[str, Any]:
    return {
        "code": code,
        "message": message,
        "effect": effect,
        "retryable": retryable,
        "detail": dict(detail),
    }
