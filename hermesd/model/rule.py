"""What a definition says of one rule (`retry`, `circuit_breaker`) over the operator's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermesd.model.name import nearest

#: Some of a rule's settings, already checked; the others are the operator's.
Override = Mapping[str, float | bool]


@dataclass(frozen=True, slots=True)
class Bound:
    """What a number of a rule may be. `whole`: no fraction."""

    minimum: float
    maximum: float = 86_400_000
    whole: bool = True

    def fault(self, value: object) -> str | None:
        """Why `value` is no such number, or None."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected a number, got {type(value).__name__}"
        if self.whole and not isinstance(value, int):
            return f"expected a whole number, got {value}"
        if not self.minimum <= value <= self.maximum:
            return f"must be {self.minimum:g} to {self.maximum:g}, got {value}"
        return None


def rule_faults(field: str, raw: object, bounds: Mapping[str, Bound | None]) -> list[str]:
    """Every fault of what a definition says under `field`; a setting whose bound is None is true or false."""
    if not isinstance(raw, dict):
        return []  # told with the field's type
    faults = []
    for key, value in raw.items():
        if key not in bounds:
            near = nearest(str(key), bounds, 1)
            hint = f", did you mean {near[0]!r}?" if near else f"; it may say {', '.join(bounds)}"
            faults.append(f"{field}: unknown setting {key!r}{hint}")
            continue
        bound = bounds[key]
        if bound is None:
            if not isinstance(value, bool):
                faults.append(f"{field}/{key}: expected true or false, got {type(value).__name__}")
        elif (fault := bound.fault(value)) is not None:
            faults.append(f"{field}/{key}: {fault}")
    return faults
