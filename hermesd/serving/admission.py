"""The stage before a tool runs: rates, then a place of the tool, of its plugin and of the agent that asks.

What a call does not use costs it nothing: without a rate and with places free, nothing is made and nothing
waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Literal, NoReturn

from hermesd.clock import Clock
from hermesd.model.call import CallRequest, Code
from hermesd.model.definition import ToolDefinition
from hermesd.model.rate import Bucket, RateLimit, milliseconds
from hermesd.serving.catalogue import Entry
from hermesd.serving.course import Course, Refused
from hermesd.serving.place import UNBOUNDED, Gate, Party, Pool, Turn, serve_party
from hermesd.serving.policy import UNSAID, CallPolicy
from hermesd.serving.time_limit import TimeLimit

Scope = Literal["tool", "plugin", "agent"]
#: The party of the operator, who has no bounds of its own and whose name no agent has.
OPERATOR = ""


@dataclass(frozen=True, slots=True)
class Crowd:
    """A limit that is reached: how many calls run within it, and how many wait for it."""

    scope: Scope
    name: str
    running: int
    places: int
    waiting: int


class Admission:
    """The places and rates of all tools, plugins and agents. They outlive reloads: no swap doubles them."""

    def __init__(self, policy: CallPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._gates: dict[str, tuple[ToolDefinition, Gate]] = {}
        self._pools: dict[str, Pool] = {}
        self._parties: dict[str, Party] = {}
        self._nested: dict[str, Party] = {}
        #: Whether there is any rate that a call may have to obey.
        self._rated = False

    def gate(self, entry: Entry) -> Gate:
        """The places of the entry's tool, with the limits of just this definition."""
        definition = entry.definition
        known = self._gates.get(definition.name)
        if known is not None and known[0] is definition:
            return known[1]
        return self._renew(entry, known[1] if known is not None else None)

    def party(self, request: CallRequest) -> Party:
        """On whose wish the call happens."""
        caller = request.caller
        if caller.kind == "operator":
            name, known = OPERATOR, self._parties
        elif caller.on_behalf_of is None:
            name, known = caller.name, self._parties
        else:
            principal = caller.principal
            name, known = OPERATOR if principal.kind == "operator" else principal.name, self._nested
        party = known.get(name)
        return party if party is not None else self._welcome(name, known)

    def enter(self, gate: Gate, party: Party) -> bool:
        """Count the call and take its places; False: it has to `wait` for them. Refused: RATE_LIMITED."""
        if self._rated:
            self._take_tokens(gate, party)
        return gate.enter(party)

    async def wait(self, gate: Gate, party: Party, course: Course) -> None:
        """Wait for the places, no longer than the operator lets a call wait.

        Refused: OVERLOADED. Raises TimeoutError when the call's own time is up.
        """
        policy, began = self._policy, self._clock.monotonic()
        left_s = max(0.0, course.deadline - began)
        try:
            admitted = await _turn(gate, party, min(policy.queue_ms / 1000, left_s))
        except BaseException as error:
            self._give_back(gate, party)
            course.queued_s = self._clock.monotonic() - began
            if not isinstance(error, TimeoutError) or left_s <= policy.queue_ms / 1000:
                raise
            self._overloaded(gate, party, f"no place came free within {policy.queue_ms} ms")
        course.queued_s = self._clock.monotonic() - began
        if not admitted:
            self._give_back(gate, party)
            self._overloaded(gate, party, "its queue is full")

    def resize(self, policy: CallPolicy) -> None:
        """Obey other numbers from now on. Who is in stays in; who waits for a place that is new goes in."""
        self._policy = policy
        now = self._clock.monotonic()
        for name, pool in self._pools.items():
            pool.places = policy.plugin_places(name, 0)
            pool.bucket = _bucket(pool.bucket, policy.plugins.get(name, UNSAID).rate, now)
        for definition, gate in self._gates.values():
            gate.places = policy.places(definition)
            gate.pool.places = policy.plugin_places(gate.pool.name, max(gate.places, gate.pool.places))
        for name, party in self._parties.items():
            self._bound(party, name, now)
        self._rated = any(each.bucket is not None for each in self._all())
        for _, gate in self._gates.values():
            _exhaust(gate.pool.serve)
            _exhaust(gate.serve)
        for party in self._parties.values():
            _exhaust(partial(serve_party, party))

    def forget_all_but(self, tools: Container[str]) -> None:
        """Drop what nobody uses: tools that are gone, plugins without tools, agents without calls."""
        for name in [each for each in self._gates if each not in tools]:
            gate = self._gates[name][1]
            if not gate.running and not gate.waiting:
                del self._gates[name]
        used = {gate.pool.name for _, gate in self._gates.values()}
        self._pools = {name: each for name, each in self._pools.items() if each.running or name in used}
        for known in (self._parties, self._nested):
            # One with a rate is kept: whoever used it up gets no new one by waiting for a reload.
            for name in [each for each, party in known.items() if _idle(party)]:
                del known[name]

    def waiting(self) -> int:
        """How many calls wait for a place. The one method that other threads may call."""
        return sum(gate.waiting for _, gate in list(self._gates.values()))

    def crowded(self) -> list[Crowd]:
        """The limits that are reached now."""
        crowds = [
            Crowd("tool", name, gate.running, gate.places, gate.waiting)
            for name, (_, gate) in self._gates.items()
            if gate.running >= gate.places
        ]
        crowds.extend(
            Crowd("plugin", name, pool.running, pool.places, _behind(pool))
            for name, pool in self._pools.items()
            if pool.running >= pool.places
        )
        crowds.extend(
            Crowd("agent", name, party.running, party.places, _of(party))
            for name, party in self._parties.items()
            if party.running >= party.places
        )
        return crowds

    def _renew(self, entry: Entry, gate: Gate | None) -> Gate:
        definition, policy, now = entry.definition, self._policy, self._clock.monotonic()
        pool = self._pools.get(entry.plugin)
        if pool is None:
            pool = self._pools[entry.plugin] = Pool(entry.plugin)
            pool.places = policy.plugin_places(entry.plugin, 0)
            pool.bucket = _bucket(None, policy.plugins.get(entry.plugin, UNSAID).rate, now)
        places = policy.places(definition)
        if gate is None or gate.pool is not pool:
            gate = Gate(definition.name, places, pool)
        gate.places = places
        gate.bucket = _bucket(gate.bucket, definition.rate_limit, now)
        pool.places = policy.plugin_places(entry.plugin, max(places, pool.places))
        self._gates[definition.name] = (definition, gate)
        self._rated = self._rated or gate.bucket is not None or pool.bucket is not None
        _exhaust(pool.serve)
        _exhaust(gate.serve)
        return gate

    def _welcome(self, name: str, known: dict[str, Party]) -> Party:
        if known is self._nested:
            party = Party(name, nested=True)
        else:
            party = Party(name)
            self._bound(party, name, self._clock.monotonic())
            self._rated = self._rated or party.bucket is not None
        known[name] = party
        return party

    def _bound(self, party: Party, name: str, now: float) -> None:
        if name == OPERATOR:
            party.places, rate = UNBOUNDED, None
        else:
            party.places, rate = self._policy.agent_places(name), self._policy.agents.get(name, UNSAID).rate
        party.bucket = _bucket(party.bucket, rate, now)

    def _all(self) -> list[Gate | Pool | Party]:
        gates = (gate for _, gate in self._gates.values())
        return [*gates, *self._pools.values(), *self._parties.values()]

    def _take_tokens(self, gate: Gate, party: Party) -> None:
        """Count the call against every rate, or against none. Refused: RATE_LIMITED."""
        buckets = _buckets(gate, party)
        now = self._clock.monotonic()
        waits = [(bucket.wait_s(now), scope, name, bucket.limit) for scope, name, bucket in buckets]
        if waits and (longest := max(waits, key=itemgetter(0)))[0]:
            wait_s, scope, name, limit = longest
            raise Refused(
                Code.RATE_LIMITED,
                f"the {scope} {name} may have {limit}",
                retry_after_ms=milliseconds(wait_s),
                reason=f"rate of the {scope}",
            )
        for _, _, bucket in buckets:
            bucket.take()

    def _give_back(self, gate: Gate, party: Party) -> None:
        """A call that was refused by the queue did not use up the rate."""
        if self._rated:
            for _, _, bucket in _buckets(gate, party):
                bucket.give_back()

    def _overloaded(self, gate: Gate, party: Party, problem: str) -> NoReturn:
        if gate.running >= gate.places:
            who, running, scope = gate.name, gate.running, "tool"
        elif party.running >= party.places:
            who, running, scope = f"the agent {party.name}", party.running, "agent"
        else:
            who, running, scope = f"the plugin {gate.pool.name}", gate.pool.running, "plugin"
        raise Refused(
            Code.OVERLOADED,
            f"{who} runs {running} call{'' if running == 1 else 's'} and {problem}",
            retry_after_ms=self._policy.queue_ms,
            reason=f"places of the {scope}",
        )


