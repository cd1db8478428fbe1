"""Every call gets one answer in one shape, and each stage refuses before the next one begins."""

from __future__ import annotations

import asyncio
import json

import pytest

from hermesd.errors import AlreadyExistsError, DrainingError
from hermesd.model.call import Caller, Code, Outcome, effect_of
from hermesd.model.status import State
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.catalogue import Entry
from hermesd.serving.envelope import REMEDIES
from hermesd.serving.flight import Cut
from hermesd.serving.policy import MAX_DEPTH, CallPolicy
from tests.core_doubles import OPERATOR, Served, raw_tool, settle

STRICT = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    "required": ["order_id"],
    "additionalProperties": False,
}
AGENT = Caller("reporter", "agent")


async def never(_: Invocation) -> Outcome:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def test_an_answer_carries_the_whole_envelope() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status", version="2.1.0"))
    result = await served.call("orders.query_status", '{"汉":"字"}', session_id="s1")
    assert (result.code, result.status, json.loads(result.data_json)) == (Code.OK, "ok", {"汉": "字"})
    assert (result.tool, result.version, result.session_id) == ("orders.query_status", "2.1.0", "s1")
    assert (result.generation, result.attempts, result.effect) == (1, 1, "done")
    assert served.told.began == ["orders.query_status"]
    assert served.told.results == [result]


@pytest.mark.promise("CORE-8")
async def test_every_fault_of_the_arguments_is_listed_with_its_path() -> None:
    served = Served()
    runtime = served.offer(raw_tool("orders.query_status", parameters=STRICT))
    result = await served.call("orders.query_status", '{"count": 0, "cuont": 1}')
    assert result.code is Code.INVALID_ARGUMENT
    faults = {each["path"]: each for each in result.detail["faults"]}  # type: ignore[attr-defined]
    assert faults.keys() == {"/order_id", "/count", "/cuont"}
    assert all(each.keys() >= {"path", "problem", "expected", "got"} for each in faults.values())
    assert (result.effect, result.attempts) == ("none", 0)
    assert result.detail["remedy"]
    assert runtime.invocations == []


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "nonsense",
        "[1]",
        "null",
        '"text"',
        '{"n": NaN}',
        '{"n": Infinity}',
        '{"n": -Infinity}',
        '{"n": 1e999}',
        '{"n": ' + "9" * 5000 + "}",
        '{"n": ' + "[" * 100 + "]" * 100 + "}",
        "[" * 200_000,
        '{"n": "\\ud800"}',
        '{"\\udfff": 1}',
        "\x00",
        "{'a': 1}",
    ],
)
async def test_arguments_that_are_no_json_are_told_and_nothing_runs(text: str) -> None:
    served = Served()
    runtime = served.offer(raw_tool("orders.query_status"))
    result = await served.call("orders.query_status", text)
    assert result.code is Code.INVALID_ARGUMENT, result
    assert result.detail["faults"]
    assert len(result.message) < 400
    assert runtime.invocations == []
    assert served.told.errors == []


async def test_a_huge_argument_is_not_repeated_in_its_fault() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status", parameters=STRICT))
    result = await served.call("orders.query_status", json.dumps({"order_id": ["x" * 3_000_000]}))
    assert result.code is Code.INVALID_ARGUMENT
    assert len(result.detail_json) + len(result.message) < 5000


async def test_no_arguments_at_all_are_an_empty_object() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status"))
    assert (await served.call("orders.query_status", "")).code is Code.OK


async def test_an_unknown_tool_gets_the_nearest_names() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status"), raw_tool("orders.delete_all"))
    result = await served.call("orders.query_statu")
    assert (result.code, result.effect) == (Code.UNKNOWN_TOOL, "none")
    assert result.detail["nearest"] == ["orders.query_status", "orders.delete_all"]


async def test_a_tool_that_may_be_there_in_a_moment_is_unavailable_and_not_unknown() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status"))
    served.dispatcher.awaits = lambda tool: "it is being prepared" if tool.startswith("slow.") else ""
    coming = await served.call("slow.query_status")
    assert (coming.code, coming.effect, coming.retryable) == (Code.UNAVAILABLE, "none", True)
    assert (coming.message, coming.detail["remedy"]) == ("it is being prepared", "try again in a moment")
    assert (await served.call("never.query_status")).code is Code.UNKNOWN_TOOL
    plugin = Caller("text", "plugin", calls=("orders.query_status",), on_behalf_of=OPERATOR)
    hidden = await served.call("slow.query_status", caller=plugin)
    assert hidden.code is Code.UNKNOWN_TOOL, "what it may not see is not told of"


