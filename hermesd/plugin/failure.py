"""What a tool raised, as the answer that its caller gets: never a traceback."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any

from hermesd.plugin.encode import plain
from hermesd.plugin.fault import (
    EFFECTS,
    MAX_TRACE_CHARS,
    PLUGIN_CODES,
    ArgumentFault,
    ResultFault,
    ToolCallError,
    ToolError,
)
from hermesd.plugin.transport import transport_detail

MAX_MESSAGE_CHARS = 2000
#: An answer has room for 64 KiB beside its data.
MAX_DETAIL_CHARS = 32 * 1024


def answer_of(error: BaseException) -> dict[str, Any]:
    """Code, message and what else is known (effect, retryable, detail) for what a tool raised.

    Never raises and is bounded, whatever the error's own `__str__` or `detail` do.
    """
    try:
        return _answer_of(error)
    except BaseException as broken:  # noqa: BLE001 - the text of an error is the plugin's code too
        message = f"{type(error).__name__}, which cannot be told: {type(broken).__name__}"
        return {"code": "TOOL_ERROR", "message": _clip(message)}


def _answer_of(error: BaseException) -> dict[str, Any]:
    if isinstance(error, ToolError):
        # What the constructor checked may have been overwritten since.
        code = error.code if error.code in PLUGIN_CODES else "TOOL_ERROR"
        effect = error.effect if error.effect in EFFECTS else None
        answer = {"code": code, "message": _clip(str(error.message)), "retryable": bool(error.retryable)}
        # What it was raised from counts where it says nothing else of the way to the service.
        return answer | {"effect": effect, "detail": _detail({**transport_detail(error), **error.detail})}
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
    answer = {"code": "TOOL_ERROR", "message": _clip(_headline(error))}
    transport = transport_detail(error)
    return answer | {"detail": transport} if transport else answer


def is_unexpected(error: BaseException) -> bool:
    """Whether the operator should see where it came from."""
    return not isinstance(error, ToolError | ToolCallError | ArgumentFault)


def trace_of(error: BaseException) -> str:
    """The traceback for the operator's log; the end of it when it is long."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException as broken:  # noqa: BLE001 - an exception's own __str__ may fail
        text = f"{type(error).__name__} (its traceback cannot be told: {type(broken).__name__})"
    return text[-MAX_TRACE_CHARS:]


def _headline(error: BaseException) -> str:
    try:
        text = str(error).strip()
    except BaseException:  # noqa: BLE001 - see above
        text = ""
    name = type(error).__name__
    return f"{name}: {text.splitlines()[0]}" if text else name


def _clip(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[:MAX_MESSAGE_CHARS] + "…"


def _detail(detail: Mapping[str, object]) -> dict[str, Any]:
    try:
        made: dict[str, Any] = plain(dict(detail))
        size = len(json.dumps(made))
    except (ResultFault, ValueError):  # an integer of more than 4,300 digits has no text
        made = {str(key): _clip(_shown(value)) for key, value in detail.items()}
        size = len(json.dumps(made))
    return made if size <= MAX_DETAIL_CHARS else _shortened(made)


def _shortened(detail: dict[str, Any]) -> dict[str, Any]:
    """As much of a large detail as fits, its small values first to last; `cut` counts what is missing."""
    kept: dict[str, Any] = {}
    room = MAX_DETAIL_CHARS
    for key, value in detail.items():
        size = len(json.dumps({key: value}))
        if size <= room:
            kept[key] = value
            room -= size
    return kept | {"cut": len(detail) - len(kept)}


def _shown(value: object) -> str:
    try:
        return repr(value)
    except BaseException:  # noqa: BLE001 - see above
        return f"<{type(value).__name__}>"
