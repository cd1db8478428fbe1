"""From an outcome to the envelope that every call answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hermesd.model.call import Code, Outcome, Result, effect_of
from hermesd.model.intent import LOOK_FIRST
from hermesd.model.transport import transport_fault
from hermesd.serving.course import Course

#: What a caller can do next, for every answer that has no better advice of its own.
REMEDIES: Mapping[Code, str] = {
    Code.INVALID_ARGUMENT: "mend the arguments that detail.faults lists",
    Code.UNKNOWN_TOOL: "list the tools and use one of their names",
    Code.UNAVAILABLE: "try again later",
    Code.PERMISSION_DENIED: "ask the operator to allow it",
    Code.CONFIRMATION_REQUIRED: "confirm what detail.summary says, or have it confirmed, then call again",
    Code.TIMEOUT: "ask for less, or give it more time: timeout_ms of the call, or of the tool",
    Code.CANCELLED: "call again if the answer is still wanted",
    Code.CIRCUIT_OPEN: "try again after detail.retry_after_ms, or do without this tool until then",
    Code.RATE_LIMITED: "try again after detail.retry_after_ms",
    Code.OVERLOADED: "try again after detail.retry_after_ms",
    Code.TOOL_ERROR: "read the message; the tool itself refused or failed",
    Code.INVALID_RESULT: "report it to the plugin's author; the tool did run",
    Code.SANDBOX_KILLED: "ask for less; detail.reason says which limit was reached",
    Code.DEPENDENCY_FAILED: "mend what detail.reason says of the tool that was called, then call again",
    Code.INTERNAL: "report it to the operator with the request_id",
}

#: The same where `detail` lacks the key that the advice above speaks of, since the tool itself said the code.
BARE_REMEDIES: Mapping[Code, tuple[str, str]] = {
    Code.INVALID_ARGUMENT: ("faults", "mend the arguments as the message says"),
    Code.RATE_LIMITED: ("retry_after_ms", "wait a while, then try again"),
    Code.DEPENDENCY_FAILED: ("reason", "mend what the message names, then call again"),
}

#: A tool's error that says that it never got through to what answers for it.
UNREACHED_REMEDY = (
    "the tool could not reach what it needs: try again later, and tell the operator if it lasts"
)

#: Where nothing has happened, trying again later may help.
RETRYABLE = frozenset({Code.OVERLOADED, Code.UNAVAILABLE, Code.RATE_LIMITED, Code.CIRCUIT_OPEN})


def envelope(course: Course, outcome: Outcome, now: float) -> Result:
    """The answer of a call that ends at `now` (monotonic seconds) with `outcome`."""
    if course.replayed is not None:
        return _replayed(course, course.replayed, now)
    request, entry = course.request, course.entry
    definition = entry.definition if entry is not None else None
    side_effects = definition.side_effects if definition is not None else "none"
    effect = course.effect or effect_of(
        outcome.code, side_effects, entered=course.entered, stated=outcome.effect
    )
    detail = dict(outcome.detail)
    if course.coerced:
        detail["coerced"] = list(course.coerced)
    if definition is not None and definition.deprecated is not None:
        detail["deprecated"] = definition.deprecated.as_detail()
    if outcome.code is not Code.OK and not detail.get("remedy"):
        detail["remedy"] = _remedy(outcome)
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
        retryable=outcome.retryable or (outcome.code in RETRYABLE and effect == "none"),
        effect=effect,
        detail=detail,
        truncated=outcome.truncated,
        content_json=outcome.content_json if outcome.code is Code.OK else "",
    )


def _remedy(outcome: Outcome) -> str:
    """What can be done next. It never speaks of a key that `detail` does not have."""
    code = outcome.code
    if code is Code.TOOL_ERROR and transport_fault(outcome):
        return UNREACHED_REMEDY
    key, bare = BARE_REMEDIES.get(code, ("", ""))
    if key and not outcome.detail.get(key):
        return bare
    return REMEDIES.get(code, "ask the operator")


def _replayed(course: Course, recorded: Result, now: float) -> Result:
    """What was answered then, for the call of now. The same key never brings another answer."""
    detail = {**recorded.detail, "replayed": True, "replayed_from": recorded.request_id}
    if recorded.effect == "unknown":
        detail["remedy"] = LOOK_FIRST
    return replace(
        recorded,
        request_id=course.request.request_id,
        session_id=course.request.session_id,
        generation=course.catalogue.generation,
        attempts=0,
        duration_ms=(now - course.started) * 1000,
        queued_ms=0.0,
        retryable=False,
        detail=detail,
    )
