"""One circuit: closed while calls get through, open while they do not, half open while single ones try."""

from __future__ import annotations

from enum import IntEnum

from hermesd.model.circuit import CircuitRule

#: Another call is trying; whether it gets through is known soon.
PROBE_WAIT_S = 1.0
#: What several tools share is at fault when so many of them fail.
SHARED_BY = 2


class CircuitState(IntEnum):
    """The numbers are those of hermesd_circuit_state."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Turns:
    """Counts the changes of state of breakers that share it: a number says what was before what."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


class Breaker:
    """Each call that begins must end, with what it has shown: True it got through, False it did not, None
    nothing. A call counts only for the state in which it began: what began before the circuit opened says
    nothing about whether it may close.

    `shared`: several tools use what it guards. It then opens only on failures of two or more of them, for one
    that fails alone has a circuit of its own. Times are monotonic seconds.
    """

    __slots__ = (
        "_culprits", "_mask", "_passed", "_probing", "_row", "_seen", "_turns", "_until", "_window",
        "era", "reason", "rule", "shared", "state",
    )  # fmt: skip

    def __init__(self, rule: CircuitRule, *, shared: bool = False, turns: Turns | None = None) -> None:
        self.rule = rule
        self.shared = shared
        self.state = CircuitState.CLOSED
        #: Why it is not closed.
        self.reason = ""
        #: The turn of the last change of state, 0: none yet. Calls that began before it are late.
        self.era = 0
        self._turns = turns or Turns()
        self._mask = (1 << rule.window) - 1
        #: One bit for each of the last calls, 1 for a failure; the newest is the lowest.
        self._window = 0
        self._seen = 0
        self._row = 0
        self._culprits: set[str] = set()
        self._until = 0.0
        self._probing = False
        self._passed = 0

    def follow(self, rule: CircuitRule) -> None:
        """From now on by this rule; what has been seen, and the state, stay."""
        if rule == self.rule:
            return
        self.rule = rule
        self._mask = (1 << rule.window) - 1
        self._window &= self._mask
        self._seen = min(self._seen, rule.window)

    def wait_s(self, now: float) -> float | None:
        """None: a call may begin now. Else how long until it is worth asking again, in seconds."""
        if self.state is CircuitState.CLOSED:
            return None
        if self.state is CircuitState.OPEN:
            return self._until - now if now < self._until else None
        return PROBE_WAIT_S if self._probing else None

    def begin(self, now: float) -> int:
        """A call that `wait_s` lets through begins. Gives the ticket that its end is told with."""
        if self.state is not CircuitState.CLOSED:
            if self.state is CircuitState.OPEN:
                self._turn(CircuitState.HALF_OPEN)
                self._passed = 0
            self._probing = True
        return self._turns.now

    def end(self, ticket: int, verdict: bool | None, now: float, *, tool: str = "", fault: str = "") -> bool:
        """The call of `ticket` ended. Whether that changed the state."""
        if ticket < self.era:
            return False
        if self.state is CircuitState.HALF_OPEN:
            return self._probed(verdict, now, fault)
        if verdict is None:
            return False
        if verdict:
            self._note(0)
            self._row = 0
            return False
        return self._failed(now, tool, fault)

    @property
    def has_settled(self) -> bool:
        """Another call that gets through would change nothing."""
        return not self._window and not self.state and self._seen == self.rule.window

    def reset(self) -> bool:
        """Close it as if nothing had happened. Whether it was not closed."""
        changed = self.state is not CircuitState.CLOSED
        self._close()
        return changed

    def _note(self, failed: int) -> None:
        if self._window or failed:
            self._window = (self._window << 1 | failed) & self._mask
            if not self._window:
                self._culprits.clear()
        if self._seen < self.rule.window:
            self._seen += 1

    def _failed(self, now: float, tool: str, fault: str) -> bool:
        rule = self.rule
        self._note(1)
        self._row += 1
        self._culprits.add(tool)
        failures = self._window.bit_count()
        if not rule.enabled or (self.shared and len(self._culprits) < SHARED_BY):
            return False
        if self._row >= rule.consecutive_failures:
            reason = f"{self._row} calls in a row failed, the last one: {fault}"
        elif self._seen >= min(rule.min_calls, rule.window) and failures >= rule.failure_ratio * self._seen:
            reason = f"{failures} of the last {self._seen} calls failed, the last one: {fault}"
        else:
            return False
        self._open(now, reason)
        return True

    def _probed(self, verdict: bool | None, now: float, fault: str) -> bool:
        self._probing = False
        if verdict is None:
            return False
        if not verdict:
            self._open(now, f"a call that tried it again failed: {fault}")
            return True
        self._passed += 1
        if self._passed < self.rule.half_open_calls:
            return False
        self._close()
        return True

    def _open(self, now: float, reason: str) -> None:
        self._turn(CircuitState.OPEN)
        self._until = now + self.rule.open_ms / 1000
        self.reason = reason

    def _close(self) -> None:
        self._turn(CircuitState.CLOSED)
        self._window = self._seen = self._row = 0
        self._culprits.clear()
        self.reason = ""

    def _turn(self, state: CircuitState) -> None:
        self.state = state
        self._turns.now += 1
        self.era = self._turns.now
        self._probing = False
