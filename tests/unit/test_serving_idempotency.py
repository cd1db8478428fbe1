"""A key runs its call once; an intent stands before anything can happen, and only as long as it must."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any

import pytest

from hermesd.access.policy import ALLOWED
from hermesd.errors import StoreError
from hermesd.model.call import Caller, Code, Outcome, Result
from hermesd.model.intent import Intent, Recorded
from hermesd.reload.drain import Drainer
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.idempotency import MemoryLedger
from hermesd.serving.policy import CallPolicy
from tests.core_doubles import FakeRuntime, Served, SetClock, raw_tool, settle

WRITE = raw_tool("orders.place_order")
READ = raw_tool("orders.query_status", side_effects="read")
SAFE = raw_tool("orders.put_note", idempotent=True)


class Ledger(MemoryLedger):
    """A ledger whose disk fails when told, and whose ends wait for `gate`."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[str] = []
        self.fails: StoreError | None = None
        self.hangs = False
        self.gate: list[Callable[[], None]] | None = None

    async def find(self, principal: str, tool: str, key: str, since: datetime) -> Recorded | None:
        if self.fails is not None:
            raise self.fails
        return await super().find(principal, tool, key, since)

    async def begin(self, intent: Intent) -> None:
        if self.fails is not None:
            raise self.fails
        if self.hangs:
            await asyncio.Event().wait()
        self.history.append(f"begin {intent.tool}")
        await super().begin(intent)

    def end(self, intent: Intent, result: Result | None) -> Future[object]:
        self.history.append(f"end {intent.tool} {result.code if result is not None else 'free'}")
        future: Future[object] = Future()
        if self.fails is not None:
            future.set_exception(self.fails)
            return future
        if self.gate is None:
            return super().end(intent, result)
        self.gate.append(lambda: future.set_result(MemoryLedger.end(self, intent, result).result()))
        return future


class Bench(Served):
    def __init__(self, **policy: Any) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.flights = Flights()
        self.clock = SetClock()  # type: ignore[assignment] # moved by hand
        self.dispatcher = Dispatcher(
            self.registry, self.flights, CallPolicy(**policy), self.told, self.clock, ledger=self.ledger
        )

    def offer_all(self, handler: Any = None) -> FakeRuntime:
        return self.offer(WRITE, READ, SAFE, **({"handler": handler} if handler else {}))

    async def keyed(self, arguments: str = "{}", tool: str = "orders.place_order", **more: Any) -> Result:
        return await self.call(tool, arguments, idempotency_key="k", **more)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.promise("IDM-1")
async def test_the_same_key_and_arguments_answer_the_record_and_run_nothing(bench: Bench) -> None:
    """companion-emergence#66, agent-crew#28: a replayed call did its work twice."""
    runtime = bench.offer_all()
    first = await bench.keyed('{"b": 1, "a": "文"}')
    again = await bench.keyed('{"a":"文","b":1}', request_id="later", session_id="s2")
    assert len(runtime.invocations) == 1
    assert (first.code, first.effect, first.detail) == (Code.OK, "done", {})
    assert (again.code, again.effect, again.data_json) == (Code.OK, "done", first.data_json)
    assert again.detail == {"replayed": True, "replayed_from": first.request_id}
    assert (again.request_id, again.session_id, again.attempts) == ("later", "s2", 0)
    assert bench.told.results == [first, again]
    assert bench.ledger.history == ["begin orders.place_order", "end orders.place_order OK"]


