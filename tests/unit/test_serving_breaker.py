"""A circuit opens on what fails, is tried by one call at a time, and closes on what gets through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermesd.model.circuit import CircuitRule
from hermesd.serving.breaker import PROBE_WAIT_S, Breaker, CircuitState

RULE = CircuitRule(
    window=10, failure_ratio=0.5, consecutive_failures=4, min_calls=6, open_ms=1000, half_open_calls=2
)


def run(breaker: Breaker, verdicts: str, now: float = 0.0, tool: str = "a.b_c") -> None:
    """One call after the other: `+` got through, `-` did not, `?` is not known."""
    for each in verdicts:
        assert breaker.wait_s(now) is None
        ticket = breaker.begin(now)
        breaker.end(ticket, {"+": True, "-": False, "?": None}[each], now, tool=tool, fault="timeout")


@pytest.mark.promise("RES-6")
@pytest.mark.parametrize(
    ("verdicts", "opens"),
    [
        ("----", True),
        ("---", False),
        ("---+-", False),
        ("-?-?-?-", True),
        ("+-+-+", False),
        ("+-+-+-", True),
        ("++++++++++----", True),
        ("++++++++++---+-+", False),
        ("++++++++++---+-+-", True),
    ],
)
def test_it_opens_after_failures_in_a_row_or_a_part_of_the_window(verdicts: str, opens: bool) -> None:
    breaker = Breaker(RULE)
    run(breaker, verdicts[:-1])
    assert breaker.state is CircuitState.CLOSED
    run(breaker, verdicts[-1])
    assert (breaker.state is CircuitState.OPEN) is opens


def test_what_gets_through_changes_nothing_once_it_has_settled() -> None:
    breaker = Breaker(RULE)
    for each in "++++++++++-+++++++++++-+-+-":
        settled = breaker.has_settled
        before = [getattr(breaker, name) for name in ("_window", "_seen", "_row", "state")]
        run(breaker, each)
        after = [getattr(breaker, name) for name in ("_window", "_seen", "_row", "state")]
        assert each == "-" or not settled or before == after
    assert not breaker.has_settled
    run(breaker, "+" * 10)
    assert breaker.has_settled


@pytest.mark.promise("RES-7")
def test_an_open_circuit_says_how_long_and_is_then_tried_by_one_call_at_a_time() -> None:
    breaker = Breaker(RULE)
    run(breaker, "----")
    assert breaker.reason == "4 calls in a row failed, the last one: timeout"
    assert breaker.wait_s(0.25) == 0.75
    assert breaker.wait_s(1.0) is None
    first = breaker.begin(1.0)
    assert breaker.state is CircuitState.HALF_OPEN
    assert breaker.wait_s(1.0) == PROBE_WAIT_S
    assert not breaker.end(first, True, 1.1)
    assert breaker.wait_s(1.1) is None
    second = breaker.begin(1.1)
    assert breaker.end(second, True, 1.2)
    assert (breaker.state, breaker.reason) == (CircuitState.CLOSED, "")
    run(breaker, "---", 1.2)
    assert breaker.state is CircuitState.CLOSED, "what was before it closed is forgotten"


def test_a_try_that_fails_opens_it_again_for_as_long() -> None:
    breaker = Breaker(RULE)
    run(breaker, "----")
    ticket = breaker.begin(1.5)
    assert breaker.end(ticket, False, 2.0, fault="connection")
    assert breaker.wait_s(2.0) == 1.0
    assert "tried it again failed: connection" in breaker.reason


def test_a_try_that_was_cut_lets_the_next_one_try() -> None:
    breaker = Breaker(RULE)
    run(breaker, "----")
    breaker.end(breaker.begin(1.0), None, 1.0)
    assert (breaker.state, breaker.wait_s(1.0)) == (CircuitState.HALF_OPEN, None)


def test_what_began_before_it_opened_says_nothing_afterwards() -> None:
    breaker = Breaker(RULE)
    late = breaker.begin(0.0)
    run(breaker, "----")
    assert not breaker.end(late, True, 0.5)
    assert breaker.state is CircuitState.OPEN
    probe = breaker.begin(1.0)
    assert not breaker.end(late, False, 1.0)
    assert breaker.wait_s(1.0) == PROBE_WAIT_S, "the late one did not free the place of the try"
    breaker.end(probe, True, 1.0)


def test_what_is_shared_opens_only_when_two_of_its_tools_fail() -> None:
    breaker = Breaker(RULE, shared=True)
    run(breaker, "--------")
    assert breaker.state is CircuitState.CLOSED
    run(breaker, "-", tool="a.other_one")
    assert breaker.state is CircuitState.OPEN


def test_a_tool_that_failed_long_ago_is_no_second_one() -> None:
    breaker = Breaker(RULE, shared=True)
    run(breaker, "-" + "+" * 10, tool="a.other_one")
    run(breaker, "-" * 20)
    assert breaker.state is CircuitState.CLOSED


def test_a_reset_closes_it_at_once() -> None:
    breaker = Breaker(RULE)
    assert not breaker.reset()
    run(breaker, "----")
    assert breaker.reset()
    assert breaker.wait_s(0.0) is None


def test_one_that_is_switched_off_never_opens() -> None:
    breaker = Breaker(replace(RULE, enabled=False))
    run(breaker, "-" * 50)
    assert breaker.state is CircuitState.CLOSED


def test_a_new_rule_keeps_what_was_seen_as_far_as_it_fits() -> None:
    breaker = Breaker(RULE)
    run(breaker, "++++---")
    breaker.follow(replace(RULE, window=4, min_calls=4, failure_ratio=0.75, consecutive_failures=10))
    run(breaker, "-")
    assert breaker.state is CircuitState.OPEN
    assert breaker.reason == "4 of the last 4 calls failed, the last one: timeout"
