"""What takes time: late preparations, order, making way, draining, the disk, the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hermesd.errors import DrainingError, PluginError, Rejection, StoreError
from hermesd.model.call import Code
from hermesd.model.status import State
from hermesd.serving.flight import Flight
from tests.core_doubles import OPERATOR, settle
from tests.reload_doubles import World, world

BROKEN = PluginError([Rejection("b", "it is broken", "mend it", "b.py", 3)])


@pytest.fixture
async def w() -> AsyncIterator[World]:
    async with world() as made:
        yield made


def hold(w: World, name: str, request_id: str = "held") -> tuple[asyncio.Task[None], list[object]]:
    """A call of `name` that goes on until it is cut; what cut it is noted."""
    entry = w.registry.catalogue.tools[f"{name}.do_it"]
    assert entry.instance is not None
    instance, ends = entry.instance, list[object]()

    async def call() -> None:
        task = asyncio.current_task()
        assert task is not None
        flight = Flight(request_id, f"{name}.do_it", OPERATOR, task, 0.0, instance)
        with w.flights.enter(flight), instance.lease():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append(flight.cut.code if flight.cut else None)

    return asyncio.create_task(call()), ends


# The commit window


@pytest.mark.promise("CORE-4")
async def test_a_slow_preparation_is_pending_and_commits_by_itself(w: World) -> None:
    w.set(window_s=0.01)
    w.put("a", "1")
    await w.reload()
    gate = asyncio.Event()
    w.put("a", "2", prepare_gate=gate)
    w.put("b", "1")
    report = await w.reload(no_wait=True)
    assert (report.pending, report.added, w.serving()) == (("a",), ("b",), {"a": "1", "b": "1"})
    gate.set()
    await settle()
    assert w.serving() == {"a": "2", "b": "1"}
    assert w.status("a").standing.state is State.READY


async def test_a_reload_that_waits_answers_with_the_late_ones(w: World) -> None:
    w.set(window_s=0.01)
    good, bad = asyncio.Event(), asyncio.Event()
    w.put("a", "1", prepare_gate=good)
    w.put("b", "1", prepare_gate=bad, prepare_error=BROKEN)
    asking = asyncio.create_task(w.reload())
    await asyncio.sleep(0.05)
    assert not asking.done()
    good.set()
    bad.set()
    report = await asking
    assert (report.added, report.pending) == (("a",), ())
    assert [each.name for each in report.rejected] == ["b"]
    assert [report.rejected != () for _, report in w.heard.reports] == [True]


@pytest.mark.promise("CORE-4")
@pytest.mark.parametrize("error", [None, BROKEN])
async def test_a_reload_that_waits_waits_for_what_an_earlier_pass_set_out_with(
    w: World, error: PluginError | None
) -> None:
    w.set(window_s=0.01)
    gate, other = asyncio.Event(), asyncio.Event()
    w.put("a", "1", prepare_gate=gate, prepare_error=error)
    w.put("b", "1", prepare_gate=other)
    assert (await w.reload(no_wait=True, cause="watch")).pending == ("a", "b")
    asking = asyncio.create_task(w.reload(name="a"))
    await asyncio.sleep(0.05)
    assert not asking.done()
    gate.set()
    report = await asking
    assert "a" not in report.pending
    assert report.changed == (() if error else ("a",))
    assert (report.rejected != ()) is (error is not None)
    other.set()
    await settle()


@pytest.mark.promise("CORE-4")
async def test_the_newest_content_wins_over_one_that_is_still_on_its_way(w: World) -> None:
    w.set(window_s=0.01)
    old = asyncio.Event()
    w.put("a", "1", prepare_gate=old)
    await w.reload(no_wait=True)
    w.put("a", "2")
    report = await w.reload()
    assert (report.added or report.changed, w.serving()) == (("a",), {"a": "2"})
    old.set()
    await settle()
    assert (w.serving(), w.alive()) == ({"a": "2"}, ["a 2"]), "the one called off was closed"


async def test_tools_are_awaited_until_the_first_plan_and_while_their_plugin_is_pending(w: World) -> None:
    assert w.reloader.awaited("a.do_it") == "the daemon is starting"
    w.set(window_s=0.01)
    gate = asyncio.Event()
    w.put("a", "1", prepare_gate=gate)
    await w.reload(no_wait=True)
    assert w.reloader.awaited("a.do_it") == "the plugin a is being prepared"
    assert w.reloader.awaited("b.do_it") == ""
    gate.set()
    await settle()
    assert w.reloader.awaited("a.do_else") == ""
    w.set(window_s=10)
    w.put("c", "1", prepare_gate=(of_c := asyncio.Event()))
    asking = asyncio.create_task(w.reload())
    await settle()
    assert w.reloader.awaited("c.do_it") == "the plugin c is being prepared", "before the pass commits, too"
    of_c.set()
    await asking
    assert (w.reloader.awaited("c.do_else"), w.serving()["c"]) == ("", "1")


async def test_the_reason_of_a_rejection_leaves_the_remedy_to_its_own_field(w: World) -> None:
    w.put("b", "1", prepare_error=BROKEN)
    await w.reload()
    standing = w.status("b").standing
    assert (standing.reason, standing.remedy) == ("/plugins/b/b.py:3: it is broken", "mend it")


async def test_a_content_on_its_way_is_not_prepared_twice(w: World) -> None:
    w.set(window_s=0.01)
    gate = asyncio.Event()
    w.put("a", "1", prepare_gate=gate)
    for _ in range(3):
        assert (await w.reload(no_wait=True)).pending == ("a",)
    gate.set()
    await settle()
    assert w.history.count("prepare a 1") == 1
    assert w.serving() == {"a": "1"}


async def test_going_back_calls_off_what_is_on_its_way(w: World) -> None:
    w.set(window_s=0.01)
    w.put("a", "1")
    await w.reload()
    w.put("a", "2", prepare_gate=asyncio.Event())
    await w.reload(no_wait=True)
    w.put("a", "1")
    report = await w.reload()
    assert (report.kept, report.pending, w.alive()) == (("a",), (), ["a 1"])


async def test_a_plugin_that_is_removed_or_put_to_rest_on_its_way_never_serves(w: World) -> None:
    w.set(window_s=0.01)
    gates = [asyncio.Event(), asyncio.Event()]
    w.put("a", "1", prepare_gate=gates[0])
    w.put("b", "1", ready_gate=gates[1])
    await w.reload(no_wait=True)
    w.drop("a")
    w.idle("b")
    await w.reload()
    for each in gates:
        each.set()
    await settle()
    assert (w.serving(), w.alive()) == ({}, [])


async def test_a_pass_meanwhile_does_not_wait_for_a_late_one(w: World) -> None:
    """caddy#5628: what prepares slowly holds up neither lists nor other reloads."""
    w.set(window_s=0.01)
    w.put("a", "1", prepare_gate=asyncio.Event())
    await w.reload(no_wait=True)
    w.put("b", "1")
    async with asyncio.timeout(1):
        assert (await w.reload(no_wait=True)).added == ("b",)
    assert w.reloader.plugins()
    w.drop("a")
    await w.reload()


