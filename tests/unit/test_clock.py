"""Identifiers carry their time and are never given twice."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from hermesd.clock import Clock, IdMaker, SystemClock, uuid7


class At:
    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return self._moment


def by_maker(clock: Clock) -> str:
    return IdMaker(clock).new()


@pytest.mark.parametrize("make", [uuid7, by_maker])
def test_a_uuid7_is_one_of_rfc_9562(make: Callable[[Clock], str]) -> None:
    moment = datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    made = uuid.UUID(make(At(moment)))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == int(moment.timestamp() * 1000)


def test_later_ids_sort_later() -> None:
    days = [datetime(2030, 1, day, tzinfo=UTC) for day in range(1, 10)]
    made = [uuid7(At(day)) for day in days]
    assert made == sorted(made)


def test_ids_of_one_instant_differ() -> None:
    clock = At(datetime(2030, 1, 1, tzinfo=UTC))
    maker = IdMaker(clock)
    assert len({uuid7(clock) for _ in range(5000)} | {maker.new() for _ in range(5000)}) == 10_000


def test_the_systems_clock_tells_utc_and_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()
