"""What a benchmark hands back: figures, each with the bound that it must keep, if it has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "MISSED", ""]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. At most one of the bounds is set; without one it is information."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    setting: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.at_most is not None:
            return "ok" if self.value <= self.at_most else "MISSED"
        if self.at_least is not None:
            return "ok" if self.value >= self.at_least else "MISSED"
        return ""

    @property
    def bound(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return "" if self.at_least is None else f"≥ {self.at_least:g}"

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "bound": self.bound,
            "verdict": self.verdict,
            "setting": self.setting,
        }


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie; nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


def spread(name: str, seconds: Sequence[float], setting: str = "") -> list[Figure]:
    """p50 and p99 of durations, as information."""
    return [
        Figure(f"{name} p50", percentile(seconds, 0.5) * 1000, "ms", setting=setting),
        Figure(f"{name} p99", percentile(seconds, 0.99) * 1000, "ms", setting=setting),
    ]


def table(figures: Sequence[Figure]) -> str:
    """The figures as aligned lines."""
    rows = [(each.name, _rounded(each.value), each.unit, each.bound, each.verdict) for each in figures]
    name, value, unit, bound, verdict = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        f"{row[0]:<{name}}  {row[1]:>{value}} {row[2]:<{unit}}  "
        f"{row[3]:<{bound}}  {row[4]:<{verdict}}  {setting}".rstrip()
        for row, setting in zip(rows, (each.setting for each in figures), strict=True)
    )


def _rounded(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3f}"
