"""What a tool raised, as the answer that its caller gets: never a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from hermesd.plugin.encode import plain
from hermesd.plugin.fault import ArgumentFault, ResultFault, ToolCallError, ToolError

MAX_MESSAGE_CHARS = 2000
MAX_TRACE_CHARS = 16 * 1024


def answer_of(error: BaseException) -> dict[str, Any]:
    """Code, message and what else is known (effect, retryable, detail) for what a tool raised."""
    if isinstance(error, ToolError):
        answer = {"code": error.code, "message": _clip(error.message), "retryable": bool(error.retryable)}
        return answer | {"effect": error.effect, "detail": _detail(error.detail)}
    if isinstance(error, ToolCallError):
        detail = {"reason": error.code, **_detail(error.detail)}
        return {
            "code": "DEPENDENCY_FAILED",
            "message": _clip(f"a called tool failed: {error}"),
            "detail": detail,
        }
    if isinstance(error, ArgumentFault):
        fault = {"path": error.path, "problem": error.problem, "expected": error.expected, "got": error.got}
        return {
            "code": "INVALID_ARGUMENT",
            "message": _clip(str(error)),
            "effect": "none",
            "detail": {"faults": [_detail(fault)]},
        }
    if isinstance(error, ResultFault):
        return {
            "code": "INVALID_RESULT",
            "message": _clip(str(error)),
            "detail": {"reason": _clip(error.problem)},
        }
    if isinstance(error, SystemExit):
        return {"code": "TOOL_ERROR", "message": _clip(f"the tool called sys.exit({error.code!r})")}
    return {"code": "TOOL_ERROR", "message": _clip(_headline(error))}


def is_unexpected(error: BaseException) -> bool:
    """Whether the operator should see where it came from."""
    return not isinstance(error, ToolError | ToolCallError | ArgumentFault)


def trace_of(error: BaseException) -> str:
    """The traceback for the operator's log; the end of it when it is long."""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception as broken:  # noqa: BLE001 - an exception's own __str__ may fail
        text = f"{type(error).__name__} (its traceback cannot be told: {type(broken).__name__})"
    return text[-MAX_TRACE_CHARS:]


def _headline(error: BaseException) -> str:
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 - see above
        text = ""
    name = type(error).__name__
    return f"{name}: {text.splitlines()[0]}" if text else name


def _clip(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[:MAX_MESSAGE_CHARS] + "…"


def _detail(detail: Mapping[str, object]) -> dict[str, Any]:
    try:
        made: dict[str, Any] = plain(dict(detail))
    except ResultFault:
        return {str(key): _clip(repr(value)) for key, value in detail.items()}
    return made
