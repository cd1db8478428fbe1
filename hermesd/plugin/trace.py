"""W3C trace context: which trace a call belongs to, and how to pass it on.

A call without one begins a trace whose ids follow from its request id, so that nothing need be drawn or
kept for a call that nobody traces.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

#: Of both headers together, beyond what the standard asks everyone to carry.
MAX_STATE = 512
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z")
_STATE = re.compile(r"[\x20-\x7e]*\Z")
_HEX = re.compile(r"[0-9a-f]{32}\Z")


class Span(NamedTuple):
    """Where one call stands in its trace. `parent_id` is "" at the head of a trace."""

    trace_id: str
    span_id: str
    parent_id: str
    flags: str


def given(traceparent: str, tracestate: str = "") -> tuple[str, str]:
    """Both headers as they may be passed on; ("", "") for what is no trace context, which is ignored.

    The standard asks for that: a broken context begins a new trace and fails no request.
    """
    match = _PARENT.match(traceparent)
    if match is None or not match[2].strip("0") or not match[3].strip("0"):
        return "", ""
    version, rest = match[1], match[5]
    if version == "ff" or (version == "00" and rest):
        return "", ""
    kept = tracestate if len(tracestate) <= MAX_STATE and _STATE.match(tracestate) else ""
    return f"00-{match[2]}-{match[3]}-{match[4]}", kept


def span_of(request_id: str, traceparent: str = "") -> Span:
    """The span of the call `request_id`, whose caller gave `traceparent` (checked by `given`, or "")."""
    digits = request_id.replace("-", "").lower()
    if _HEX.match(digits) is None or not digits[16:].strip("0"):
        digits = hashlib.sha256(request_id.encode("utf-8", "replace")).hexdigest()[:32]
    if not traceparent:
        return Span(digits, digits[16:], "", "00")
    _, trace_id, parent_id, flags = traceparent.split("-")
    return Span(trace_id, digits[16:], parent_id, flags)


def passed_on(request_id: str, traceparent: str = "") -> str:
    """The `traceparent` that this call gives to what it calls itself."""
    span = span_of(request_id, traceparent)
    return f"00-{span.trace_id}-{span.span_id}-{span.flags}"
