"""Events of a running call, when the reader is slow."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.rpc.call_events import CallEvents


async def read(events: CallEvents[str]) -> list[tuple[int, str, int]]:
    seen = []
    while (event := await events.next()) is not None:
        seen.append((event.seq, event.kind, event.dropped_logs))
    return seen


async def test_events_keep_their_order_and_number():
    events: CallEvents[str] = CallEvents()
    events.emit("progress", {})
    events.emit("log", {})
    events.finish("done")
    assert await read(events) == [(2, "progress", 0), (3, "log", 0)]
    assert events.end() == (4, "done", 0)


async def test_the_oldest_progress_goes_before_any_log():
    events: CallEvents[str] = CallEvents(limit=3)
    for kind in ("log", "progress", "progress", "log", "progress"):
        events.emit(kind, {})
    events.finish("done")
    assert await read(events) == [(2, "log", 0), (5, "log", 0), (6, "progress", 0)]


async def test_a_dropped_log_is_counted_where_it_is_missing():
    events: CallEvents[str] = CallEvents(limit=2)
    for _ in range(5):
        events.emit("log", {})
    events.finish("done")
    assert await read(events) == [(5, "log", 3), (6, "log", 0)]
    assert events.end() == (7, "done", 0)


async def test_a_reader_that_waits_is_woken_by_the_next_event_and_by_the_end():
    events: CallEvents[str] = CallEvents()
    reader = asyncio.create_task(read(events))
    await asyncio.sleep(0)
    events.emit("log", {})
    await asyncio.sleep(0)
    events.finish("done")
    assert await reader == [(2, "log", 0)]


async def test_what_comes_after_the_end_is_ignored():
    events: CallEvents[str] = CallEvents()
    events.finish("done")
    events.emit("log", {})
    assert await read(events) == []


async def test_a_refused_call_has_no_result():
    events: CallEvents[str] = CallEvents()
    events.fail(ValueError("no"))
    assert await events.next() is None
    assert isinstance(events.failure, ValueError)
    with pytest.raises(RuntimeError):
        events.end()


def test_a_buffer_without_room_is_a_mistake():
    with pytest.raises(ValueError, match="one event"):
        CallEvents(limit=0)
