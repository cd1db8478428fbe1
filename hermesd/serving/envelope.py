"""From an outcome to the envelope that every call answers."""

from __future__ import annotations

from collections.abc import Mapping

from hermesd.model.call import Code, Outcome, Result, effect_of
from hermesd.serving.course import Course

#: What a caller can do next, for every code that has no better advice of its own.
REMEDIES: Mapping[Code, str] = {
    Code.INVALID_ARGUMENT: "mend the arguments that detail.faults lists",
    Code.UNKNOWN_TOOL: "list the tools and use one of their names",
    Code.UNAVAILABLE: "try again later",
    Code.PERMISSION_DENIED: "ask the operator to allow it",
    Code.TIMEOUT: "ask for less, or raise the tool's timeout_ms",
    Code.CANCELLED: "call again if the answer is still wanted",
    Code.OVERLOADED: "try again after detail.retry_after_ms",
    Code.TOOL_ERROR: "read the message; the tool itself refused or failed",
    Code.INVALID_RESULT: "report it to the plugin's author; the tool did run",
    Code.INTERNAL: "report it to the operator with the request_id",
}


def envelope(course: Course, outcome: Outcome, now: float) -> Result:
    """The answer of a call that ends at `now` (monotonic seconds) with `outcome`."""
    request, entry = course.request, course.entry
    definition = entry.definition if entry is not None else None
    detail = dict(outcome.detail)
    if course.coerced:
        detail["coerced"] = list(course.coerced)
    if definition is not None and definition.deprecated is not None:
        detail["deprecated"] = definition.deprecated.as_detail()
    if outcome.code is not Code.OK and not detail.get("remedy"):
        detail["remedy"] = REMEDIES.get(outcome.code, "ask the operator")
    return Result(
        code=outcome.code,
        message=outcome.message,
        data_json=outcome.data_json if outcome.code is Code.OK else "null",
        request_id=request.request_id,
        session_id=request.session_id,
        tool=request.tool,
        version=definition.version if definition is not None else "",
        generation=course.catalogue.generation,
        attempts=course.attempts,
        duration_ms=(now - course.started) * 1000,
        queued_ms=course.queued_s * 1000,
        retryable=outcome.retryable or outcome.code in (Code.OVERLOADED, Code.UNAVAILABLE),
        effect=effect_of(
            outcome.code,
            definition.side_effects if definition is not None else "none",
            entered=course.entered,
            stated=outcome.effect,
        ),
        detail=detail,
    )
