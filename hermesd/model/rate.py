"""How many calls may begin in a span of time: what an author or operator writes, and what obeys it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

#: Beyond these a number is a slip, and the arithmetic of the bucket no longer exact.
MAX_CALLS = 1_000_000
MAX_PER_S = 86_400.0
#: What the rounding of a clock that has run for long may take from a whole call. It is owed, not given: the
#: next call waits for it.
EPSILON = 1e-3


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `calls` at once after a rest, and `calls` every `per_s` seconds in the long run."""

    calls: int
    per_s: float = 1.0

    def __str__(self) -> str:
        return f"{self.calls} calls every {self.per_s:g} s"


@dataclass(frozen=True, slots=True)
class Bound:
    """What the operator said of one plugin or agent. None: the default holds, or there is no rate."""

    max_concurrency: int | None = None
    rate: RateLimit | None = None


def rate_fault(value: Mapping[str, object]) -> str | None:
    """What is wrong with `{calls, per_s}`, or None."""
    for key in value:
        if key not in ("calls", "per_s"):
            return f"unknown key {key!r}; there are calls and per_s"
    calls, per_s = value.get("calls"), value.get("per_s", 1)
    if not isinstance(calls, int) or isinstance(calls, bool) or not 1 <= calls <= MAX_CALLS:
        return f"calls must be a whole number from 1 to {MAX_CALLS}"
    if not isinstance(per_s, int | float) or isinstance(per_s, bool) or not 0 < per_s <= MAX_PER_S:
        return f"per_s must be a number of seconds above 0 and up to {MAX_PER_S:g}"
    return None


def read_rate(value: Mapping[str, object]) -> RateLimit:
    """The limit that `{calls, per_s}` says; it has no `rate_fault`."""
    return RateLimit(int(str(value["calls"])), float(str(value.get("per_s", 1))))


class Bucket:
    """One limit's tokens. Times are monotonic seconds that the caller hands in and that never go back."""

    __slots__ = ("_at", "_tokens", "limit")

    def __init__(self, limit: RateLimit, now: float) -> None:
        """Full: whoever has not called yet may call at once."""
        self.limit = limit
        self._tokens = float(limit.calls)
        self._at = now

    def wait_s(self, now: float) -> float:
        """Seconds until one more call may begin; 0.0: now."""
        self._fill(now)
        missing = 1.0 - self._tokens
        return 0.0 if missing <= EPSILON else missing * self.limit.per_s / self.limit.calls

    def take(self) -> None:
        """Count one call; only after `wait_s` has answered 0.0."""
        self._tokens -= 1.0

    def give_back(self) -> None:
        """A call that was counted did not begin after all."""
        self._tokens = min(float(self.limit.calls), self._tokens + 1.0)

    def change(self, limit: RateLimit, now: float) -> None:
        """Obey another limit from now on. What was used up of the old one stays used up."""
        self._fill(now)
        used = self.limit.calls - self._tokens
        self.limit = limit
        self._tokens = max(0.0, limit.calls - used)

    def _fill(self, now: float) -> None:
        limit = self.limit
        if now > self._at:
            self._tokens = min(
                float(limit.calls), self._tokens + (now - self._at) * limit.calls / limit.per_s
            )
            self._at = now


def milliseconds(seconds: float) -> int:
    """A wait as callers are told it: rounded up, so that whoever waits so long is not refused again."""
    return math.ceil(seconds * 1000)
