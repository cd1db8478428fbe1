"""Events: ordered, bounded, watched without gaps."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from datetime import UTC, datetime

import pytest

from hermesd.errors import FellBehindError
from hermesd.telemetry.event import KINDS, Event, EventLog


class FixedClock:
    def monotonic(self) -> float:
        return 1.0

    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def events() -> EventLog:
    return EventLog(FixedClock(), capacity=4)


def test_events_are_numbered_from_one_and_only_the_newest_are_kept(events: EventLog) -> None:
    for number in range(6):
        events.emit("plugin_added", f"p{number}")
    assert [each.seq for each in events.recent(10)] == [3, 4, 5, 6]
    assert [each.subject for each in events.recent(2)] == ["p4", "p5"]
    assert events.recent(0) == []
    assert events.last_seq == 6


def test_an_event_is_clean_and_frozen_and_may_have_a_field_of_any_name(events: EventLog) -> None:
    event = events.emit("plugin_rejected", "订单\x1b[2J", "bad\nline", name="x\u202e", kind="k", message="m")
    assert (event.subject, event.message) == ("订单", "bad line")
    assert dict(event.fields) == {"name": "x", "kind": "k", "message": "m"}
    with pytest.raises(TypeError):
        event.fields["name"] = "y"  # type: ignore[index]


def test_each_event_is_one_log_line_at_its_kinds_level(
    events: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "hermesd.event"):
        events.emit("plugin_rejected", "orders", "tab in line 3", file="plugin.yaml")
        events.emit("something_new", "x")
    first, second = caplog.records
    assert (first.levelno, first.getMessage()) == (logging.ERROR, "plugin_rejected orders: tab in line 3")
    assert first.fields == {  # type: ignore[attr-defined]
        "event": "plugin_rejected",
        "subject": "orders",
        "seq": 1,
        "file": "plugin.yaml",
    }
    assert second.levelno == logging.INFO


async def _take(events: EventLog, count: int, after_seq: int | None = None) -> list[Event]:
    taken = []
    async for event in events.watch(after_seq):
        taken.append(event)
        if len(taken) == count:
            break
    return taken


@pytest.mark.promise("OPS-8")
async def test_a_watch_resumes_after_a_number_and_then_goes_on_live(events: EventLog) -> None:
    for number in range(3):
        events.emit("plugin_added", f"p{number}")
    watch = events.watch(1)
    assert [(await anext(watch)).seq for _ in range(2)] == [2, 3]
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    events.emit("plugin_removed", "p0")
    assert (await waiting).seq == 4


async def test_a_watch_from_now_starts_where_it_was_asked_for_not_where_it_is_first_read(
    events: EventLog,
) -> None:
    events.emit("plugin_added", "before")
    watch = events.watch()
    events.emit("plugin_added", "after")
    assert (await anext(watch)).subject == "after"


@pytest.mark.promise("OPS-8")
async def test_a_watcher_that_fell_behind_is_told_and_never_skips(events: EventLog) -> None:
    watch = events.watch(0)
    events.emit("plugin_added", "p")
    assert (await anext(watch)).seq == 1
    for _ in range(6):
        events.emit("plugin_added", "p")
    with pytest.raises(FellBehindError, match="oldest that is kept is 4"):
        await anext(watch)


async def test_a_number_from_before_a_restart_is_refused_not_waited_for(events: EventLog) -> None:
    with pytest.raises(FellBehindError, match="no event 90"):
        await anext(events.watch(90))


async def test_other_threads_may_emit_while_a_loop_watches() -> None:
    events = EventLog(FixedClock(), capacity=1000)
    taking = asyncio.ensure_future(_take(events, 400, 0))
    await asyncio.sleep(0)
    threads = [
        threading.Thread(target=lambda: [events.emit("tool_added", "t") for _ in range(100)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    taken = await asyncio.wait_for(taking, 20)
    for thread in threads:
        thread.join()
    assert [each.seq for each in taken] == list(range(1, 401))


def test_a_watcher_whose_loop_is_gone_does_not_disturb_emit(events: EventLog) -> None:
    loop = asyncio.new_event_loop()
    watch = events.watch()
    waiting = loop.create_task(anext(watch))  # type: ignore[arg-type]
    loop.run_until_complete(asyncio.sleep(0))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waiting)
    loop.close()
    events.emit("plugin_added", "p")
    assert events.last_seq == 1


def test_every_kind_is_a_plain_word_with_a_level() -> None:
    assert all(kind.isidentifier() and kind.islower() for kind in KINDS)
    assert json.dumps(sorted(KINDS))
