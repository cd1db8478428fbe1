"""The circuits of all tools and of what several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from hermesd.clock import Clock
from hermesd.model.call import Code, Outcome
from hermesd.model.status import Standing, State
from hermesd.model.transport import transport_fault
from hermesd.serving.breaker import Breaker, CircuitState, Turns
from hermesd.serving.catalogue import Entry
from hermesd.serving.course import Course
from hermesd.serving.deadline import had_its_time
from hermesd.serving.instance import Instance
from hermesd.serving.policy import CallPolicy
from hermesd.serving.registry import Registry

#: The functions of such a plugin share nothing but the daemon; each talks to whatever it likes.
WITHOUT_UPSTREAM = frozenset({"inprocess"})
#: Answers that say nothing about whether the other side can be reached.
_SILENT = frozenset({Code.CANCELLED, Code.SANDBOX_KILLED, Code.INTERNAL})
#: The faults of a runtime's own way; what else fails is a service behind one tool.
_UPSTREAM_FAULTS = frozenset({"timeout", "unavailable"})


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """One circuit changed its state; None: what it guarded is gone. `name` is a tool's or a plugin's."""

    kind: Literal["tool", "upstream"]
    name: str
    plugin: str
    state: CircuitState | None
    reason: str = ""
    open_ms: int = 0


class Circuit:
    """What guards the calls of one tool: its own breaker, and the one of what it shares with others."""

    __slots__ = ("entry", "has_settled", "policy", "tool", "upstream")

    def __init__(self, entry: Entry, policy: CallPolicy, tool: Breaker, upstream: Breaker | None) -> None:
        self.entry = entry
        self.policy = policy
        self.tool = tool
        self.upstream = upstream
        #: To its own breaker one more call that gets through is nothing new: most are not counted at all.
        self.has_settled = False

    @property
    def breakers(self) -> tuple[Breaker, ...]:
        return (self.tool,) if self.upstream is None else (self.tool, self.upstream)


class Circuits:
    """Circuits live as long as the instance that serves the tool: a reload that leaves it alone leaves them
    too, and new content begins with a closed one. All methods belong to the event loop's thread.
    """

    def __init__(
        self, registry: Registry, clock: Clock, tell: Callable[[CircuitChange], None] = lambda change: None
    ) -> None:
        self._registry = registry
        self._clock = clock
        self.tell = tell
        self._turns = Turns()
        #: How many circuits are not closed: while there is none, nothing is asked of any.
        self.troubled = 0
        self._tools: dict[str, Circuit] = {}
        self._upstreams: dict[str, tuple[Instance | None, Breaker]] = {}

    def of(self, entry: Entry, policy: CallPolicy) -> Circuit:
        """The circuit of a tool, by the rule that holds now."""
        circuit = self._tools.get(entry.definition.name)
        if circuit is not None and circuit.entry is entry and circuit.policy is policy:
            return circuit
        return self._renewed(circuit, entry, policy)

    def refusal(self, circuit: Circuit) -> Outcome | None:
        """CIRCUIT_OPEN when no call may begin now, else None."""
        if not self.troubled:
            return None
        now = self._clock.monotonic()
        waits = [(wait, each) for each in circuit.breakers if (wait := each.wait_s(now)) is not None]
        if not waits:
            return None
        wait, breaker = max(waits, key=lambda each: each[0])
        name = circuit.entry.definition.name
        what = name if breaker is circuit.tool else f"{circuit.entry.plugin}, which runs {name},"
        return Outcome(
            Code.CIRCUIT_OPEN,
            message=f"{what} is not called for now: {breaker.reason}",
            retryable=True,
            detail={"reason": breaker.reason, "retry_after_ms": max(1, int(wait * 1000))},
        )

    def begin(self, circuit: Circuit) -> int:
        """A call begins that `refusal` did not refuse in the same turn of the loop. `end` must follow, with
        the ticket that this gives.
        """
        if not self.troubled:
            return self._turns.now
        now = self._clock.monotonic()
        before = [each.state for each in circuit.breakers]
        for each in circuit.breakers:
            each.begin(now)
        self._announce(circuit, before)
        return self._turns.now

    def end(self, circuit: Circuit, ticket: int, course: Course, outcome: Outcome | None) -> None:
        """The call ended with `outcome`; None: it was cut, or its end says nothing."""
        if outcome is not None and outcome.code is Code.OK and circuit.has_settled:
            upstream = circuit.upstream
            if upstream is None or upstream.has_settled:
                return
        fault = transport_fault(outcome) if outcome is not None else ""
        verdict = _verdict(outcome, fault, course)
        now = self._clock.monotonic()
        name = circuit.entry.definition.name
        before = [each.state for each in circuit.breakers]
        for each in circuit.breakers:
            is_elsewhere = each.shared and fault and fault not in _UPSTREAM_FAULTS
            each.end(ticket, None if is_elsewhere else verdict, now, tool=name, fault=fault)
        self._announce(circuit, before)
        circuit.has_settled = circuit.tool.has_settled

    def reset(self, entry: Entry) -> bool:
        """Close what keeps this tool's calls from beginning. Whether anything did."""
        circuit = self._tools.get(entry.definition.name)
        if circuit is None:
            return False
        before = [each.state for each in circuit.breakers]
        changed = [each.reset() for each in circuit.breakers]
        circuit.has_settled = False
        self._announce(circuit, before)
        return any(changed)

    def open_circuits(self) -> list[CircuitChange]:
        """Those that are not closed, for whoever looks at the daemon."""
        found = [
            CircuitChange("tool", name, each.entry.plugin, each.tool.state, each.tool.reason)
            for name, each in self._tools.items()
            if each.tool.state
        ]
        found.extend(
            CircuitChange("upstream", name, name, each.state, each.reason)
            for name, (_, each) in self._upstreams.items()
            if each.state
        )
        return found

    def forget_gone(self, tools: Mapping[str, Entry]) -> None:
        """Drop the circuits whose instance serves no more; `tools` is the catalogue."""
        serving = {entry.plugin: entry.instance for entry in tools.values()}
        for plugin in [name for name, (each, _) in self._upstreams.items() if serving.get(name) is not each]:
            self._drop(CircuitChange("upstream", plugin, plugin, None), self._upstreams.pop(plugin)[1])
        for name, circuit in list(self._tools.items()):
            entry = tools.get(name)
            if entry is None or entry.instance is not circuit.entry.instance:
                del self._tools[name]
                self._drop(CircuitChange("tool", name, circuit.entry.plugin, None), circuit.tool)

    def _renewed(self, known: Circuit | None, entry: Entry, policy: CallPolicy) -> Circuit:
        name = entry.definition.name
        rule = policy.circuit.over(entry.definition.circuit_breaker)
        if known is not None and known.entry.instance is entry.instance:
            tool = known.tool
            tool.follow(rule)
        else:
            tool = Breaker(rule, turns=self._turns)
            if known is not None:
                self._drop(CircuitChange("tool", name, known.entry.plugin, None), known.tool)
        circuit = self._tools[name] = Circuit(entry, policy, tool, self._upstream(entry, policy))
        self._let_go(circuit)
        return circuit

    def _let_go(self, circuit: Circuit) -> None:
        """Close what was switched off while it was open."""
        before = [each.state for each in circuit.breakers]
        for each in circuit.breakers:
            if each.state and not each.rule.enabled:
                each.reset()
        self._announce(circuit, before)

    def _upstream(self, entry: Entry, policy: CallPolicy) -> Breaker | None:
        instance, plugin = entry.instance, entry.plugin
        if instance is None or instance.runtime.kind in WITHOUT_UPSTREAM:
            return None
        known = self._upstreams.get(plugin)
        if known is not None and known[0] is instance:
            known[1].follow(policy.circuit)
            return known[1]
        if known is not None:
            self._drop(CircuitChange("upstream", plugin, plugin, None), known[1])
        breaker = Breaker(policy.circuit, shared=True, turns=self._turns)
        self._upstreams[plugin] = (instance, breaker)
        return breaker

    def _drop(self, change: CircuitChange, breaker: Breaker) -> None:
        if breaker.state:
            self.troubled -= 1
        if breaker.era:
            self._registry.set_trouble(change.name, None)
            self.tell(change)

    def _announce(self, circuit: Circuit, before: list[CircuitState]) -> None:
        """Tell of each breaker that is not what it was."""
        entry = circuit.entry
        for breaker, was in zip(circuit.breakers, before, strict=True):
            if breaker.state is was:
                continue
            self.troubled += bool(breaker.state) - bool(was)
            is_own = breaker is circuit.tool
            name = entry.definition.name if is_own else entry.plugin
            self._registry.set_trouble(name, self._standing(entry, breaker))
            self.tell(
                CircuitChange(
                    "tool" if is_own else "upstream", name, entry.plugin, breaker.state, breaker.reason,
                    breaker.rule.open_ms,
                )
            )  # fmt: skip

    def _standing(self, entry: Entry, breaker: Breaker) -> Standing | None:
        if not breaker.state:
            return None
        name = entry.definition.name
        known = self._registry.trouble_of(name if not breaker.shared else entry.plugin)
        since = known.since if known is not None else self._clock.now()
        remedy = f"it is tried again by itself; hermesd ctl tools reset {name} does so at once"
        return Standing(State.DEGRADED, since, f"its circuit is open: {breaker.reason}", remedy)


def _verdict(outcome: Outcome | None, fault: str, course: Course) -> bool | None:
    """True: the other side answered, whatever it said. False: it could not be reached. None: not known.

    A timeout that a caller in a hurry asked for is not held against the tool: nobody may close a tool to
    others by giving it a millisecond.
    """
    if outcome is None or not outcome.entered or outcome.code in _SILENT:
        return None
    if outcome.code is Code.TIMEOUT and not had_its_time(course):
        return None
    return not fault
