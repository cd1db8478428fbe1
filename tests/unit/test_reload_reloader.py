"""Passes are single-flight, commit in one swap, and leave what they refuse exactly as it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hermesd.errors import ConflictError, NotFoundError, PluginError, Rejection
from hermesd.model.status import State
from tests.core_doubles import settle
from tests.reload_doubles import World, world

BROKEN = PluginError([Rejection("b", "it is broken", "mend it", "b.py", 3)])


@pytest.fixture
async def w() -> AsyncIterator[World]:
    async with world() as made:
        yield made


# A pass


async def test_a_first_pass_adds_everything_in_one_generation(w: World) -> None:
    w.put("a", "1")
    w.put("b", "1")
    report = await w.reload()
    assert (report.added, report.rejected, report.generation) == (("a", "b"), (), 1)
    assert w.serving() == {"a": "1", "b": "1"}
    assert w.reading.recorded == [("a", "1"), ("b", "1")]
    assert [w.status(each).standing.state for each in "ab"] == [State.READY, State.READY]


async def test_what_did_not_change_is_not_touched(w: World) -> None:
    w.put("a", "1")
    w.put("b", "1")
    await w.reload()
    kept = w.registry.catalogue.tools["a.do_it"].instance
    w.history.clear()
    w.put("b", "2")
    report = await w.reload()
    assert (report.kept, report.changed) == (("a",), ("b",))
    assert w.registry.catalogue.tools["a.do_it"].instance is kept
    assert w.history == ["prepare b 2", "ready b 2", "close b 1"], (
        "the new one is ready before the old one ends"
    )


async def test_a_pass_without_a_change_makes_no_generation(w: World) -> None:
    w.put("a", "1")
    first = await w.reload()
    w.history.clear()
    report = await w.reload()
    assert (report.kept, report.generation, report.revision) == (("a",), first.generation, first.revision)
    assert w.history == []


async def test_what_is_gone_is_removed_and_closed(w: World) -> None:
    w.put("a", "1")
    w.put("b", "1")
    await w.reload()
    w.drop("a")
    report = await w.reload()
    assert (report.removed, report.kept) == (("a",), ("b",))
    assert (w.serving(), w.alive(), w.heard.gone) == ({"b": "1"}, ["b 1"], ["a"])


@pytest.mark.promise("CORE-2")
async def test_a_broken_plugin_stops_nothing_else_and_the_last_good_one_serves(w: World) -> None:
    w.put("a", "1")
    w.put("b", "1")
    await w.reload()
    kept = w.registry.catalogue.tools["b.do_it"].instance
    w.put("a", "2")
    w.put("b", "2", prepare_error=BROKEN)
    report = await w.reload()
    assert (report.changed, report.kept) == (("a",), ("b",))
    assert [(each.name, each.line) for each in report.rejected] == [("b", 3)]
    assert w.serving() == {"a": "2", "b": "1"}
    assert w.registry.catalogue.tools["b.do_it"].instance is kept
    status = w.status("b")
    assert (status.standing.state, status.digest, status.found_digest) == (State.DEGRADED, "1", "2")
    assert w.alive() == ["a 2", "b 1"]


async def test_an_input_that_cannot_be_read_never_means_removed(w: World) -> None:
    w.put("a", "1")
    await w.reload()
    w.unreadable("a")
    report = await w.reload()
    assert (report.kept, report.removed) == (("a",), ())
    assert [each.reason for each in report.rejected] == ["cannot be read"]
    assert w.serving() == {"a": "1"}


async def test_a_plugin_that_is_to_rest_stops_serving_and_says_why(w: World) -> None:
    w.put("a", "1")
    await w.reload()
    w.idle("a", "switched off")
    report = await w.reload()
    assert report.changed == ("a",)
    assert (w.serving(), w.alive()) == ({}, [])
    assert (w.status("a").standing.state, w.status("a").standing.reason) == (
        State.UNAVAILABLE,
        "switched off",
    )


async def test_where_nothing_serves_the_last_good_content_does(w: World) -> None:
    w.put("a", "2", fallback="1", prepare_error=BROKEN)
    report = await w.reload()
    assert w.serving() == {"a": "1"}
    assert len(report.rejected) == 1
    assert w.status("a").standing.state is State.DEGRADED
    assert w.reading.recorded == [("a", "1")]


async def test_a_fault_of_ours_in_a_preparation_rejects_that_plugin_alone(w: World) -> None:
    w.put("a", "1", prepare_error=RuntimeError("a bug"))
    w.put("b", "1")
    report = await w.reload()
    assert w.serving() == {"b": "1"}
    assert [each.name for each in report.rejected] == ["a"]


async def test_a_startup_that_cancels_itself_is_rejected_and_ends_no_pass(w: World) -> None:
    w.put("a", "1", ready_error=asyncio.CancelledError())
    w.put("b", "1")
    report = await w.reload()
    assert w.serving() == {"b": "1"}
    assert [each.name for each in report.rejected] == ["a"]


async def test_a_plugin_that_was_idle_and_then_fails_is_not_listed_as_idle(w: World) -> None:
    w.idle("a")
    await w.reload()
    w.put("a", "1", prepare_error=BROKEN)
    await w.reload()
    assert w.status("a").standing.state is State.REJECTED
    assert list(w.registry.catalogue.tools) == []


# Standing rejections


async def test_a_standing_rejection_is_in_every_answer_until_mended(w: World) -> None:
    w.put("a", "1", prepare_error=BROKEN)
    w.put("b", "1")
    for _ in range(3):
        assert len((await w.reload()).rejected) == 1
    w.put("b", "2")
    assert len((await w.reload(name="b")).rejected) == 1
    w.put("a", "2")
    assert (await w.reload()).rejected == ()


async def test_only_an_explicit_reload_tries_a_rejected_content_again(w: World) -> None:
    """envoy#10046: a refused input is not tried again and again."""
    w.put("a", "1", prepare_error=BROKEN)
    await w.reload(cause="watch")
    for _ in range(3):
        assert len((await w.reload(cause="watch")).rejected) == 1
    assert w.history.count("prepare a 1") == 1
    await w.reload(cause="signal")
    assert w.history.count("prepare a 1") == 2
    w.orders.clear()
    assert (await w.reload()).rejected == ()
    assert w.serving() == {"a": "1"}