async def test_what_a_caller_may_not_see_is_unknown_and_never_among_the_nearest() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status"), raw_tool("orders.query_statistics"))
    plugin = Caller("text", "plugin", calls=("orders.query_statistics",), on_behalf_of=OPERATOR)
    hidden = await served.call("orders.query_status", caller=plugin)
    assert (hidden.code, hidden.detail["nearest"]) == (Code.UNKNOWN_TOOL, ["orders.query_statistics"])
    absent = await served.call("orders.query_stat", caller=AGENT)
    assert (absent.code, absent.detail["nearest"]) == (Code.UNKNOWN_TOOL, [])


async def test_an_unavailable_tool_says_why_and_what_to_do() -> None:
    """hermes-agent#5304, #21658: tools that were lost without a word."""
    served = Served()
    runtime = served.offer(raw_tool("orders.query_status"))
    runtime.refusal = ("its database is away", "start the database")
    result = await served.call("orders.query_status")
    assert (result.code, result.effect, result.retryable) == (Code.UNAVAILABLE, "none", True)
    assert (result.detail["reason"], result.detail["remedy"]) == (
        "its database is away",
        "start the database",
    )
    assert runtime.invocations == []


async def test_stages_refuse_in_their_order() -> None:
    """Bad arguments are told before an unavailable tool; an unknown name before bad arguments."""
    served = Served()
    runtime = served.offer(raw_tool("orders.query_status", parameters=STRICT))
    runtime.refusal = ("down", "up")
    assert (await served.call("orders.query_status", "{")).code is Code.INVALID_ARGUMENT
    assert (await served.call("orders.nothing_there", "{")).code is Code.UNKNOWN_TOOL
    assert (await served.call("orders.query_status", '{"order_id":"1"}')).code is Code.UNAVAILABLE


async def test_a_tool_that_is_switched_off_says_how_to_switch_it_on() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status"))
    served.registry.switch_off({"orders.query_status": served.clock.now()})
    result = await served.call("orders.query_status")
    assert result.code is Code.UNAVAILABLE
    assert result.detail["remedy"] == "hermesd ctl tools enable orders.query_status"


async def test_a_tool_whose_dependency_is_missing_is_unavailable_and_others_are_not() -> None:
    served = Served()
    served.offer(
        raw_tool("orders.query_status", depends_on=["stock.count_items"]), raw_tool("orders.list_all")
    )
    blocked = await served.call("orders.query_status")
    assert blocked.code is Code.UNAVAILABLE
    assert "stock.count_items" in str(blocked.detail["reason"])
    assert (await served.call("orders.list_all")).code is Code.OK


async def test_a_deadline_is_always_timeout() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status", timeout_ms=10), handler=never)
    result = await served.call("orders.query_status")
    assert (result.code, result.effect, result.attempts) == (Code.TIMEOUT, "unknown", 1)
    assert result.message == "orders.query_status did not answer within 10 ms"
    assert len(served.flights) == 0
    assert served.instances["orders"].leases == 0


async def test_a_deadline_in_the_queue_is_timeout_too_and_nothing_ran() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status", max_concurrency=1), handler=never)
    first = asyncio.create_task(served.call("orders.query_status"))
    await settle()
    result = await served.call("orders.query_status", timeout_ms=10)
    assert (result.code, result.effect, result.attempts) == (Code.TIMEOUT, "none", 0)
    assert result.queued_ms >= 9
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


@pytest.mark.parametrize(
    ("tool_ms", "asked_ms", "edge_s", "expected_s"),
    [
        (None, None, None, 3.0),
        (500, None, None, 0.5),
        (500, 900, None, 0.5),
        (500, 200, 10, 0.2),
        (None, None, 0.3, 0.3),
    ],
)
async def test_the_smallest_of_all_deadlines_reaches_the_tool(
    tool_ms: int | None, asked_ms: int | None, edge_s: float | None, expected_s: float
) -> None:
    served = Served()
    runtime = served.offer(raw_tool("orders.query_status", timeout_ms=tool_ms))
    now = served.clock.monotonic()
    deadline = None if edge_s is None else now + edge_s
    await served.call("orders.query_status", timeout_ms=asked_ms, deadline=deadline)
    given = runtime.invocations[0].deadline
    assert given is not None
    assert given - now == pytest.approx(expected_s, abs=0.05)