async def test_a_key_belongs_to_one_principal_and_one_tool(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermesd.serving.dispatcher.decide", lambda *_: ALLOWED)
    runtime = bench.offer_all()
    plugin = Caller("orders", "plugin", calls=("orders.*",), on_behalf_of=Caller("a", "agent"))
    for caller in (
        Caller("a", "agent"),
        Caller("b", "agent"),
        Caller("operator", "agent"),
        Caller("x", "operator"),
    ):
        assert "replayed" not in (await bench.keyed(caller=caller)).detail
    assert "replayed" not in (await bench.keyed(tool="orders.query_status")).detail
    assert (await bench.keyed(caller=plugin)).detail["replayed"]
    assert (await bench.keyed(caller=Caller("y", "operator"))).detail["replayed"]
    assert len(runtime.invocations) == 5


@pytest.mark.promise("IDM-2")
async def test_a_key_with_other_arguments_is_refused(bench: Bench) -> None:
    runtime = bench.offer_all()
    await bench.keyed('{"n": 1}')
    for _ in range(2):
        refused = await bench.keyed('{"n": 2}')
        assert (refused.code, refused.effect) == (Code.INVALID_ARGUMENT, "none")
        assert refused.detail["reason"] == "idempotency_key"
        assert "new idempotency_key" in str(refused.detail["remedy"])
    assert (await bench.keyed('{"n": 1}')).detail["replayed"]
    assert len(runtime.invocations) == 1


async def test_the_final_arguments_are_what_counts(bench: Bench) -> None:
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}
    runtime = bench.offer(raw_tool("orders.place_order", parameters=parameters))
    await bench.keyed('{"n": "3"}')
    assert (await bench.keyed('{"n": 3}')).detail["replayed"]
    assert len(runtime.invocations) == 1


@pytest.mark.promise("IDM-3")
async def test_duplicates_wait_for_the_one(bench: Bench) -> None:
    go = asyncio.Event()

    async def slow(invocation: Invocation) -> Outcome:
        await go.wait()
        return Outcome(Code.OK, '"one"')

    runtime = bench.offer_all(slow)
    calls = [asyncio.create_task(bench.keyed()) for _ in range(10)]
    await settle()
    refused = await bench.keyed('{"other": 1}')
    assert refused.code is Code.INVALID_ARGUMENT
    go.set()
    results = await asyncio.gather(*calls)
    assert len(runtime.invocations) == 1
    assert [each.data_json for each in results] == ['"one"'] * 10
    assert sum("replayed" in each.detail for each in results) == 9


async def test_when_the_one_is_refused_before_it_ran_a_duplicate_takes_its_place(bench: Bench) -> None:
    bench.dispatcher.policy = CallPolicy(max_concurrency=1, queue_ms=60_000)
    go = asyncio.Event()

    async def slow(invocation: Invocation) -> Outcome:
        await go.wait()
        return Outcome(Code.OK)

    runtime = bench.offer_all(slow)
    other = asyncio.create_task(bench.call("orders.place_order"))
    await settle()
    first = asyncio.create_task(bench.keyed(request_id="first"))
    await settle()
    second, third = (asyncio.create_task(bench.keyed()) for _ in range(2))
    await settle()
    assert bench.dispatcher.cancel("first", bench.request("x").caller)
    assert (await first).code is Code.CANCELLED
    go.set()
    results = await asyncio.gather(second, third, other)
    assert [each.code for each in results] == [Code.OK] * 3
    assert len(runtime.invocations) == 2


@pytest.mark.promise("IDM-3")
async def test_what_a_call_began_on_stays_while_its_key_is_looked_up(bench: Bench) -> None:
    """Replaced meanwhile, the old content is closed only after the call, which ends on it."""
    old = bench.offer_all()
    instance = bench.instances["orders"]
    looked_up, found = asyncio.Event(), bench.ledger.find

    async def find(*key: Any) -> Recorded | None:
        await looked_up.wait()
        return await found(*key)

    bench.ledger.find = find  # type: ignore[method-assign]
    call = asyncio.create_task(bench.keyed())
    await settle()
    async with asyncio.TaskGroup() as tasks:
        bench.offer_all()
        drained = Drainer(tasks, bench.flights, lambda: 5.0).retire(instance)
        await settle()
        assert (instance.leases, drained.done()) == (1, False)
        looked_up.set()
    assert (await call).code is Code.OK
    assert (len(old.invocations), old.closed) == (1, 1)


async def test_a_duplicate_waits_no_longer_than_its_own_deadline_and_does_not_say_none(bench: Bench) -> None:
    go = asyncio.Event()

    async def slow(invocation: Invocation) -> Outcome:
        await go.wait()
        return Outcome(Code.OK)

    bench.offer_all(slow)
    first = asyncio.create_task(bench.keyed())
    await settle()
    late = await bench.keyed(timeout_ms=20)
    assert (late.code, late.effect) == (Code.TIMEOUT, "unknown")
    cut = asyncio.create_task(bench.keyed(request_id="cut"))
    await settle()
    bench.dispatcher.cancel("cut", bench.request("x").caller)
    assert ((await cut).code, (await cut).effect) == (Code.CANCELLED, "unknown")
    go.set()
    assert (await first).code is Code.OK


