"""From a caller's deadline to the daemon's own, which lies before it.

gRPC's C core rounds a deadline up when it sends it: measured, the server believes in up to 1 ms more below
1 s, 10 ms below 10 s, 100 ms below 100 s, 1 s below 1,000 s, and 10 s above. A reserve of 20 ms alone would
let the answer of a call of 1.5 s or 30 s come too late.
"""

from __future__ import annotations

#: How long before the caller's deadline the answer is ready.
RESERVE_S = 0.020
#: A deadline further away than this is none (gRPC gives some 290 years for "no deadline").
NO_DEADLINE_S = 10 * 365 * 86400.0
_STEPS = ((1.0, 0.001), (10.0, 0.010), (100.0, 0.100), (1000.0, 1.0))
_LAST_STEP_S = 10.0


def rounding_s(remaining_s: float) -> float:
    """By how much the caller's real deadline can lie before what was received."""
    for below, step in _STEPS:
        if remaining_s <= below:
            return step
    return _LAST_STEP_S


def own_deadline(remaining_s: float | None, now: float) -> float | None:
    """The monotonic second by which the answer must be ready; None when the caller waits for ever."""
    if remaining_s is None or remaining_s > NO_DEADLINE_S:
        return None
    return now + remaining_s - rounding_s(remaining_s) - RESERVE_S