async def test_a_full_queue_is_overloaded_with_when_to_come_back() -> None:
    served = Served(CallPolicy(max_concurrency=1, queue_ms=1))
    served.offer(raw_tool("orders.query_status"), handler=never)
    first = asyncio.create_task(served.call("orders.query_status"))
    await settle()
    result = await served.call("orders.query_status")
    assert (result.code, result.effect, result.retryable) == (Code.OVERLOADED, "none", True)
    assert result.detail["retry_after_ms"] == 1
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_cancel_call_ends_a_call_with_an_answer() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status"), handler=never)
    call = asyncio.create_task(served.call("orders.query_status", request_id="mine"))
    await settle()
    assert served.dispatcher.cancel("mine", OPERATOR)
    result = await call
    assert (result.code, result.effect) == (Code.CANCELLED, "unknown")
    assert call.cancelling() == 0
    assert not served.dispatcher.cancel("mine", OPERATOR)


async def test_nobody_cancels_the_call_of_another() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status"), handler=never)
    call = asyncio.create_task(served.call("orders.query_status", request_id="mine"))
    await settle()
    assert not served.dispatcher.cancel("mine", AGENT)
    assert not call.done()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_a_caller_that_vanishes_cancels_its_call_and_it_is_recorded() -> None:
    served = Served()
    ended = asyncio.Event()

    async def clean_up(_: Invocation) -> Outcome:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError("unreachable")

    served.offer(raw_tool("orders.query_status"), handler=clean_up)
    call = asyncio.create_task(served.call("orders.query_status"))
    await settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()
    assert [each.code for each in served.told.results] == [Code.CANCELLED]
    assert (len(served.flights), served.instances["orders"].leases) == (0, 0)


async def test_a_call_that_is_cut_says_what_its_cutter_said() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status"), handler=never)
    call = asyncio.create_task(served.call("orders.query_status"))
    await settle()
    (flight,) = served.flights
    flight.end(Cut(Code.UNAVAILABLE, "was replaced", "call again"))
    flight.end(Cut(Code.CANCELLED, "a second reason", "none"))
    result = await call
    assert (result.code, result.message, result.detail["remedy"]) == (
        Code.UNAVAILABLE,
        "was replaced",
        "call again",
    )


SIDE_EFFECTS = ("none", "read", "write", "destructive")


@pytest.mark.promise("CORE-9")
@pytest.mark.parametrize("side_effects", SIDE_EFFECTS)
@pytest.mark.parametrize("code", list(Code))
async def test_effect_follows_the_table(code: Code, side_effects: str) -> None:
    served = Served()

    async def handler(_: Invocation) -> Outcome:
        return Outcome(code)

    served.offer(raw_tool("orders.change_it", side_effects=side_effects, confirm="none"), handler=handler)
    result = await served.call("orders.change_it")
    if side_effects in ("none", "read"):
        expected = "none"
    elif code in (Code.OK, Code.INVALID_RESULT):
        expected = "done"
    else:
        expected = "unknown"
    assert (result.code, result.effect) == (code, expected)


@pytest.mark.parametrize("stated", ["none", "done", "unknown"])
async def test_a_tool_that_failed_may_state_its_effect(stated: str) -> None:
    served = Served()

    async def handler(_: Invocation) -> Outcome:
        return Outcome(Code.TOOL_ERROR, effect=stated)  # type: ignore[arg-type]

    served.offer(raw_tool("orders.change_it"), handler=handler)
    assert (await served.call("orders.change_it")).effect == stated


@pytest.mark.parametrize("code", list(Code))
@pytest.mark.parametrize("side_effects", SIDE_EFFECTS)
def test_what_never_entered_its_runtime_has_no_effect(code: Code, side_effects: str) -> None:
    assert effect_of(code, side_effects, entered=False, stated="done") == "none"  # type: ignore[arg-type]


@pytest.mark.promise("CORE-22")
def test_every_code_but_ok_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Code) - {Code.OK}