@pytest.mark.promise("IDM-4")
async def test_the_intent_is_written_before_the_runtime_is_entered(bench: Bench) -> None:
    async def look(invocation: Invocation) -> Outcome:
        bench.ledger.history.append("runs")
        (intent,) = bench.ledger.intents.values()
        assert (intent.request_id, intent.principal, intent.tool) == (
            invocation.request_id,
            "operator",
            invocation.tool,
        )
        return Outcome(Code.OK)

    bench.offer_all(look)
    await bench.call("orders.place_order")
    assert bench.ledger.history == ["begin orders.place_order", "runs", "end orders.place_order free"]
    bench.ledger.history.clear()
    await bench.keyed(tool="orders.query_status")
    assert bench.ledger.history == ["begin orders.query_status", "runs", "end orders.query_status OK"]
    assert not bench.ledger.intents


async def test_a_call_that_only_reads_touches_no_store(bench: Bench) -> None:
    runtime = bench.offer_all()
    bench.ledger.fails = StoreError("no space left", remedy="free space")
    assert (await bench.call("orders.query_status")).code is Code.OK
    assert bench.ledger.history == []
    assert len(runtime.invocations) == 1


@pytest.mark.promise("IDM-5")
@pytest.mark.parametrize("tool", ["orders.place_order", "orders.query_status"])
async def test_what_cannot_be_written_down_is_not_begun(bench: Bench, tool: str) -> None:
    runtime = bench.offer_all()
    bench.ledger.fails = StoreError("no space left", remedy="free space")
    for call in (bench.keyed(tool=tool), bench.call("orders.place_order")):
        refused = await call
        assert (refused.code, refused.effect, refused.retryable) == (Code.UNAVAILABLE, "none", True)
        assert refused.detail["reason"] == "no space left"
        assert refused.detail["remedy"] == "free space"
    assert runtime.invocations == []
    bench.ledger.fails = None
    assert (await bench.keyed(tool=tool)).code is Code.OK, "the key is free"


async def test_a_store_that_hangs_costs_a_call_its_own_time_only(bench: Bench) -> None:
    """hermes-agent#41289, #60794, #40695: the loop stood still for the disk."""
    runtime = bench.offer_all()
    bench.ledger.hangs = True
    result = await bench.call("orders.place_order", timeout_ms=20)
    assert (result.code, result.effect) == (Code.TIMEOUT, "none")
    assert runtime.invocations == []


async def test_a_result_that_could_not_be_recorded_is_answered_all_the_same_and_kept(bench: Bench) -> None:
    async def breaks(invocation: Invocation) -> Outcome:
        bench.ledger.fails = StoreError("no space left")
        return Outcome(Code.OK, '"once"')

    runtime = bench.offer_all(breaks)
    assert (await bench.keyed()).code is Code.OK
    await settle()
    again = await bench.keyed()
    assert (again.data_json, again.detail["replayed"]) == ('"once"', True)
    bench.dispatcher.idempotency.save_again()
    await settle()
    assert (await bench.keyed()).detail["replayed"], "still"
    bench.ledger.fails = None
    bench.dispatcher.idempotency.save_again()
    await settle()
    assert len(bench.ledger.answers) == 1
    assert not bench.ledger.intents
    assert (await bench.keyed()).detail["replayed"]
    assert len(runtime.invocations) == 1


async def test_an_answer_waits_for_its_record_but_not_for_ever(bench: Bench) -> None:
    bench.offer_all()
    bench.ledger.gate = []
    first = asyncio.create_task(bench.keyed(timeout_ms=200))
    await settle()
    assert not first.done(), "what was acknowledged is on disk"
    duplicate = asyncio.create_task(bench.keyed())
    assert (await first).code is Code.OK
    assert not duplicate.done()
    bench.ledger.gate.pop()()
    assert (await duplicate).detail["replayed"]


