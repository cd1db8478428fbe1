"""Whose turn it is: round by party, the oldest of a party first; and who gives up takes no place."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.serving.place import QUEUE_FACTOR, Gate, Party, Pool, Turn


class Desk:
    """Calls that take places and give them back, by name."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.turns: dict[str, Turn] = {}
        self.order: list[str] = []

    def ask(self, name: str, gate: Gate, party: Party) -> None:
        if gate.enter(party):
            self.order.append(name)
            return
        turn = self.turns[name] = self.loop.create_future()
        if not gate.queue(party, turn):
            turn.set_result(False)

    def inside(self) -> list[str]:
        """Who is in by now, in the order of going in."""
        for name, turn in list(self.turns.items()):
            if turn.done() and not turn.cancelled() and turn.result():
                self.order.append(name)
                del self.turns[name]
        return self.order


def one_place(pool: Pool | None = None, name: str = "orders.query_status") -> Gate:
    return Gate(name, 1, pool or Pool("orders"))


@pytest.mark.promise("CORE-11")
async def test_a_partys_calls_go_in_in_the_order_of_asking() -> None:
    desk, gate, party = Desk(), one_place(), Party("a")
    for number in range(4):
        desk.ask(f"a{number}", gate, party)
    assert (desk.inside(), gate.running, gate.waiting) == (["a0"], 1, 3)
    for count in range(2, 5):
        gate.leave(party)
        assert desk.inside() == [f"a{number}" for number in range(count)]


@pytest.mark.promise("ADM-1")
async def test_turns_go_round_by_party_however_many_calls_one_has() -> None:
    desk, gate = Desk(), Gate("t", 2, Pool("p"))
    noisy, quiet, late = Party("noisy"), Party("quiet"), Party("late")
    for number in range(8):
        desk.ask(f"n{number}", gate, noisy)
    desk.ask("q0", gate, quiet)
    desk.ask("q1", gate, quiet)
    desk.ask("l0", gate, late)
    assert desk.inside() == ["n0", "n1"]
    for _ in range(6):
        gate.leave(noisy)  # who leaves is of no account for whose turn it is
        noisy.running += 1
        desk.inside()
    assert desk.order[2:] == ["n2", "q0", "l0", "n3", "q1", "n4"]


async def test_a_newcomer_never_overtakes_who_waits() -> None:
    desk, gate, first, other = Desk(), one_place(), Party("first"), Party("other")
    desk.ask("one", gate, first)
    desk.ask("two", gate, first)
    gate.leave(first)
    desk.ask("three", gate, other)
    assert desk.inside() == ["one", "two"]


@pytest.mark.promise("CORE-11")
async def test_a_waiter_that_gives_up_takes_no_place() -> None:
    desk, gate, party = Desk(), one_place(), Party("a")
    for name in ("one", "two", "three"):
        desk.ask(name, gate, party)
    gate.give_up(party, desk.turns["two"])
    desk.turns["two"].cancel()
    gate.leave(party)
    assert (desk.inside(), gate.running, gate.waiting) == (["one", "three"], 1, 0)
    gate.give_up(party, desk.turns["two"])  # a second time changes nothing
    assert (gate.running, gate.waiting) == (1, 0)


async def test_a_place_does_not_go_to_one_that_was_cancelled_in_this_instant() -> None:
    desk, gate, party = Desk(), one_place(), Party("a")
    for name in ("one", "two", "three"):
        desk.ask(name, gate, party)
    desk.turns["two"].cancel()  # and its task has not run since, to give up
    gate.leave(party)
    assert (desk.inside(), gate.running, gate.waiting) == (["one", "three"], 1, 0)


@pytest.mark.promise("ADM-2")
async def test_who_waits_for_a_tool_holds_no_place_of_its_plugin_or_agent() -> None:
    pool, party = Pool("orders", 2), Party("a", 2)
    full, idle = one_place(pool), one_place(pool, "orders.list_all")
    desk = Desk()
    for name in ("one", "two", "three"):
        desk.ask(name, full, party)
    desk.ask("other", idle, party)
    assert desk.inside() == ["one", "other"]
    assert (pool.running, party.running) == (2, 2)