# Order


async def test_dependents_start_after_and_stop_before_what_they_depend_on(w: World) -> None:
    w.depends = {"a": ("b.do_it",), "b": ("c.do_it",)}
    for name in "abc":
        w.put(name, "1")
    await w.reload()
    assert [each for each in w.history if each.startswith("ready")] == ["ready c 1", "ready b 1", "ready a 1"]
    w.history.clear()
    for name in "abc":
        w.drop(name)
    await w.reload()
    assert w.history == ["close a 1", "close b 1", "close c 1"]


async def test_a_cycle_is_no_deadlock_and_blocks_only_its_members(w: World) -> None:
    w.depends = {"a": ("b.do_it",), "b": ("a.do_it",), "c": ("absent.do_it",)}
    for name in "abcd":
        w.put(name, "1")
    report = await w.reload()
    assert report.added == ("a", "b", "c", "d")
    tools = w.registry.catalogue.tools
    states = {name: w.registry.standing(tools[f"{name}.do_it"]).state for name in "abcd"}
    assert states == {
        "a": State.UNAVAILABLE,
        "b": State.UNAVAILABLE,
        "c": State.UNAVAILABLE,
        "d": State.READY,
    }
    for name in "abcd":
        w.drop(name)
    await w.reload()
    assert w.alive() == []


