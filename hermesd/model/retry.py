"""When a failed call is worth another attempt, and how long to wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hermesd.model.call import Code, Outcome, SideEffects
from hermesd.model.rule import Bound, Override
from hermesd.model.transport import transport_fault

#: What a definition's `retry` may say.
BOUNDS: Mapping[str, Bound | None] = {
    "max_attempts": Bound(1, 100),
    "backoff_ms": Bound(0),
    "multiplier": Bound(1, 100, whole=False),
    "jitter": Bound(0, 1, whole=False),
    "attempt_timeout_ms": Bound(0),
}


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How often and how fast. Milliseconds; `attempt_timeout_ms` 0: an attempt has the time of the call."""

    max_attempts: int = 3
    backoff_ms: int = 300
    multiplier: float = 2.0
    jitter: float = 0.2
    attempt_timeout_ms: int = 0

    def over(self, said: Override | None) -> RetryRule:
        """This rule with what a definition says of its own."""
        settings: dict[str, Any] = dict(said or {})
        return replace(self, **settings) if settings else self

    def backoff_s(self, attempts: int, chance: float) -> float:
        """How long to wait after so many attempts. `chance` in 0…1 spreads it by `jitter` to either side."""
        spread = 1 + self.jitter * (2 * chance - 1)
        return self.backoff_ms / 1000 * self.multiplier ** (attempts - 1) * spread


def is_transient(outcome: Outcome) -> bool:
    """Whether the same call may well succeed soon: the way there failed, or the tool itself says so."""
    not_begun = not outcome.entered and outcome.code is Code.UNAVAILABLE
    return bool(transport_fault(outcome)) or outcome.retryable or not_begun


def may_repeat(outcome: Outcome, side_effects: SideEffects, *, idempotent: bool) -> bool:
    """Whether a repetition can do no harm: nothing can have happened, or doing it twice is doing it once."""
    if idempotent or side_effects in ("none", "read"):
        return True
    return not outcome.entered or outcome.effect == "none"


def retry_after_s(outcome: Outcome) -> float:
    """How long the other side asked to be left alone, in seconds; 0 when it did not ask."""
    asked = outcome.detail.get("retry_after_ms")
    return max(0.0, float(asked)) / 1000 if isinstance(asked, int | float) else 0.0