async def test_a_failing_content_that_comes_back_is_tried_again_by_the_watcher(w: World) -> None:
    w.put("a", "1", prepare_error=BROKEN)
    await w.reload(cause="watch")
    w.put("a", "2")
    await w.reload(cause="watch")
    w.put("a", "1")
    await w.reload(cause="watch")
    assert w.history.count("prepare a 1") == 2


# Single flight


@pytest.mark.promise("CORE-3")
async def test_every_asker_gets_a_pass_that_began_after_it_asked(w: World) -> None:
    w.reading.gate = asyncio.Event()
    w.put("a", "1")
    first = asyncio.create_task(w.reload())
    await settle()
    w.put("a", "2")
    second = asyncio.create_task(w.reload())
    third = asyncio.create_task(w.reload())
    await settle()
    assert len(w.reading.reads) == 1, "passes are single-flight"
    w.reading.gate.set()
    reports = await asyncio.gather(first, second, third)
    assert len(w.reading.reads) == 2, "those who asked meanwhile share one"
    assert w.serving() == {"a": "2"}
    assert reports[1] == reports[2]


async def test_askers_who_want_different_things_do_not_share(w: World) -> None:
    w.put("a", "1")
    await asyncio.gather(w.reload(), w.reload(dry_run=True), w.reload(name="a"), w.reload(cause="watch"))
    assert len(w.reading.reads) == 4


async def test_only_explicit_reloads_wait_for_what_is_being_written(w: World) -> None:
    for cause in ("start", "watch", "signal", "rpc"):
        await w.reload(cause=cause)
    assert w.reading.reads == [False, False, True, True]


async def test_an_asker_that_goes_away_does_not_end_the_pass_for_others(w: World) -> None:
    w.reading.gate = asyncio.Event()
    w.put("a", "1")
    first, second = asyncio.create_task(w.reload()), asyncio.create_task(w.reload())
    await settle()
    first.cancel()
    await settle()
    w.reading.gate.set()
    assert (await second).added == ("a",)
    assert first.cancelled()


async def test_a_pass_is_told_of_once_and_even_when_nobody_listens_any_more(w: World) -> None:
    w.reading.gate = asyncio.Event()
    w.put("a", "1")
    askers = [asyncio.create_task(w.reload()) for _ in range(3)]
    await settle()
    for each in askers:
        each.cancel()
    w.reading.gate.set()
    await settle()
    assert [report.added for _, report in w.heard.reports] == [("a",)]
    assert w.reloader.last is not None


async def test_a_fault_of_a_pass_is_raised_to_every_asker_and_the_next_one_works(w: World) -> None:
    for _ in range(2):
        results = await asyncio.gather(
            *(w.reload(if_revision="sha256:other") for _ in range(2)), return_exceptions=True
        )
        assert [type(each) for each in results] == [ConflictError, ConflictError]
    assert (await w.reload()).generation == 0


