"""Whether a call failed on its way to whatever answers it, as against being answered with an error."""

from __future__ import annotations

from hermesd.model.call import Code, Outcome

#: HTTP statuses that say: not me, not now.
TRANSIENT_STATUSES = frozenset({502, 503, 504})
#: What `detail.reason` says when the connection, or the time for it, was at fault.
TRANSPORT_REASONS = frozenset({"connection", "timeout"})


def transport_fault(outcome: Outcome) -> str:
    """What failed: `timeout`, `connection`, `unavailable` or `status 503`; "" when the other side answered.

    A tool that answers an error is a healthy tool. What was refused before the runtime was entered is no
    fault of the way either: it was not tried.
    """
    code = outcome.code
    if code is Code.OK or not outcome.entered:
        return ""
    if code is Code.TIMEOUT:
        return "timeout"
    if code is Code.TOOL_ERROR or code is Code.UNAVAILABLE:
        status, reason = outcome.detail.get("status"), outcome.detail.get("reason")
        if isinstance(status, int) and status in TRANSIENT_STATUSES:
            return f"status {status}"
        if isinstance(reason, str) and reason in TRANSPORT_REASONS:
            return reason
        return "unavailable" if code is Code.UNAVAILABLE else ""
    return ""
