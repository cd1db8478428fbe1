"""Whatever calls do and when, a circuit keeps to its rule."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermesd.model.circuit import CircuitRule
from hermesd.serving.breaker import Breaker, CircuitState

RULE = CircuitRule(
    window=6, failure_ratio=0.5, consecutive_failures=3, min_calls=4, open_ms=1000, half_open_calls=2
)


class CircuitMachine(RuleBasedStateMachine):
    """Calls begin and end in any order while time goes on; a plain model keeps the same book."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.breaker = Breaker(RULE)
        self.flying: list[tuple[int, CircuitState]] = []
        self.verdicts: list[bool] = []  # since it closed
        self.opened_at = 0.0
        self.passed = 0

    @rule()
    def begin(self) -> None:
        before, wait = self.breaker.state, self.breaker.wait_s(self.now)
        if wait is not None:
            assert wait > 0
            assert before is not CircuitState.CLOSED, "a closed circuit refuses nobody"
            return
        if before is CircuitState.OPEN:
            assert self.now >= self.opened_at + RULE.open_ms / 1000
            self.passed = 0
        ticket = self.breaker.begin(self.now)
        self.flying.append((ticket, self.breaker.state))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), verdict=st.sampled_from([True, False, None]))
    def end(self, data: st.DataObject, verdict: bool | None) -> None:
        ticket, began_in = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        counts = ticket == self.breaker.era
        before = self.breaker.state
        self.breaker.end(ticket, verdict, self.now)
        after = self.breaker.state
        if not counts or verdict is None:
            assert after is before
            return
        assert began_in is before
        if before is CircuitState.HALF_OPEN:
            self._probed(verdict, after)
            return
        self.verdicts.append(verdict)
        last = self.verdicts[-RULE.window :]
        in_a_row = self.verdicts[-RULE.consecutive_failures :]
        trips = not verdict and (
            (len(in_a_row) == RULE.consecutive_failures and not any(in_a_row))
            or (len(last) >= RULE.min_calls and last.count(False) >= RULE.failure_ratio * len(last))
        )
        assert (after is CircuitState.OPEN) is trips
        if trips:
            self.opened_at = self.now

    def _probed(self, verdict: bool, after: CircuitState) -> None:
        self.passed = self.passed + 1 if verdict else 0
        if not verdict:
            assert after is CircuitState.OPEN
            self.opened_at = self.now
        elif self.passed == RULE.half_open_calls:
            assert after is CircuitState.CLOSED
            self.verdicts.clear()
        else:
            assert after is CircuitState.HALF_OPEN

    @rule(seconds=st.floats(0, 2, allow_nan=False))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def reset(self) -> None:
        self.breaker.reset()
        self.verdicts.clear()

    @invariant()
    def one_call_tries_at_a_time(self) -> None:
        if self.breaker.state is CircuitState.HALF_OPEN:
            trying = [ticket for ticket, _ in self.flying if ticket == self.breaker.era]
            assert len(trying) <= 1
            assert (self.breaker.wait_s(self.now) is None) is (not trying)

    @invariant()
    def it_never_stays_open_for_ever(self) -> None:
        if self.breaker.state is CircuitState.OPEN:
            assert self.breaker.wait_s(self.now + RULE.open_ms / 1000) is None


CircuitMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestCircuit = pytest.mark.promise("RES-6")(CircuitMachine.TestCase)