@pytest.mark.promise("ADM-2")
async def test_where_a_plugins_places_are_short_the_idlest_tool_goes_next() -> None:
    pool, party = Pool("orders", 3), Party("a")
    busy, idle = Gate("busy", 16, pool), Gate("idle", 16, pool)
    desk = Desk()
    for number in range(10):
        desk.ask(f"b{number}", busy, party)
    desk.ask("i0", idle, party)
    busy.leave(party)
    assert desk.inside() == ["b0", "b1", "b2", "i0"]


@pytest.mark.promise("ADM-1")
async def test_where_a_plugins_places_are_short_turns_go_round_by_party() -> None:
    pool, noisy, quiet = Pool("orders", 1), Party("noisy"), Party("quiet")
    gates = [Gate(f"t{number}", 16, pool) for number in range(6)]
    desk = Desk()
    for number, gate in enumerate(gates):
        desk.ask(f"n{number}", gate, noisy)
    desk.ask("q", gates[0], quiet)
    gates[0].leave(noisy)
    gates[1].leave(noisy)
    assert desk.inside() == ["n0", "n1", "q"]


@pytest.mark.promise("ADM-2")
async def test_an_agent_at_its_bound_holds_up_no_other() -> None:
    gate, noisy, quiet = Gate("t", 16, Pool("p")), Party("noisy", 2), Party("quiet", 2)
    desk = Desk()
    for number in range(4):
        desk.ask(f"n{number}", gate, noisy)
    desk.ask("q0", gate, quiet)
    assert desk.inside() == ["n0", "n1", "q0"]


async def test_an_agents_place_that_comes_free_is_good_for_any_plugin() -> None:
    party = Party("a", 1)
    here, there = one_place(Pool("here"), "here.t"), one_place(Pool("there"), "there.t")
    desk = Desk()
    desk.ask("h", here, party)
    desk.ask("t", there, party)
    here.leave(party)
    assert desk.inside() == ["h", "t"]


@pytest.mark.promise("ADM-3")
async def test_a_call_of_a_tool_for_its_caller_waits_for_its_own_tool_alone() -> None:
    pool, party, nested = Pool("orders", 1), Party("a", 1), Party("a", nested=True)
    parent, child = one_place(pool, "orders.parent"), one_place(pool, "orders.child")
    desk = Desk()
    desk.ask("parent", parent, party)
    desk.ask("direct", child, party)
    desk.ask("nested", child, nested)
    assert desk.inside() == ["parent", "nested"]
    assert pool.running == 2, "what runs is counted all the same"
    child.leave(nested)
    assert desk.inside() == ["parent", "nested"], "the plugin is still full"
    parent.leave(party)
    assert desk.inside() == ["parent", "nested", "direct"]


@pytest.mark.promise("ADM-3")
async def test_a_nested_call_that_waits_goes_in_though_plugin_and_agent_are_full() -> None:
    pool, party, nested = Pool("orders", 2), Party("a", 2), Party("a", nested=True)
    parent, child = one_place(pool, "orders.parent"), one_place(pool, "orders.child")
    desk = Desk()
    desk.ask("parent", parent, party)
    desk.ask("child", child, party)
    desk.ask("direct", child, party)
    desk.ask("nested", child, nested)
    child.leave(party)
    assert desk.inside() == ["parent", "child", "direct"]
    child.leave(party)
    assert desk.inside()[-1] == "nested"


async def test_a_full_queue_refuses_its_own_partys_next() -> None:
    desk, gate, party = Desk(), one_place(), Party("a")
    for number in range(QUEUE_FACTOR + 1):
        desk.ask(f"a{number}", gate, party)
    desk.ask("late", gate, party)
    assert gate.waiting == QUEUE_FACTOR
    assert desk.turns["late"].result() is False


@pytest.mark.promise("ADM-1")
async def test_a_full_queue_makes_room_for_a_party_that_has_less_in_it() -> None:
    desk, gate, noisy, quiet = Desk(), one_place(), Party("noisy"), Party("quiet")
    for number in range(QUEUE_FACTOR + 1):
        desk.ask(f"n{number}", gate, noisy)
    desk.ask("q", gate, quiet)
    assert desk.turns[f"n{QUEUE_FACTOR}"].result() is False, "the newest of the longest line went"
    assert gate.waiting == QUEUE_FACTOR
    gate.leave(noisy)
    gate.leave(noisy)
    assert desk.inside() == ["n0", "n1", "q"]