async def test_a_dependent_waits_for_what_is_on_its_way_from_an_earlier_pass(w: World) -> None:
    w.set(window_s=0.01)
    w.depends = {"a": ("b.do_it",)}
    gate = asyncio.Event()
    w.put("b", "1", prepare_gate=gate)
    await w.reload(no_wait=True)
    w.put("a", "1")
    assert (await w.reload(no_wait=True)).pending == ("a", "b")
    gate.set()
    await settle()
    assert [each for each in w.history if each.startswith("ready")] == ["ready b 1", "ready a 1"]


async def test_one_that_is_never_ready_does_not_hold_up_the_others(w: World) -> None:
    """dify-plugin-daemon#336."""
    w.set(window_s=0.05)
    w.put("a", "1", prepare_gate=asyncio.Event())
    for name in "bcdefg":
        w.put(name, "1")
    report = await w.reload(no_wait=True)
    assert (report.pending, len(report.added)) == (("a",), 6)
    w.drop("a")
    await w.reload()


async def test_the_order_of_the_plugins_decides_nothing(w: World) -> None:
    """vault#30329: one bad plugin among good ones, wherever it stands."""
    for bad in "abc":
        for name in "abc":
            w.put(name, f"{bad}", **({"prepare_error": BROKEN} if name == bad else {"prepare_error": None}))
        report = await w.reload()
        assert len(report.rejected) == 1
        assert {name for name, content in w.serving().items() if content == bad} == set("abc") - {bad}


# Exclusive


async def test_what_is_exclusive_stops_before_its_successor_starts(w: World) -> None:
    """coredns#1618: two instances at once could not hold the port."""
    w.put("a", "1", exclusive=("port:8080",))
    await w.reload()
    w.history.clear()
    w.put("a", "2", exclusive=("port:8080",))
    report = await w.reload()
    assert report.changed == ("a",)
    assert w.history == ["prepare a 2", "close a 1", "ready a 2"]
    assert w.serving() == {"a": "2"}


async def test_an_exclusive_successor_that_does_not_load_stops_nothing(w: World) -> None:
    w.put("a", "1", exclusive=("port",))
    await w.reload()
    kept = w.registry.catalogue.tools["a.do_it"].instance
    w.put("a", "2", exclusive=("port",), prepare_error=BROKEN)
    await w.reload()
    assert w.registry.catalogue.tools["a.do_it"].instance is kept


async def test_an_exclusive_successor_that_does_not_start_gives_way_to_the_old_one(w: World) -> None:
    w.put("a", "1", exclusive=("port",))
    await w.reload()
    w.put("a", "2", exclusive=("port",), ready_error=BROKEN)
    report = await w.reload()
    assert len(report.rejected) == 1
    assert (w.serving(), w.alive()) == ({"a": "1"}, ["a 1"])
    assert w.status("a").standing.state is State.DEGRADED


async def test_when_neither_starts_nothing_is_said_to_come_back_in_a_moment(w: World) -> None:
    w.put("a", "1", exclusive=("port",))
    await w.reload()
    w.orders["a 1"] = {"ready_error": BROKEN}
    w.put("a", "2", exclusive=("port",), ready_error=BROKEN)
    await w.reload()
    assert list(w.registry.catalogue.tools) == []
    assert w.status("a").standing.state is State.REJECTED
    w.orders.clear()
    w.put("a", "2", exclusive=("port",))
    await w.reload()
    assert w.serving() == {"a": "2"}


