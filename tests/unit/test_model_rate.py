"""A rate is what it says: a burst after a rest, the long run never above it, and waits that are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.model.rate import EPSILON, Bucket, RateLimit, milliseconds, rate_fault, read_rate


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"calls": 1}, None),
        ({"calls": 5, "per_s": 0.5}, None),
        ({}, "calls must be a whole number from 1"),
        ({"calls": 0}, "calls must be"),
        ({"calls": True}, "calls must be"),
        ({"calls": 1.5}, "calls must be"),
        ({"calls": "5"}, "calls must be"),
        ({"calls": 5, "per_s": 0}, "per_s must be"),
        ({"calls": 5, "per_s": True}, "per_s must be"),
        ({"calls": 5, "per_s": 100_000}, "per_s must be"),
        ({"calls": 5, "per_s": float("nan")}, "per_s must be"),
        ({"calls": 5, "per": 1}, "unknown key 'per'"),
    ],
)
def test_what_is_no_rate_is_told(value: dict[str, object], fault: str | None) -> None:
    found = rate_fault(value)
    assert (found is None) if fault is None else (found is not None and fault in found)
    if found is None:
        assert read_rate(value) == RateLimit(int(str(value["calls"])), float(str(value.get("per_s", 1))))


def test_a_burst_then_one_by_one() -> None:
    bucket = Bucket(RateLimit(3, 6.0), 100.0)
    for _ in range(3):
        assert bucket.wait_s(100.0) == 0.0
        bucket.take()
    assert bucket.wait_s(100.0) == pytest.approx(2.0)
    assert bucket.wait_s(101.5) == pytest.approx(0.5)
    assert bucket.wait_s(102.0) == 0.0
    bucket.take()
    assert bucket.wait_s(102.0) == pytest.approx(2.0)
    bucket.give_back()
    assert bucket.wait_s(102.0) == 0.0


def test_another_limit_begins_where_the_old_one_stands() -> None:
    bucket = Bucket(RateLimit(5, 5.0), 0.0)
    for _ in range(4):
        bucket.take()
    bucket.change(RateLimit(2, 10.0), 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(5.0), "four were used, and no change gives them back"
    bucket.change(RateLimit(5, 5.0), 0.0)
    assert bucket.wait_s(0.0) == 0.0, "two were used of two, so three of five are left"


LIMITS = st.builds(RateLimit, st.integers(1, 20), st.floats(0.01, 100))


@given(LIMITS, st.lists(st.floats(0, 10), min_size=1, max_size=100))
@pytest.mark.promise("ADM-4")
def test_in_no_span_do_more_calls_begin_than_the_rate_allows(limit: RateLimit, pauses: list[float]) -> None:
    bucket, now, begun = Bucket(limit, 0.0), 0.0, []
    for pause in pauses:
        now += pause
        if bucket.wait_s(now) == 0.0:
            bucket.take()
            begun.append(now)
    for first, start in enumerate(begun):
        for count, end in enumerate(begun[first:], 1):
            assert count <= limit.calls + (end - start) * limit.calls / limit.per_s + EPSILON


@given(LIMITS, st.integers(1, 60), st.floats(0, 1e6))
@pytest.mark.promise("ADM-4")
def test_who_waits_as_long_as_was_said_is_let_in(limit: RateLimit, calls: int, start: float) -> None:
    bucket, now = Bucket(limit, start), start
    for _ in range(calls):
        if wait_s := bucket.wait_s(now):
            now += milliseconds(wait_s) / 1000
            assert bucket.wait_s(now) == 0.0
        bucket.take()
