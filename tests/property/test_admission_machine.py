"""Any history of calls that come, end, give up and of limits that move: no place is lost or given twice.

The machine knows nothing of turns and lines: it counts who is in, and asks after each step that nobody waits
who could go in, that no limit let anybody in beyond it, and that a party's calls at a tool go in in order.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermesd.serving.admission import _exhaust, _turn
from hermesd.serving.place import Gate, Party, Pool, serve_party
from tests.core_doubles import settle

LONG_S = 3600.0


@dataclass(eq=False)
class Call:
    """One call: where, whose, and what has become of it."""

    number: int
    gate: Gate
    party: Party
    task: asyncio.Task[bool]
    inside: bool = False


class AdmissionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.pools = [Pool("p", 3), Pool("q", 2)]
        self.gates = [Gate(f"t{number}", 1 + number % 3, self.pools[number % 2]) for number in range(5)]
        self.parties = [Party("a", 2), Party("b", 3), Party("c"), Party("a", nested=True)]
        self.calls: list[Call] = []
        self.numbers = 0
        self.last_in: dict[tuple[Gate, Party], int] = {}

    def teardown(self) -> None:
        for call in self.calls:
            call.task.cancel()
        self.loop.run_until_complete(settle(6))
        assert all(each.task.done() for each in self.calls)
        self.loop.close()

    @rule(gate=st.integers(0, 4), party=st.integers(0, 3), let_it_run=st.booleans())
    def come(self, gate: int, party: int, let_it_run: bool) -> None:
        where, who = self.gates[gate], self.parties[party]
        self.numbers += 1

        async def enter() -> bool:
            return where.enter(who) or await _turn(where, who, LONG_S)

        self.calls.append(Call(self.numbers, where, who, self.loop.create_task(enter())))
        if let_it_run:
            self.run()

    @rule(index=st.integers(0, 99), let_it_run=st.booleans())
    @precondition(lambda self: any(each.inside for each in self.calls))
    def end(self, index: int, let_it_run: bool) -> None:
        inside = [each for each in self.calls if each.inside]
        call = inside[index % len(inside)]
        self.calls.remove(call)
        call.gate.leave(call.party)
        if let_it_run:
            self.run()

    @rule(index=st.integers(0, 99), let_it_run=st.booleans())
    @precondition(lambda self: any(not each.inside for each in self.calls))
    def give_up(self, index: int, let_it_run: bool) -> None:
        """At any point: before it has run, while it waits, and when a place is already on its way to it."""
        outside = [each for each in self.calls if not each.inside]
        outside[index % len(outside)].task.cancel()
        if let_it_run:
            self.run()

    @rule(gate=st.integers(0, 4), places=st.integers(1, 4))
    def resize_tool(self, gate: int, places: int) -> None:
        self.gates[gate].places = places
        _exhaust(self.gates[gate].serve)
        self.run()

    @rule(pool=st.integers(0, 1), places=st.integers(1, 6))
    def resize_plugin(self, pool: int, places: int) -> None:
        self.pools[pool].places = places
        _exhaust(self.pools[pool].serve)
        self.run()

    @rule(party=st.integers(0, 2), places=st.integers(1, 5))
    def resize_agent(self, party: int, places: int) -> None:
        who = self.parties[party]
        who.places = places
        _exhaust(lambda: serve_party(who))
        self.run()

    def run(self) -> None:
        self.loop.run_until_complete(settle(6))
        for call in self.calls:
            if call.inside or not call.task.done() or call.task.cancelled() or not call.task.result():
                continue
            call.inside = True
            here = (call.gate, call.party)
            assert self.last_in.get(here, 0) < call.number, "a later call of the party went in first"
            self.last_in[here] = call.number
        self.calls = [each for each in self.calls if each.inside or not each.task.done()]

    @invariant()
    def nothing_is_lost_and_nobody_waits_in_vain(self) -> None:
        self.run()
        inside = [each for each in self.calls if each.inside]
        waiting = [each for each in self.calls if not each.inside]
        for gate in self.gates:
            assert gate.running == sum(each.gate is gate for each in inside)
            assert gate.waiting == sum(each.gate is gate for each in waiting)
            assert gate.waiting == sum(len(line) for line in gate.lines.values())
        for pool in self.pools:
            assert pool.running == sum(each.gate.pool is pool for each in inside)
            assert set(pool.parties) == {each.party for each in waiting if each.gate.pool is pool}
        for party in self.parties:
            assert party.running == sum(each.party is party for each in inside)
            assert set(party.gates) == {each.gate for each in waiting if each.party is party}
        for call in waiting:
            assert not call.gate.open_to(call.party), "it waits although its places are free"


TestAdmissionMachine = pytest.mark.promise("ADM-6")(AdmissionMachine.TestCase)
AdmissionMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@given(st.data())
@settings(max_examples=100, deadline=None)
@pytest.mark.promise("ADM-1")
def test_while_one_waits_no_other_has_two_turns(data: st.DataObject) -> None:
    """At one tool, and at one plugin whose tools have places enough."""

    async def run() -> None:
        pool = Pool("p", data.draw(st.integers(1, 3)))
        gates = [Gate(f"t{number}", 9, pool) for number in range(data.draw(st.integers(1, 4)))]
        parties = [Party(str(number)) for number in range(4)]
        waiting: list[tuple[Party, asyncio.Future[bool]]] = []
        inside: list[tuple[Gate, Party]] = []
        since: dict[Party, dict[Party, int]] = {}
        for step in data.draw(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3)))):
            comes, party_number, gate_number = step
            party, gate = parties[party_number], gates[gate_number % len(gates)]
            if comes and gate.enter(party):
                inside.append((gate, party))
                continue
            if comes:
                turn = asyncio.get_running_loop().create_future()
                if gate.queue(party, turn):
                    waiting.append((party, turn))
                    since.setdefault(party, {})
                continue
            if not inside:
                continue
            left_gate, left_party = inside.pop(party_number % len(inside))
            left_gate.leave(left_party)
            for who, turn in [each for each in waiting if each[1].done()]:
                waiting.remove((who, turn))
                # Whose place it is now matters to nobody: it leaves by the gate with a call in it.
                inside.append((next(each for each in gates if each.running), who))
                for other, turns in since.items():
                    if other is not who:
                        turns[who] = turns.get(who, 0) + 1
                        assert turns[who] <= 1, f"{who.name} had two turns while {other.name} waited"
                since[who] = {}
            since = {who: turns for who, turns in since.items() if any(w is who for w, _ in waiting)}

    asyncio.run(run())