async def test_while_an_exclusive_plugin_is_replaced_its_tools_say_so(w: World) -> None:
    w.set(window_s=0.01)
    w.put("a", "1", exclusive=("port",))
    await w.reload()
    gate = asyncio.Event()
    w.put("a", "2", exclusive=("port",), ready_gate=gate)
    await w.reload(no_wait=True)
    await settle()
    entry = w.registry.catalogue.tools["a.do_it"]
    assert (entry.standing().state, entry.standing().reason) == (State.UNAVAILABLE, "is being replaced")
    gate.set()
    await settle()
    assert w.serving() == {"a": "2"}


@pytest.mark.promise("CORE-6")
async def test_a_successor_called_off_while_its_way_is_made_cuts_no_call(w: World) -> None:
    """The drain that makes way outlives the preparation that asked for it: a call ends in peace."""
    w.set(window_s=0.01, drain_s=60)
    w.put("a", "1", exclusive=("port",))
    await w.reload()
    call, ends = hold(w, "a")
    await settle()
    w.put("a", "2", exclusive=("port",))
    await w.reload(no_wait=True)
    w.put("a", "3", exclusive=("port",))
    await w.reload(no_wait=True)
    await settle()
    assert not call.done()
    assert "a 1" in w.alive(), "an instance is never closed while a call holds it"
    call.cancel()
    await settle()
    assert ends == [None]
    assert w.serving() == {"a": "3"}


async def test_an_unreadable_moment_does_not_call_off_what_is_on_its_way(w: World) -> None:
    w.set(window_s=0.01)
    w.put("a", "1", exclusive=("port",))
    await w.reload()
    gate = asyncio.Event()
    w.put("a", "2", exclusive=("port",), ready_gate=gate)
    await w.reload(no_wait=True)
    w.unreadable("a")
    await w.reload(no_wait=True)
    gate.set()
    await settle()
    assert w.serving() == {"a": "2"}


# Draining


async def test_a_call_in_flight_ends_on_the_version_it_began_on(w: World) -> None:
    w.put("a", "1")
    await w.reload()
    call, ends = hold(w, "a")
    await settle()
    w.put("a", "2")
    await w.reload(no_wait=True)
    await settle()
    assert (w.alive(), w.status("a").draining) == (["a 1", "a 2"], 1)
    call.cancel()
    await settle()
    assert (w.alive(), ends, w.status("a").draining) == (["a 2"], [None], 0)


async def test_a_drain_is_bounded_and_its_caller_is_told(w: World) -> None:
    """caddy#3540: a reload returns although a call goes on."""
    w.set(drain_s=0.02)
    w.put("a", "1")
    await w.reload()
    call, ends = hold(w, "a")
    await settle()
    w.put("a", "2")
    await w.reload()
    await call
    assert (ends, w.alive()) == ([Code.UNAVAILABLE], ["a 2"])


async def test_a_swap_of_another_plugin_cuts_no_call(w: World) -> None:
    """nats-server#719.

    hermes-agent#27984: the reload of one that dropped the tools of others.
    """
    w.set(drain_s=0.01)
    w.put("a", "1")
    w.put("b", "1")
    await w.reload()
    call, ends = hold(w, "a")
    for content in "23456":
        w.put("b", content)
        await w.reload()
    assert not call.done()
    call.cancel()
    await settle()
    assert ends == [None]


async def test_at_most_three_instances_of_a_plugin_drain_and_the_oldest_is_cut(w: World) -> None:
    """haproxy#155: sixty quick reloads with a stuck call in each generation."""
    w.put("a", "0")
    await w.reload()
    calls = []
    for number in range(1, 61):
        calls.append(hold(w, "a", f"held-{number}"))
        await settle(3)
        w.put("a", str(number))
        await w.reload(no_wait=True)
        await settle()
        assert w.status("a").draining <= 3
        assert len(w.alive()) <= 4
    cut = [ends for _, ends in calls if ends]
    assert (len(cut), {each[0] for each in cut}) == (57, {Code.UNAVAILABLE})
    assert not any(ends for _, ends in calls[-3:])
    for call, _ in calls:
        call.cancel()
    await settle()


