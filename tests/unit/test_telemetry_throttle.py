"""What is told over and over is told within bounds, and what is left out is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermesd.telemetry.throttle import MAX_KEYS, Throttle


def test_a_burst_is_told_then_one_at_a_time() -> None:
    throttle = Throttle(3, 0.5)
    assert [throttle.admit("a", 0.0) for _ in range(5)] == [0, 0, 0, None, None]
    assert throttle.admit("a", 1.9) is None
    assert throttle.admit("a", 2.0) == 3
    assert throttle.admit("a", 2.0) is None


def test_one_key_says_nothing_of_another() -> None:
    throttle = Throttle(1, 0.1)
    assert (throttle.admit("a", 0), throttle.admit("b", 0), throttle.admit("a", 0)) == (0, 0, None)


def test_the_keys_are_bounded() -> None:
    throttle = Throttle(1, 0.0)
    for number in range(MAX_KEYS + 5):
        throttle.admit(str(number), 0.0)
    assert throttle.admit("0", 0.0) == 0, "the oldest was forgotten"
    assert throttle.admit(str(MAX_KEYS), 0.0) is None


@given(st.lists(st.floats(0, 3), max_size=60))
def test_nothing_is_left_out_uncounted(gaps: list[float]) -> None:
    throttle, now, told, counted = Throttle(4, 1.0), 0.0, 0, 0
    for gap in gaps:
        now += gap
        unsaid = throttle.admit("a", now)
        if unsaid is not None:
            told += 1
            counted += unsaid
    last = throttle.admit("a", now + 10)
    assert last is not None
    assert told + counted + last == len(gaps)
    assert told <= 4 + now + 1e-6