# The flavours


@pytest.mark.promise("CORE-5")
async def test_a_dry_run_changes_nothing_and_answers_the_same(w: World) -> None:
    w.put("a", "1")
    w.put("b", "1")
    w.put("d", "1")
    await w.reload()
    before, heard = w.registry.catalogue, len(w.heard.reports)
    recorded = list(w.reading.recorded)
    w.put("a", "2")
    w.put("b", "2", prepare_error=BROKEN)
    w.put("c", "1")
    w.drop("d")
    rehearsed = await w.reload(dry_run=True)
    assert (rehearsed.dry_run, rehearsed.revision) == (True, w.reloader.revision)
    assert w.registry.catalogue is before
    assert (w.alive(), w.reading.recorded) == (["a 1", "b 1", "d 1"], recorded)
    assert not any(each.startswith("ready") for each in w.history[-6:])
    assert (len(w.heard.reports), len(w.heard.plans)) == (heard, 1)
    real = await w.reload()
    for field in ("added", "changed", "removed", "kept", "rejected"):
        assert getattr(rehearsed, field) == getattr(real, field), field


async def test_a_dry_run_shows_the_standing_revision_only(w: World) -> None:
    w.put("a", "1")
    first = await w.reload()
    w.put("a", "2")
    await w.reload(dry_run=True)
    assert w.reloader.revision == first.revision


async def test_atomic_is_all(w: World) -> None:
    w.put("a", "1")
    w.put("b", "1")
    report = await w.reload(atomic=True)
    assert (report.added, w.serving()) == (("a", "b"), {"a": "1", "b": "1"})


@pytest.mark.promise("CORE-5")
async def test_atomic_is_nothing_when_one_is_refused(w: World) -> None:
    w.put("a", "1")
    await w.reload()
    before, revision = w.registry.catalogue, w.reloader.revision
    w.put("a", "2")
    w.put("b", "1", prepare_error=BROKEN)
    report = await w.reload(atomic=True)
    assert (report.changed, report.added, report.kept) == ((), (), ("a",))
    assert [each.name for each in report.rejected] == ["b"]
    assert w.registry.catalogue is before
    assert (w.alive(), w.reloader.revision) == (["a 1"], revision)


async def test_atomic_gives_back_what_had_to_end_for_a_successor_that_does_not_come(w: World) -> None:
    w.put("a", "1", exclusive=("port",))
    await w.reload()
    w.put("a", "2", exclusive=("port",))
    w.put("b", "1", prepare_error=BROKEN)
    report = await w.reload(atomic=True)
    assert len(report.rejected) == 1
    assert (w.serving(), w.alive()) == ({"a": "1"}, ["a 1"])


async def test_if_revision_refuses_who_lost_a_race(w: World) -> None:
    w.put("a", "1")
    seen = (await w.reload()).revision
    w.put("a", "2")
    report = await w.reload(if_revision=seen)
    assert report.revision != seen
    w.put("a", "3")
    for stale in (seen, seen.removeprefix("sha256:")[:12], report.revision[:11], "sha256:"):
        with pytest.raises(ConflictError):
            await w.reload(if_revision=stale)
    assert w.serving() == {"a": "2"}
    shown = report.revision.removeprefix("sha256:")[:12]
    assert (await w.reload(if_revision=shown)).revision != report.revision, "as ctl status shows it"
    assert w.serving() == {"a": "3"}


async def test_a_name_reloads_that_plugin_alone(w: World) -> None:
    w.put("a", "1")
    w.put("b", "1")
    await w.reload()
    w.put("a", "2")
    w.put("b", "2")
    w.put("c", "1")
    report = await w.reload(name="b")
    assert (report.changed, report.kept) == (("b",), ("a",))
    assert w.serving() == {"a": "1", "b": "2"}
    w.drop("b")
    assert (await w.reload(name="b")).removed == ("b",)
    with pytest.raises(NotFoundError):
        await w.reload(name="nobody")
    await w.reload()
    assert w.serving() == {"a": "2", "c": "1"}


async def test_the_revision_speaks_of_content_and_configuration_alone(w: World) -> None:
    w.put("a", "1")
    first = (await w.reload()).revision
    w.put("a", "2")
    second = (await w.reload()).revision
    w.put("a", "1")
    assert (await w.reload()).revision == first != second
    w.set(drain_s=9)
    assert (await w.reload()).revision != first
