"""When a circuit opens and closes, as the operator or a definition says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hermesd.model.rule import Bound, Override

#: What a definition's `circuit_breaker` may say.
BOUNDS: Mapping[str, Bound | None] = {
    "enabled": None,
    "window": Bound(1, 1000),
    "failure_ratio": Bound(0, 1, whole=False),
    "consecutive_failures": Bound(1, 1000),
    "min_calls": Bound(1, 1000),
    "open_ms": Bound(1),
    "half_open_calls": Bound(1, 1000),
}


@dataclass(frozen=True, slots=True)
class CircuitRule:
    """A circuit opens after `consecutive_failures`, or when of the last `window` calls, once there were
    `min_calls`, a `failure_ratio` failed. After `open_ms` it lets calls through one at a time, and closes
    when `half_open_calls` of them in a row succeeded.
    """

    enabled: bool = True
    window: int = 20
    failure_ratio: float = 0.5
    consecutive_failures: int = 5
    min_calls: int = 5
    open_ms: int = 30_000
    half_open_calls: int = 2

    def over(self, said: Override | None) -> CircuitRule:
        """This rule with what a definition says of its own."""
        settings: dict[str, Any] = dict(said or {})
        return replace(self, **settings) if settings else self