async def _turn(gate: Gate, party: Party, wait_s: float) -> bool:
    """Wait for the places of a call; False: the queue is full, or gave its room to another party.

    Raises TimeoutError after `wait_s`. Whatever is raised, no place is taken.
    """
    if wait_s <= 0:
        raise TimeoutError
    turn: Turn = asyncio.get_running_loop().create_future()
    if not gate.queue(party, turn):
        return False
    try:
        with TimeLimit(wait_s):
            return await turn
    except BaseException:
        if not turn.done() or turn.cancelled():
            gate.give_up(party, turn)
        elif turn.result():
            gate.leave(party)
        raise


def _buckets(gate: Gate, party: Party) -> list[tuple[Scope, str, Bucket]]:
    """The rates that a call obeys. What tools call for their caller does not count as its own calls."""
    found: list[tuple[Scope, str, Bucket]] = []
    if gate.bucket is not None:
        found.append(("tool", gate.name, gate.bucket))
    if gate.pool.bucket is not None:
        found.append(("plugin", gate.pool.name, gate.pool.bucket))
    if party.bucket is not None:
        found.append(("agent", party.name, party.bucket))
    return found


def _bucket(old: Bucket | None, limit: RateLimit | None, now: float) -> Bucket | None:
    """The bucket for `limit`, which goes on from where the old one stands."""
    if limit is None:
        return None
    if old is None:
        return Bucket(limit, now)
    if old.limit != limit:
        old.change(limit, now)
    return old


def _exhaust(serve: Callable[[], bool]) -> None:
    while serve():
        pass


def _idle(party: Party) -> bool:
    return not party.running and not party.gates and party.bucket is None


def _behind(pool: Pool) -> int:
    return sum(len(gate.lines[party]) for party, gates in pool.parties.items() for gate in gates)


def _of(party: Party) -> int:
    return sum(len(gate.lines[party]) for gate in party.gates)
