"""Calls that go on without their caller."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermesd.clock import SystemClock
from hermesd.errors import (
    AlreadyExistsError,
    DrainingError,
    ExhaustedError,
    FellBehindError,
    InvalidRequestError,
    NotFoundError,
    StoreError,
    UnauthenticatedError,
)
from hermesd.model.call import Caller, Code, Outcome, Result, Rights
from hermesd.runtimes.runtime import Invocation
from hermesd.serving import detached as module
from hermesd.serving.detached import DetachedCalls
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Cut
from hermesd.serving.journal import MAX_BYTES, Journal, JournalEvent
from hermesd.serving.output import Outputs
from hermesd.serving.policy import CallPolicy
from hermesd.store.output import OutputStore
from tests.core_doubles import OPERATOR, Served, SetClock, raw_tool

pytestmark = pytest.mark.promise("OUT-7")

#: Anybody but the operator, with the right to call.
AGENT = Caller("reporter", "agent", rights=Rights(allow=("*",)))


class Detaching(Served):
    """A dispatcher, outputs and a task group. `release` lets the tool a.wait_long end."""

    def __init__(self, folder: Path, tasks: asyncio.TaskGroup, policy: CallPolicy | None = None) -> None:
        super().__init__(policy)
        self.store = OutputStore(folder / "output", SystemClock())
        self.outputs = Outputs(self.store)
        self.dispatcher = Dispatcher(
            self.registry, self.flights, policy or CallPolicy(), self.told, self.clock, outputs=self.outputs
        )
        self.detached = DetachedCalls(self.dispatcher, self.registry, self.outputs, tasks)
        self.release = asyncio.Event()
        self.data: Any = {"n": 1}

        async def wait(invocation: Invocation) -> Outcome:
            invocation.emit("progress", {"done": 1, "total": 2, "message": "half"})
            invocation.emit("log", {"level": "info", "message": "on it"})
            await self.release.wait()
            return Outcome(Code.OK, json.dumps(self.data))

        number = {"type": "object", "properties": {"n": {"type": "integer"}}}
        self.offer(raw_tool("a.wait_long", parameters=number, timeout_ms=20), handler=wait)
        self.offer(raw_tool("b.read_it", side_effects="read"), handler=wait)

    async def start(self, request_id: str = "r1", tool: str = "a.wait_long", **more: Any) -> Result:
        arguments = more.pop("arguments", "{}")
        request = self.request(tool, arguments, request_id=request_id, detach=True, **more)
        return await self.detached.start(request)

    async def events(
        self, request_id: str = "r1", caller: Caller = OPERATOR, after_seq: int | None = None
    ) -> list[JournalEvent]:
        return await all_of(await self.detached.watch(request_id, caller, after_seq))


async def all_of(events: AsyncIterator[JournalEvent]) -> list[JournalEvent]:
    return [each async for each in events]


def kinds(events: list[JournalEvent]) -> list[str]:
    return [each.kind for each in events]


async def test_it_is_answered_at_once_and_its_result_is_watched(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        answer = await served.start()
        assert (answer.code, answer.data_json, answer.detail) == (Code.OK, "null", {"detached": True})
        assert (answer.effect, answer.request_id, answer.tool) == ("unknown", "r1", "a.wait_long")
        watched = asyncio.create_task(served.events())
        await asyncio.sleep(0.05)  # beyond the tool's own timeout
        served.release.set()
        events = await watched
    assert kinds(events) == ["started", "progress", "log", "result"]
    assert [each.seq for each in events] == [1, 2, 3, 4]
    result = events[-1].result
    assert result is not None
    assert (result.code, result.effect, result.data_json) == (Code.OK, "done", '{"n": 1}')
    assert kinds(await served.events()) == kinds(events)
    assert kinds(await served.events(after_seq=2)) == ["started", "log", "result"]
    assert kinds(await served.events(after_seq=4)) == ["started"]
    assert (await served.outputs.page(OPERATOR, "r1", "", 0))[0] == '{"n": 1}'


async def test_what_can_be_refused_at_once_is_and_leaves_nothing(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        wrong = await served.start(arguments='{"n": "x"}')
        unknown = await served.start(tool="a.no_such")
        assert (wrong.code, unknown.code) == (Code.INVALID_ARGUMENT, Code.UNKNOWN_TOOL)
        with pytest.raises(NotFoundError):
            await served.detached.watch("r1", OPERATOR, None)
        served.dispatcher.draining = True
        with pytest.raises(DrainingError):
            await served.start()
    assert len(served.detached) == 0
    assert list((tmp_path / "output").iterdir()) == []


async def test_an_id_in_flight_is_refused_and_a_flood_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_RUNNING", 2)
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        await served.start()
        with pytest.raises(AlreadyExistsError):
            await served.start()
        await served.start("r2")
        with pytest.raises(ExhaustedError):
            await served.start("r3")
        served.release.set()


async def test_nothing_begins_that_cannot_be_noted(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        with pytest.raises(StoreError):  # the folder is not there
            await served.start()
    assert served.told.began == []
    assert len(served.detached) == 0


async def test_it_is_cancelled_by_its_owner(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        await served.start(caller=AGENT)
        assert not served.dispatcher.cancel("r1", Caller("other", "agent"))
        assert served.dispatcher.cancel("r1", AGENT)
        events = await served.events(caller=AGENT)
    assert events[-1].result is not None
    assert (events[-1].result.code, events[-1].result.effect) == (Code.CANCELLED, "unknown")


async def test_anothers_call_is_as_if_it_were_not_there(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        await served.start(caller=AGENT)
        for ended in (False, True):
            if ended:
                served.release.set()
                await served.events(caller=AGENT)
            answers = []
            for name in ("r1", "r2"):
                with pytest.raises(NotFoundError) as refused:
                    await served.detached.watch(name, Caller("other", "agent"), None)
                answers.append(refused.value.message.replace(name, "?") + refused.value.remedy)
            assert answers[0] == answers[1]
            assert (await served.detached.watch("r1", OPERATOR, None)) is not None


async def test_it_goes_on_under_the_ceiling_alone(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks, CallPolicy(max_timeout_ms=60))
        await served.outputs.open()
        await served.start(deadline=0.0)  # the caller's own deadline ends with the caller
        events = await served.events()
    assert events[-1].result is not None
    assert events[-1].result.code is Code.TIMEOUT
    assert events[-1].result.duration_ms >= 55


async def test_its_own_timeout_is_obeyed_below_the_ceiling(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        await served.start(timeout_ms=30)
        events = await served.events()
    assert events[-1].result is not None
    assert events[-1].result.code is Code.TIMEOUT


@pytest.mark.promise("OUT-4")
async def test_a_long_result_is_cut_for_the_watcher_and_read_whole(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        served.data = "word " * 5000
        await served.start()
        served.release.set()
        result = (await served.events())[-1].result
    assert result is not None
    assert result.truncated
    assert json.loads((await served.outputs.page(OPERATOR, "r1", "", 0))[0]) == served.data


@pytest.mark.promise("OUT-8")
async def test_another_daemon_knows_the_answer(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        await served.start(session_id="s")
        served.release.set()
        before = await served.events()
    async with asyncio.TaskGroup() as tasks:
        again = Detaching(tmp_path, tasks)
        assert await again.outputs.open() == []
        events = await again.events(after_seq=2)
        assert kinds(events) == ["started", "result"]
        assert events[-1].seq == before[-1].seq
        assert events[-1].result == before[-1].result
        with pytest.raises(FellBehindError):
            await again.events(after_seq=9)
        with pytest.raises(InvalidRequestError):
            await again.events(after_seq=-1)


@pytest.mark.promise("OUT-8")
async def test_what_a_daemon_did_not_see_end_is_unknown_to_the_next(tmp_path: Path):
    async def crash() -> None:
        async with asyncio.TaskGroup() as tasks:
            served = Detaching(tmp_path, tasks)
            await served.outputs.open()
            await served.start("w")
            await served.start("r", tool="b.read_it")
            raise RuntimeError("crash")

    with pytest.raises(ExceptionGroup):
        await crash()
    async with asyncio.TaskGroup() as tasks:
        again = Detaching(tmp_path, tasks)
        unended = await again.outputs.open()
        assert {each.request_id for each in unended} == {"w", "r"}
        with pytest.raises(NotFoundError):
            await again.outputs.page(OPERATOR, "w", "", 0)
        await again.detached.recover(unended)
        found = {name: (await again.events(name))[-1].result for name in ("w", "r")}
    for name, effect in (("w", "unknown"), ("r", "none")):
        result = found[name]
        assert result is not None
        assert (result.code, result.effect) == (Code.UNAVAILABLE, effect)
        assert result.detail["remedy"]
        assert result.tool


@pytest.mark.promise("OUT-8")
async def test_one_that_a_stop_cuts_says_so_afterwards(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        await served.start()
        for flight in served.flights:
            flight.end(Cut(Code.UNAVAILABLE, "the daemon stopped", "call again"))
    async with asyncio.TaskGroup() as tasks:
        again = Detaching(tmp_path, tasks)
        assert await again.outputs.open() == []
        result = (await again.events())[-1].result
    assert result is not None
    assert (result.code, result.message) == (Code.UNAVAILABLE, "the daemon stopped")


async def test_it_cannot_be_watched_once_it_has_expired(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        clock = SetClock()
        served.store._clock = clock
        await served.outputs.open()
        await served.start()
        served.release.set()
        await served.events()
        clock.at += 90_000
        with pytest.raises(NotFoundError):
            await served.events()


# what it says


@pytest.mark.promise("OUT-9")
async def test_what_is_dropped_is_counted_for_every_reader():
    journal = Journal(max_events=4)
    for each in range(10):
        journal.add("log", {"message": str(each)})
        journal.add("progress", {"done": each})
    late = asyncio.create_task(all_of(journal.read("r", None)))
    await asyncio.sleep(0)
    journal.add("log", {"message": "last"})
    journal.end(result_of("r"))
    events = await late
    told = [each.payload.get("message") for each in events if each.kind == "log"]
    assert len(told) + sum(each.dropped_logs for each in events) == 11
    assert told[-1] == "last"
    again = await all_of(journal.read("r", None))
    assert (
        len([each for each in again if each.kind == "log"]) + sum(each.dropped_logs for each in again) == 11
    )


@pytest.mark.promise("OUT-9")
async def test_a_call_that_says_much_costs_little():
    journal = Journal()
    for _ in range(1000):
        journal.add("log", {"message": "x" * 8000})
    assert sum(each.size for each in journal._lines) <= MAX_BYTES


async def test_readers_that_come_and_go_hear_all_of_it():
    journal = Journal()
    first = journal.read("r", None)
    assert (await anext(first)).kind == "started"
    waiting = asyncio.create_task(anext(first))
    await asyncio.sleep(0)
    journal.add("progress", {"done": 1})
    assert (await waiting).kind == "progress"
    await first.aclose()  # type: ignore[attr-defined]
    journal.add("progress", {"done": 2})
    journal.end(result_of("r"))
    journal.add("progress", {"done": 3})
    assert [each.payload.get("done") for each in await all_of(journal.read("r", 2))] == [None, 2, None]


def result_of(request_id: str) -> Result:
    return Result(
        Code.OK, "", "null", request_id, "", "a.b", "1.0.0", 1, 1, 0.0, 0.0, retryable=False, effect="none"
    )


async def test_nobody_takes_the_places_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_OWN", 2)
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        for number in range(2):
            await served.start(f"r{number}", caller=AGENT)
        with pytest.raises(ExhaustedError, match="of yours"):
            await served.start("r2", caller=AGENT)
        assert (await served.start("r2", caller=OPERATOR)).detail == {"detached": True}
        served.release.set()
    async with asyncio.TaskGroup() as tasks:
        served.detached._tasks = tasks
        assert (await served.start("r3", caller=AGENT)).detail == {"detached": True}


async def test_a_call_that_has_ended_holds_its_arguments_no_longer(tmp_path: Path):
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        served.release.set()
        await served.start(arguments=json.dumps({"x": "x" * 100_000}))
        await served.events()
    (kept,) = served.detached._ended.values()
    assert kept.request.arguments_json == ""


async def test_one_whose_caller_leaves_before_it_begins_leaves_nothing(tmp_path: Path):
    """Its note would stay for ever, and be told as a call that a crash cut."""
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        write, written = served.store.write, threading.Event()

        def slow(*args: Any, **more: Any) -> Any:
            time.sleep(0.05)
            try:
                return write(*args, **more)
            finally:
                written.set()

        served.store.write = slow  # type: ignore[method-assign]
        starting = asyncio.create_task(served.start())
        await asyncio.sleep(0.01)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await asyncio.to_thread(written.wait)
        await asyncio.sleep(0.02)
        assert (served.store.size, list((tmp_path / "output").iterdir())) == (0, [])
        assert len(served.detached) == 0


async def test_one_whose_agent_is_revoked_before_it_begins_does_not_begin(tmp_path: Path):
    """It is not among the calls in flight yet, which the revocation ends."""
    async with asyncio.TaskGroup() as tasks:
        served = Detaching(tmp_path, tasks)
        await served.outputs.open()
        served.detached._is_current = lambda caller: caller is not AGENT
        with pytest.raises(UnauthenticatedError):
            await served.start(caller=AGENT)
        assert (served.store.size, len(served.detached), len(served.flights)) == (0, 0, 0)