@pytest.mark.parametrize("code", [Code.INVALID_ARGUMENT, Code.RATE_LIMITED, Code.DEPENDENCY_FAILED])
@pytest.mark.promise("CORE-22")
async def test_a_remedy_never_speaks_of_a_key_that_is_not_there(code: Code) -> None:
    served = Served()

    async def handler(_: Invocation) -> Outcome:
        return Outcome(code, message="said by the tool itself")

    served.offer(raw_tool("orders.query_status"), handler=handler)
    assert "detail." not in str((await served.call("orders.query_status")).detail["remedy"])


@pytest.mark.promise("CORE-22")
async def test_a_tool_that_could_not_reach_its_service_is_not_said_to_have_refused() -> None:
    served = Served()

    async def handler(_: Invocation) -> Outcome:
        return Outcome(Code.TOOL_ERROR, message="reset", detail={"reason": "connection"})

    served.offer(raw_tool("orders.query_status"), handler=handler)
    assert "could not reach" in str((await served.call("orders.query_status")).detail["remedy"])


async def test_a_result_that_is_too_large_is_invalid_and_its_effect_is_done() -> None:
    served = Served(CallPolicy(max_result_bytes=100))

    async def handler(_: Invocation) -> Outcome:
        return Outcome(Code.OK, json.dumps("x" * 100))

    served.offer(raw_tool("orders.change_it"), handler=handler)
    result = await served.call("orders.change_it")
    assert (result.code, result.effect, result.data_json) == (Code.INVALID_RESULT, "done", "null")
    assert result.detail["reason"] == "too large"


async def test_the_limit_of_a_result_counts_its_bytes() -> None:
    served = Served(CallPolicy(max_result_bytes=100))

    async def handler(_: Invocation) -> Outcome:
        return Outcome(Code.OK, json.dumps("汉" * 90, ensure_ascii=False))

    served.offer(raw_tool("orders.change_it"), handler=handler)
    assert (await served.call("orders.change_it")).code is Code.INVALID_RESULT


async def test_a_fault_of_ours_is_internal_and_only_the_operator_reads_it() -> None:
    served = Served()

    async def handler(_: Invocation) -> Outcome:
        raise RuntimeError("password=hunter2")

    served.offer(raw_tool("orders.change_it"), handler=handler)
    result = await served.call("orders.change_it")
    assert (result.code, result.effect) == (Code.INTERNAL, "unknown")
    assert "hunter2" not in f"{result.message}{result.detail_json}"
    assert [str(each) for each in served.told.errors] == ["password=hunter2"]


async def test_a_request_id_in_flight_is_refused() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status"), handler=never)
    call = asyncio.create_task(served.call("orders.query_status", request_id="mine"))
    await settle()
    with pytest.raises(AlreadyExistsError):
        await served.call("orders.query_status", request_id="mine")
    assert not call.done()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert len(served.flights) == 0


async def test_a_draining_daemon_takes_no_new_call_but_lets_calls_in_flight_call_on() -> None:
    served = Served()
    served.offer(raw_tool("stock.count_items", side_effects="read"))

    async def handler(invocation: Invocation) -> Outcome:
        served.dispatcher.draining = True
        return await invocation.call("stock.count_items", {})

    served.offer(raw_tool("orders.query_status"), handler=handler, calls=("stock.*",))
    assert (await served.call("orders.query_status")).code is Code.OK
    with pytest.raises(DrainingError):
        await served.call("orders.query_status")


async def nested(served: Served, tool: str, *, calls: tuple[str, ...], caller: Caller = OPERATOR) -> Outcome:
    found: list[Outcome] = []

    async def handler(invocation: Invocation) -> Outcome:
        found.append(await invocation.call(tool, {"汉": 1}))
        return Outcome(Code.OK)

    served.offer(raw_tool("orders.query_status"), handler=handler, calls=calls)
    await served.call("orders.query_status", caller=caller)
    return found[0]


async def test_a_plugin_calls_what_it_was_granted() -> None:
    served = Served()
    runtime = served.offer(raw_tool("stock.count_items"))
    outcome = await nested(served, "stock.count_items", calls=("stock.*",))
    assert (outcome.code, json.loads(outcome.data_json)) == (Code.OK, {"汉": 1})
    (inner,) = runtime.invocations
    assert inner.request_id != "r1"