async def test_contents_in_use_are_told_when_it_is_recorded_what_serves(w: World) -> None:
    w.put("a", "1")
    await w.reload()
    call, _ = hold(w, "a")
    await settle()
    w.put("a", "2")
    await w.reload(no_wait=True)
    w.put("a", "3")
    await w.reload(no_wait=True)
    assert w.reading.in_use >= {"1", "2", "3"}
    call.cancel()
    await settle()


# The disk


@pytest.mark.parametrize("error", [StoreError("the disk is full", remedy="free space"), OSError(28, "full")])
async def test_what_cannot_be_recorded_does_not_serve_and_the_old_one_does(
    w: World, error: Exception
) -> None:
    w.put("a", "1")
    await w.reload()
    w.reading.record_error = error
    w.put("a", "2")
    w.put("b", "1")
    report = await w.reload()
    assert [each.name for each in report.rejected] == ["a", "b"]
    assert (w.serving(), w.alive()) == ({"a": "1"}, ["a 1"])
    w.reading.record_error = None
    assert (await w.reload()).rejected == ()
    assert w.serving() == {"a": "2", "b": "1"}


# The end


async def test_closing_ends_everything_dependents_first_and_reloads_nothing_more() -> None:
    async with world() as w:
        w.depends = {"a": ("b.do_it",)}
        w.put("a", "1")
        w.put("b", "1")
        await w.reload()
        w.history.clear()
        await w.reloader.close()
        assert w.history == ["close a 1", "close b 1"]
        assert w.registry.catalogue.tools == {}
        with pytest.raises(DrainingError):
            await w.reload()


async def test_closing_during_a_pass_leaves_nothing() -> None:
    async with world() as w:
        w.set(window_s=0.01)
        w.reading.gate = asyncio.Event()
        w.put("a", "1", prepare_gate=asyncio.Event())
        w.put("b", "1")
        passing = asyncio.create_task(w.reload(no_wait=True))
        await settle()
        closing = asyncio.create_task(w.reloader.close())
        await settle()
        w.reading.gate.set()
        called_off, _ = await asyncio.gather(passing, closing, return_exceptions=True)
        assert isinstance(called_off, DrainingError)
        assert w.alive() == []


@pytest.mark.promise("HOS-8")
@pytest.mark.parametrize("how", [{"dry_run": True}, {"atomic": True}])
async def test_closing_calls_off_a_pass_that_waits_for_a_plugin_without_end(how: dict[str, bool]) -> None:
    async with world() as w:
        w.put("a", "1")
        await w.reload()
        w.put("a", "2", prepare_gate=asyncio.Event())
        w.put("b", "1")
        passing = asyncio.create_task(w.reload(**how))
        await settle()
        await w.reloader.close()
        with pytest.raises(DrainingError):
            await passing
        assert w.alive() == []


async def test_closing_while_one_is_late_calls_it_off() -> None:
    async with world() as w:
        w.set(window_s=0.01)
        w.put("a", "1", ready_gate=asyncio.Event())
        await w.reload(no_wait=True)
        await w.reloader.close()
        await settle()
        assert (w.alive(), w.serving()) == ([], {})


async def test_a_hundred_reloads_leave_as_many_tasks_as_one(w: World) -> None:
    """caddy#2358: one task leaked for each reload."""
    w.put("a", "0")
    await w.reload()
    before = len(asyncio.all_tasks())
    for number in range(1, 101):
        w.put("a", str(number))
        await w.reload()
    await settle()
    assert (len(asyncio.all_tasks()), w.alive()) == (before, ["a 100"])
