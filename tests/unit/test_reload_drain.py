"""What was replaced ends in peace, bounded in time and in number."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.model.call import Code
from hermesd.reload.drain import MAX_DRAINING, Drainer
from hermesd.serving.flight import Flight, Flights
from hermesd.serving.instance import Instance
from tests.core_doubles import OPERATOR, FakeRuntime, SetClock, settle, spec


def instance(runtime: FakeRuntime) -> Instance:
    return Instance("orders", "key", runtime.spec.digest, runtime, {}, clock=SetClock())


def hold(flights: Flights, each: Instance, number: int = 0) -> asyncio.Task[Code | None]:
    async def call() -> Code | None:
        task = asyncio.current_task()
        assert task is not None
        flight = Flight(str(number), "orders.do_it", OPERATOR, task, 0.0, each)
        with flights.enter(flight), each.lease():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return flight.cut.code if flight.cut else None
        return None

    return asyncio.create_task(call())


async def test_an_idle_instance_is_closed_at_once() -> None:
    runtime = FakeRuntime(spec())
    async with asyncio.TaskGroup() as tasks:
        await Drainer(tasks, Flights(), lambda: 60).retire(instance(runtime))
    assert runtime.closed == 1


async def test_a_call_ends_in_peace_before_the_close() -> None:
    runtime, flights = FakeRuntime(spec()), Flights()
    each = instance(runtime)
    async with asyncio.TaskGroup() as tasks:
        call = hold(flights, each)
        await settle()
        drain = Drainer(tasks, flights, lambda: 60).retire(each)
        await settle()
        assert (runtime.closed, drain.done()) == (0, False)
        call.cancel()
        await drain
    assert (await call, runtime.closed) == (None, 1)


@pytest.mark.promise("CORE-6")
async def test_a_call_that_outlasts_the_drain_is_cut_and_told() -> None:
    runtime, flights = FakeRuntime(spec()), Flights()
    each = instance(runtime)
    async with asyncio.TaskGroup() as tasks:
        call = hold(flights, each)
        await settle()
        await Drainer(tasks, flights, lambda: 0.01).retire(each)
    assert (await call, runtime.closed) == (Code.UNAVAILABLE, 1)


async def test_a_close_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(FakeRuntime):
        async def close(self) -> None:
            raise OSError("gone")

    async with asyncio.TaskGroup() as tasks:
        drainer = Drainer(tasks, Flights(), lambda: 60)
        await drainer.retire(instance(Failing(spec())))
        assert drainer.draining("orders") == 0
    assert "closing an instance of orders failed" in caplog.text


async def test_the_oldest_is_cut_when_too_many_drain_and_their_contents_are_known() -> None:
    flights = Flights()
    runtimes = [FakeRuntime(spec(digest=str(number))) for number in range(MAX_DRAINING + 2)]
    async with asyncio.TaskGroup() as tasks:
        drainer = Drainer(tasks, flights, lambda: 60)
        calls = []
        for number, runtime in enumerate(runtimes):
            each = instance(runtime)
            calls.append(hold(flights, each, number))
            await settle()
            drainer.retire(each)
            assert drainer.draining("orders") <= MAX_DRAINING
        await settle()
        assert [runtime.closed for runtime in runtimes] == [1, 1, 0, 0, 0]
        assert drainer.digests() == {"2", "3", "4"}
        for call in calls:
            call.cancel()
    assert [each.result() for each in calls] == [Code.UNAVAILABLE] * 2 + [None] * 3