async def test_a_plugin_calls_nothing_that_it_was_not_granted() -> None:
    served = Served()
    runtime = served.offer(raw_tool("stock.count_items"))
    outcome = await nested(served, "stock.count_items", calls=("text.*",))
    assert outcome.code is Code.UNKNOWN_TOOL
    assert runtime.invocations == []


@pytest.mark.promise("CORE-10")
async def test_a_plugin_has_no_right_that_its_caller_lacks() -> None:
    served = Served()
    runtime = served.offer(raw_tool("stock.count_items"))
    narrow = Caller("text", "plugin", calls=("orders.*",), on_behalf_of=OPERATOR)
    outcome = await nested(served, "stock.count_items", calls=("*",), caller=narrow)
    assert outcome.code is Code.UNKNOWN_TOOL
    assert runtime.invocations == []


@pytest.mark.parametrize(
    "more", [{"side_effects": "destructive"}, {"confirm": "operator"}, {"confirm": "caller"}]
)
async def test_a_plugin_never_calls_what_needs_a_confirmation(more: dict[str, object]) -> None:
    served = Served()
    runtime = served.offer(raw_tool("stock.count_items") | more)
    outcome = await nested(served, "stock.count_items", calls=("*",))
    assert outcome.code is Code.PERMISSION_DENIED
    assert runtime.invocations == []


async def test_tools_that_call_each_other_in_a_loop_are_stopped() -> None:
    served = Served()
    depths = 0

    async def handler(invocation: Invocation) -> Outcome:
        nonlocal depths
        depths += 1
        return await invocation.call("orders.query_status", {})

    served.offer(raw_tool("orders.query_status"), handler=handler, calls=("*",))
    result = await served.call("orders.query_status")
    assert result.code is Code.PERMISSION_DENIED
    assert depths == MAX_DEPTH + 1
    assert len(served.flights) == 0


async def test_the_deadline_of_a_call_bounds_what_it_calls() -> None:
    served = Served()
    runtime = served.offer(raw_tool("stock.count_items", timeout_ms=60_000))

    async def handler(invocation: Invocation) -> Outcome:
        return await invocation.call("stock.count_items", {})

    outer = served.offer(raw_tool("orders.query_status", timeout_ms=500), handler=handler, calls=("*",))
    await served.call("orders.query_status")
    assert runtime.invocations[0].deadline == outer.invocations[0].deadline


async def test_a_call_that_waits_in_the_queue_ends_on_the_version_it_began_on() -> None:
    """The lease is taken before the queue: a swap meanwhile does not move the call."""
    served = Served()
    gate = asyncio.Event()

    async def old(_: Invocation) -> Outcome:
        await gate.wait()
        return Outcome(Code.OK, '"old"')

    async def new(_: Invocation) -> Outcome:
        return Outcome(Code.OK, '"new"')

    served.offer(raw_tool("orders.query_status", max_concurrency=1), handler=old)
    instance = served.instances["orders"]
    calls = [asyncio.create_task(served.call("orders.query_status")) for _ in range(3)]
    await settle()
    assert instance.leases == 3
    served.offer(raw_tool("orders.query_status", max_concurrency=1), handler=new)
    late = asyncio.create_task(served.call("orders.query_status"))
    await settle()
    gate.set()
    answers = [(await each).data_json for each in (*calls, late)]
    assert answers == ['"old"', '"old"', '"old"', '"new"']
    assert instance.leases == 0


async def test_progress_and_log_lines_reach_the_caller_and_the_log() -> None:
    served = Served()

    async def handler(invocation: Invocation) -> Outcome:
        invocation.emit("progress", {"done": 1})
        invocation.emit("log", {"message": "half"})
        return Outcome(Code.OK)

    served.offer(raw_tool("orders.query_status"), handler=handler)
    heard: list[str] = []
    await served.dispatcher.call(served.request("orders.query_status"), lambda kind, _: heard.append(kind))
    assert heard == ["progress", "log"]
    assert served.told.lines == [{"message": "half"}]


async def test_a_tool_that_is_off_by_its_definition_says_so() -> None:
    served = Served()
    served.offer(raw_tool("orders.query_status", enabled=False))
    entry = served.catalogue.find("orders.query_status")
    assert isinstance(entry, Entry)
    assert entry.standing().state is State.DISABLED
    assert (await served.call("orders.query_status")).code is Code.UNAVAILABLE