@pytest.mark.parametrize(
    ("tool", "outcome", "kept"),
    [
        ("orders.place_order", Outcome(Code.TOOL_ERROR, message="no"), True),
        ("orders.place_order", Outcome(Code.TOOL_ERROR, message="no", effect="none"), True),
        ("orders.place_order", Outcome(Code.INVALID_RESULT), True),
        ("orders.place_order", Outcome(Code.UNAVAILABLE), True),
        ("orders.place_order", Outcome(Code.INTERNAL), True),
        ("orders.query_status", Outcome(Code.TOOL_ERROR, message="no"), True),
        ("orders.query_status", Outcome(Code.UNAVAILABLE), False),
        ("orders.put_note", Outcome(Code.TOOL_ERROR), True),
        ("orders.put_note", Outcome(Code.UNAVAILABLE), False),
    ],
)
@pytest.mark.promise("IDM-6")
async def test_a_tools_answer_lasts_and_so_does_a_doubt_but_not_what_may_be_repeated(
    bench: Bench, tool: str, outcome: Outcome, kept: bool
) -> None:
    async def answer(invocation: Invocation) -> Outcome:
        return outcome

    runtime = bench.offer_all(answer)
    first = await bench.keyed(tool=tool)
    again = await bench.keyed(tool=tool)
    assert len(runtime.invocations) == (1 if kept else 2)
    assert (again.code, again.effect) == (first.code, first.effect)
    assert again.detail.get("replayed") is (True if kept else None)
    if kept:
        assert again.retryable is False
        if again.effect == "unknown":
            assert "before you call again" in str(again.detail["remedy"])
    assert not bench.ledger.intents


async def test_a_cut_or_abandoned_call_leaves_its_doubt_to_its_key(bench: Bench) -> None:
    entered = asyncio.Event()

    async def slow(invocation: Invocation) -> Outcome:
        entered.set()
        await asyncio.Event().wait()
        return Outcome(Code.OK)

    bench.offer_all(slow)
    task = asyncio.create_task(bench.keyed())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = await bench.keyed()
    assert (again.code, again.effect, again.detail["replayed"]) == (Code.CANCELLED, "unknown", True)
    timed = await bench.call("orders.place_order", idempotency_key="other", timeout_ms=20)
    assert (timed.code, timed.effect) == (Code.TIMEOUT, "unknown")
    assert (await bench.call("orders.place_order", idempotency_key="other")).code is Code.TIMEOUT


async def test_a_refusal_before_the_runtime_frees_the_key(bench: Bench) -> None:
    runtime = bench.offer_all()
    runtime.refusal = ("down", "start it")
    assert (await bench.keyed()).code is Code.UNAVAILABLE
    runtime.refusal = None
    assert (await bench.keyed()).code is Code.OK
    assert len(runtime.invocations) == 1


async def test_a_key_answers_within_its_window_and_is_new_after_it() -> None:
    bench = Bench(idempotency_window_s=60)
    runtime = bench.offer_all()
    await bench.keyed()
    bench.clock.at += 59  # type: ignore[attr-defined]
    assert (await bench.keyed()).detail["replayed"]
    bench.clock.at += 2  # type: ignore[attr-defined]
    assert "replayed" not in (await bench.keyed('{"other": 1}')).detail
    assert len(runtime.invocations) == 2


@pytest.mark.promise("IDM-6")
async def test_what_a_call_begins_on_stays_open_while_its_key_is_looked_up() -> None:
    """A reload meanwhile would close it, and the key would keep a doubt about what never ran."""
    looked = asyncio.Event()

    class Slow(Ledger):
        async def find(self, principal: str, tool: str, key: str, since: datetime) -> Recorded | None:
            await looked.wait()
            return None

    served = Served(ledger=Slow())
    old = served.offer(WRITE)
    instance = served.instances["orders"]

    async def retire() -> None:
        await instance.idle()
        await old.close()

    calling = asyncio.create_task(served.call("orders.place_order", idempotency_key="k"))
    await settle()
    assert [each.instance for each in served.flights] == [instance], "the drain can cut it"
    served.offer(WRITE)
    retiring = asyncio.create_task(retire())
    await settle()
    looked.set()
    assert (await calling).code is Code.OK
    await retiring
    assert (len(old.invocations), old.closed) == (1, 1)
