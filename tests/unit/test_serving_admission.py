"""First come, first served; who gives up takes no place; a limit that moves is obeyed at once."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermesd.serving.admission import QUEUE_FACTOR, Admission, Gate, Overloaded
from tests.core_doubles import settle

LONG_S = 60.0


async def enter_all(gate: Gate, count: int, order: list[int]) -> list[asyncio.Task[None]]:
    async def one(number: int) -> None:
        await gate.enter(LONG_S)
        order.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(count)]
    await settle()
    return tasks


@pytest.mark.promise("CORE-11")
async def test_places_are_given_in_the_order_of_asking() -> None:
    gate, order = Gate(2), list[int]()
    tasks = await enter_all(gate, 6, order)
    assert (order, gate.running, gate.waiting) == ([0, 1], 2, 4)
    for _ in range(4):
        gate.leave()
        await settle()
    assert order == list(range(6))
    await asyncio.gather(*tasks)


async def test_a_newcomer_never_overtakes_who_waits() -> None:
    gate, order = Gate(1), list[int]()
    tasks = await enter_all(gate, 2, order)
    gate.leave()
    late = asyncio.create_task(gate.enter(LONG_S))
    await settle()
    assert order == [0, 1]
    assert not late.done()
    gate.leave()
    await asyncio.gather(late, *tasks)


async def test_a_waiter_that_gives_up_takes_no_place() -> None:
    gate, order = Gate(1), list[int]()
    tasks = await enter_all(gate, 3, order)
    tasks[1].cancel()
    await settle()
    gate.leave()
    await settle()
    assert (order, gate.running, gate.waiting) == ([0, 2], 1, 0)
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_place_handed_to_one_that_gives_up_in_that_instant_goes_to_the_next() -> None:
    gate, order = Gate(1), list[int]()
    tasks = await enter_all(gate, 3, order)
    gate.leave()
    tasks[1].cancel()
    await settle()
    assert (order, gate.running, gate.waiting) == ([0, 2], 1, 0)
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_waiting_ends_in_time() -> None:
    gate = Gate(1)
    await gate.enter(LONG_S)
    with pytest.raises(Overloaded, match="within 1 ms"):
        await gate.enter(0.001)
    assert (gate.running, gate.waiting) == (1, 0)


async def test_a_full_queue_refuses_at_once() -> None:
    gate, order = Gate(1), list[int]()
    tasks = await enter_all(gate, 1 + QUEUE_FACTOR, order)
    with pytest.raises(Overloaded, match="full"):
        await gate.enter(LONG_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_fewer_places_put_nobody_out_and_let_nobody_in() -> None:
    admission, order = Admission(), list[int]()
    tasks = await enter_all(admission.gate("a.b_c", 3), 5, order)
    gate = admission.gate("a.b_c", 1)
    assert gate.running == 3
    gate.leave()
    gate.leave()
    await settle()
    assert (order, gate.running) == ([0, 1, 2], 1)
    gate.leave()
    await settle()
    assert (order, gate.running) == ([0, 1, 2, 3], 1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_more_places_are_taken_by_those_that_wait_at_once() -> None:
    admission, order = Admission(), list[int]()
    tasks = await enter_all(admission.gate("a.b_c", 1), 4, order)
    admission.gate("a.b_c", 3)
    await settle()
    assert order == [0, 1, 2]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_gate_is_forgotten_only_when_idle() -> None:
    admission = Admission()
    busy = admission.gate("a.busy_one", 1)
    idle = admission.gate("a.idle_one", 1)
    await busy.enter(LONG_S)
    admission.forget_all_but(())
    assert admission.gate("a.busy_one", 1) is busy
    assert admission.gate("a.idle_one", 1) is not idle


STEP = st.sampled_from(["enter", "leave", "cancel", "shrink", "grow"])


@given(st.lists(st.tuples(STEP, st.integers(0, 9)), max_size=60))
@settings(max_examples=150, deadline=None)
def test_whatever_happens_no_place_is_lost_or_given_twice(steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        gate = Gate(2)
        waiting: list[asyncio.Task[None]] = []
        inside = 0
        peak = gate.places
        for step, number in steps:
            if step == "enter":
                waiting.append(asyncio.create_task(gate.enter(LONG_S)))
            elif step == "leave" and inside:
                gate.leave()
                inside -= 1
            elif step == "cancel" and waiting:
                waiting[number % len(waiting)].cancel()
            elif step == "shrink":
                gate.resize(1)
            elif step == "grow":
                gate.resize(3)
                peak = 3
            if number % 2:
                await settle(4)
                entered = [each for each in waiting if each.done()]
                inside += sum(1 for each in entered if not each.cancelled() and each.exception() is None)
                waiting = [each for each in waiting if not each.done()]
        await settle(4)
        inside += sum(1 for each in waiting if each.done() and not each.cancelled() and not each.exception())
        left = [each for each in waiting if not each.done()]
        assert gate.running == inside <= peak
        assert gate.waiting == len(left)
        assert not left or gate.running >= gate.places, "somebody waits although a place is free"
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        assert gate.running == inside

    asyncio.run(run())
