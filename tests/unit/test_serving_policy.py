"""Whose number holds: the tool's own, its class's, its source's; and none above the ceiling."""

from __future__ import annotations

import pytest

from hermesd.model.definition import ToolDefinition
from hermesd.serving.policy import FALLBACK_TIMEOUT_MS, CallPolicy

POLICY = CallPolicy(timeouts_ms={"python": 3000, "batch": 15_000}, max_timeout_ms=60_000, max_concurrency=7)


def definition(**more: object) -> ToolDefinition:
    return ToolDefinition("a.b_c", "1.0.0", {}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "source", "expected"),
    [
        ({}, "python", 3000),
        ({"timeout_class": "batch"}, "python", 15_000),
        ({"timeout_ms": 5, "timeout_class": "batch"}, "python", 5),
        ({"timeout_ms": 999_999}, "python", 60_000),
        ({}, "unheard", FALLBACK_TIMEOUT_MS),
    ],
)
def test_the_nearest_timeout_holds(more: dict[str, object], source: str, expected: int) -> None:
    assert POLICY.timeout_ms(definition(**more), source) == expected


def test_a_tools_own_places_win() -> None:
    assert (POLICY.places(definition()), POLICY.places(definition(max_concurrency=2))) == (7, 2)
