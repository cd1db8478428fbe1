"""A call's record is made beside the call: complete, bounded, and never at the price of waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hermesd.model.call import Caller, Code, Outcome
from hermesd.model.record import CallRecord
from hermesd.model.redaction import Redaction
from hermesd.serving import recorder as module
from hermesd.serving.course import Course
from hermesd.serving.envelope import envelope
from hermesd.serving.recorder import Recorder, fingerprint
from tests.core_doubles import Served, SetClock, raw_tool


class Kept:
    """A sink, and what a recorder over it was told."""

    def __init__(self, *more: Any) -> None:
        self.records: list[CallRecord] = []
        self.batches = 0
        self.dropped = 0
        self.clock = SetClock()
        self.recorder = Recorder(
            (*more, self.take),
            redaction=Redaction,
            key=lambda: b"k",
            clock=self.clock,
            dropped=self.drop,
        )

    def take(self, records: Sequence[CallRecord]) -> None:
        self.batches += 1
        self.records += records

    def drop(self, count: int) -> None:
        self.dropped += count


async def ended(served: Served, kept: Kept, tool: str, arguments: str = "{}", **more: Any) -> None:
    """One call of `tool` through the dispatcher, recorded."""
    told = served.told
    before = told.finished
    told.finished = kept.recorder.take  # type: ignore[method-assign]
    try:
        await served.call(tool, arguments, **more)
    finally:
        told.finished = before  # type: ignore[method-assign]


@pytest.mark.promise("REC-2")
async def test_calls_are_recorded_in_order_a_batch_at_a_time() -> None:
    served, kept = Served(), Kept()
    served.offer(raw_tool("orders.read_it"))
    for number in range(5):
        await ended(served, kept, "orders.read_it", f'{{"n": {number}}}')
    await ended(served, kept, "orders.made_up")
    await kept.recorder.settled()
    assert [each.arguments for each in kept.records[:5]] == [f'{{"n": {number}}}' for number in range(5)]
    assert (kept.records[5].code, kept.records[5].source) == ("UNKNOWN_TOOL", "")
    assert kept.batches == 1
    await kept.recorder.settled()
    kept.recorder.close(5)
    assert kept.batches == 1


async def test_the_time_of_a_call_is_split_into_queue_other_tools_and_running() -> None:
    served, kept = Served(), Kept()
    served.offer(raw_tool("orders.read_it"))
    course = Course(served.request("orders.read_it"), None, 10.0, served.catalogue)
    course.queued_s = 0.5
    course.calls_out(11.0)
    course.calls_out(11.5)
    course.called_out(12.0)
    course.called_out(13.0)
    kept.recorder.take(course, replace(envelope(course, Outcome(Code.OK), 20.0)))
    await kept.recorder.settled()
    kept.recorder.close(5)
    [record] = kept.records
    assert (record.duration_ms, record.queued_ms) == (10_000, 500)
    assert (record.downstream_ms, record.run_ms) == (2000, 7500)
    assert (kept.clock.now() - record.at).total_seconds() == 10


async def test_a_call_of_a_plugin_is_recorded_for_the_agent_on_whose_wish_it_happened() -> None:
    served, kept = Served(), Kept()
    served.offer(raw_tool("orders.read_it"))
    caller = Caller("shop", "plugin", calls=("*",), on_behalf_of=Caller("ann", "agent"))
    await ended(served, kept, "orders.read_it", caller=caller, parent_request_id="p-1")
    await kept.recorder.settled()
    kept.recorder.close(5)
    [record] = kept.records
    assert (record.agent, record.agent_kind, record.caller) == ("ann", "agent", "shop")
    assert record.parent_request_id == "p-1"


@pytest.mark.promise("REC-7")
async def test_a_disk_that_never_answers_costs_records_and_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    free, stuck = threading.Event(), threading.Event()

    def slow(records: Sequence[CallRecord]) -> None:
        stuck.set()
        free.wait(10)

    served, kept = Served(), Kept(slow)
    served.offer(raw_tool("orders.read_it"))
    await ended(served, kept, "orders.read_it")
    settled = asyncio.ensure_future(kept.recorder.settled())
    await asyncio.to_thread(stuck.wait, 5)
    for _ in range(20):
        await ended(served, kept, "orders.read_it")
    assert kept.dropped == 11
    free.set()
    await settled
    await kept.recorder.settled()
    kept.recorder.close(5)
    assert len(kept.records) == 10


@pytest.mark.promise("REC-7")
async def test_long_texts_that_wait_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_CHARS", 5000)
    served, kept = Served(), Kept()
    served.offer(raw_tool("orders.read_it"))
    text = '{"a": "' + "x" * 1500 + '"}'
    for _ in range(3):
        await ended(served, kept, "orders.read_it", text)
    assert kept.dropped == 2
    await kept.recorder.settled()
    await ended(served, kept, "orders.read_it", text)
    await kept.recorder.settled()
    kept.recorder.close(5)
    assert (len(kept.records), kept.dropped) == (2, 2)


@pytest.mark.promise("REC-7")
async def test_a_sink_that_fails_is_counted_and_the_other_gets_the_records(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(records: Sequence[CallRecord]) -> None:
        raise OSError("no disk")

    served, kept = Served(), Kept(broken)
    served.offer(raw_tool("orders.read_it"))
    await ended(served, kept, "orders.read_it")
    await kept.recorder.settled()
    kept.recorder.close(5)
    assert (len(kept.records), kept.dropped) == (1, 1)
    assert "could not be kept" in caplog.text


async def test_what_waits_is_written_at_the_end_and_what_comes_later_is_counted() -> None:
    served, kept = Served(), Kept()
    served.offer(raw_tool("orders.read_it"))
    await ended(served, kept, "orders.read_it")
    kept.recorder.close(5)
    assert len(kept.records) == 1
    await ended(served, kept, "orders.read_it")
    assert kept.dropped == 1
    await kept.recorder.settled()


def test_a_fingerprint_is_of_what_the_arguments_say_and_of_this_daemon_alone() -> None:
    assert fingerprint('{"a": 1, "b": [2]}', b"k") == fingerprint('{"b":[2],"a":1}', b"k")
    assert fingerprint('{"a": 1}', b"k") != fingerprint('{"a": 1}', b"other")
    assert fingerprint('{"a": 1}', b"k") != fingerprint('{"a": 2}', b"k")
    for odd in ("no json", "[" * 100_000, '"\ud800"', "NaN"):
        assert len(fingerprint(odd, b"k")) == 32


async def test_text_that_cannot_be_stored_is_mended_and_secrets_of_metadata_are_hidden() -> None:
    served, kept = Served(), Kept()
    served.offer(raw_tool("orders.read_it"))
    metadata = {"token": "t", "note\ud800": "ann@x.example"}
    await ended(served, kept, "orders.read_it", request_id="r\ud800", session_id="会话", metadata=metadata)
    await kept.recorder.settled()
    kept.recorder.close(5)
    [record] = kept.records
    assert (record.request_id, record.session_id) == ("r?", "会话")
    assert record.metadata == {"token": "[redacted]", "note?": "[redacted e-mail]"}
    record.line(content=True).encode()
