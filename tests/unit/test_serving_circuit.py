"""Through the dispatcher: what opens a circuit, who is told, what answers meanwhile, and what closes it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hermesd.clock import SystemClock
from hermesd.model.call import Caller, Code, Outcome
from hermesd.model.circuit import CircuitRule
from hermesd.model.status import State
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.breaker import CircuitState
from hermesd.serving.circuit import CircuitChange
from hermesd.serving.policy import CallPolicy
from tests.core_doubles import FakeRuntime, Served, raw_tool, settle

RULE = CircuitRule(consecutive_failures=3, min_calls=20, open_ms=1000, half_open_calls=2)
DOWN = Outcome(Code.TOOL_ERROR, detail={"reason": "connection"})
TOOL = "orders.query_status"


class Later(SystemClock):
    """The machine's clock, moved by hand."""

    offset = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.offset


class Site(Served):
    """A served catalogue whose tools answer what the test says, and a clock that it moves."""

    def __init__(self, **policy: Any) -> None:
        super().__init__(CallPolicy(circuit=RULE, **policy))
        self.later = Later()
        self.changes: list[CircuitChange] = []
        self.circuits = self.dispatcher._circuits
        self.circuits._clock = self.later
        self.circuits.tell = self.changes.append
        self.answer: Outcome | None = DOWN

    async def handler(self, _: Invocation) -> Outcome:
        if self.answer is None:
            await asyncio.Event().wait()
        assert self.answer is not None
        return self.answer

    def offer_one(self, **more: object) -> FakeRuntime:
        return self.offer(raw_tool(TOOL, side_effects="read", **more), handler=self.handler)

    async def fail(self, times: int = 3, tool: str = TOOL, **more: Any) -> None:
        for _ in range(times):
            assert (await self.call(tool, **more)).code is not Code.CIRCUIT_OPEN


@pytest.mark.promise("RES-8")
async def test_an_open_circuit_refuses_at_once_and_says_when_to_come_back() -> None:
    site = Site()
    runtime = site.offer_one()
    await site.fail()
    result = await site.call(TOOL)
    assert (result.code, result.effect, result.retryable, result.attempts) == (
        Code.CIRCUIT_OPEN, "none", True, 0,
    )  # fmt: skip
    assert 900 <= result.detail["retry_after_ms"] <= 1000  # type: ignore[operator]
    assert result.detail["reason"] == "3 calls in a row failed, the last one: connection"
    assert result.detail["remedy"]
    assert len(runtime.invocations) == 3
    assert [(each.kind, each.name, each.state) for each in site.changes] == [
        ("tool", TOOL, CircuitState.OPEN)
    ]


@pytest.mark.promise("RES-9")
async def test_a_tool_that_answers_an_error_is_healthy() -> None:
    """The whole class of answers, as against calls that got none."""
    site = Site()
    site.offer_one()
    for code in (Code.TOOL_ERROR, Code.INVALID_ARGUMENT, Code.PERMISSION_DENIED, Code.DEPENDENCY_FAILED,
                 Code.RATE_LIMITED, Code.INVALID_RESULT):  # fmt: skip
        site.answer = Outcome(code, detail={"status": 404})
        await site.fail(5)
    assert site.changes == []


async def test_what_was_refused_before_its_runtime_was_entered_does_not_count() -> None:
    site = Site()
    site.offer_one()
    site.answer = Outcome(Code.UNAVAILABLE, entered=False)
    await site.fail(10)
    assert site.changes == []


async def test_a_timeout_of_the_tools_own_time_counts() -> None:
    site = Site()
    site.offer_one(timeout_ms=5)
    site.answer = None
    await site.fail()
    assert (await site.call(TOOL)).code is Code.CIRCUIT_OPEN


@pytest.mark.promise("RES-10")
async def test_a_caller_in_a_hurry_closes_no_tool_to_others() -> None:
    site = Site()
    site.offer_one(timeout_ms=5000)
    site.answer = None
    for _ in range(6):
        assert (await site.call(TOOL, timeout_ms=1)).code is Code.TIMEOUT
    deadline = site.clock.monotonic() + 0.001
    assert (await site.call(TOOL, deadline=deadline)).code is Code.TIMEOUT
    assert site.changes == []


async def test_it_counts_calls_and_not_attempts() -> None:
    site = Site(retry=CallPolicy().retry.over({"backoff_ms": 0, "max_attempts": 3}))
    site.offer_one(retryable=True)
    await site.fail(2)
    assert site.changes == []
    await site.fail(1)
    assert len(site.changes) == 1


async def test_after_its_time_single_calls_try_it_and_close_it() -> None:
    site = Site()
    site.offer_one()
    await site.fail()
    site.later.offset = 1.1
    site.answer = None
    probe = asyncio.create_task(site.call(TOOL))
    await settle()
    meanwhile = await site.call(TOOL)
    assert (meanwhile.code, meanwhile.detail["retry_after_ms"]) == (Code.CIRCUIT_OPEN, 1000)
    probe.cancel()
    await asyncio.wait([probe])
    site.answer = Outcome(Code.OK, "1")
    assert [(await site.call(TOOL)).code for _ in range(2)] == [Code.OK, Code.OK], "a cut try frees its place"
    assert [each.state for each in site.changes] == [
        CircuitState.OPEN, CircuitState.HALF_OPEN, CircuitState.CLOSED,
    ]  # fmt: skip
    assert site.registry.standing(site.catalogue.tools[TOOL]).state is State.READY


@pytest.mark.promise("RES-11")
async def test_its_state_is_the_tools_with_reason_and_since() -> None:
    site = Site()
    site.offer_one()
    entry = site.catalogue.tools[TOOL]
    watch = site.registry.watch()
    await site.fail()
    standing = site.registry.standing(entry)
    assert standing.state is State.DEGRADED
    assert standing.reason == "its circuit is open: 3 calls in a row failed, the last one: connection"
    assert f"ctl tools reset {TOOL}" in standing.remedy
    change = await anext(watch)
    assert (change.kind, change.name) == ("state", TOOL)
    site.later.offset = 1.1
    await site.call(TOOL)
    again = site.registry.standing(entry)
    assert (again.since, "tried it again failed" in again.reason) == (standing.since, True)


async def test_a_reset_lets_it_be_called_at_once() -> None:
    site = Site()
    site.offer_one()
    entry = site.catalogue.tools[TOOL]
    assert not site.circuits.reset(entry)
    await site.fail()
    site.answer = Outcome(Code.OK, "1")
    assert site.circuits.reset(entry)
    assert (await site.call(TOOL)).code is Code.OK
    assert site.registry.standing(entry).state is State.READY


@pytest.mark.promise("RES-12")
async def test_a_reload_that_leaves_the_instance_alone_leaves_the_circuit_alone() -> None:
    site = Site()
    site.offer_one()
    await site.fail()
    site.dispatcher.policy = CallPolicy(circuit=RULE, queue_ms=5)
    site.registry.commit({"orders": {TOOL: site.catalogue.tools[TOOL]}, "other": {}})
    site.dispatcher.forget_gone_tools()
    assert (await site.call(TOOL)).code is Code.CIRCUIT_OPEN


async def test_new_content_begins_with_a_closed_circuit() -> None:
    site = Site()
    site.offer_one()
    await site.fail()
    site.answer = Outcome(Code.OK, "1")
    site.offer_one()
    assert (await site.call(TOOL)).code is Code.OK
    assert [each.state for each in site.changes] == [CircuitState.OPEN, None]
    assert site.registry.standing(site.catalogue.tools[TOOL]).state is State.READY


async def test_a_tool_that_is_gone_leaves_no_circuit() -> None:
    site = Site()
    site.offer_one()
    await site.fail()
    site.registry.commit({"orders": None})
    site.dispatcher.forget_gone_tools()
    assert site.circuits.open_circuits() == []
    assert (site.circuits._tools, site.registry._troubles) == ({}, {})


async def test_one_that_is_switched_off_while_open_lets_go() -> None:
    site = Site()
    site.offer_one()
    await site.fail()
    site.dispatcher.policy = CallPolicy(circuit=RULE.over({"enabled": False}))
    await site.fail(9)
    assert site.registry.standing(site.catalogue.tools[TOOL]).state is State.READY


async def test_a_definitions_own_rule_wins() -> None:
    site = Site()
    site.offer_one(circuit_breaker={"consecutive_failures": 1})
    await site.fail(1)
    assert (await site.call(TOOL)).code is Code.CIRCUIT_OPEN


async def two_tools(site: Site, kind: str, outcome: Outcome | None = None) -> None:
    names = (TOOL, "orders.list_open", "orders.count_all")
    runtime = site.offer(*(raw_tool(each, side_effects="read") for each in names), handler=site.handler)
    runtime.kind = kind
    site.answer = outcome or Outcome(Code.UNAVAILABLE, message="crash")
    await site.fail(2, "orders.list_open")
    await site.fail(1)


@pytest.mark.promise("RES-13")
async def test_a_process_that_fails_two_of_its_tools_is_not_called_for_any() -> None:
    site = Site()
    await two_tools(site, "worker")
    third = await site.call("orders.count_all")
    assert third.code is Code.CIRCUIT_OPEN
    assert third.message.startswith("orders, which runs orders.count_all, is not called")
    states = {site.registry.standing(each).state for each in site.catalogue.tools.values()}
    assert states == {State.DEGRADED}
    assert [(each.kind, each.name) for each in site.changes] == [("upstream", "orders")]
    assert site.circuits.reset(site.catalogue.tools["orders.count_all"])
    assert (await site.call("orders.count_all")).code is Code.UNAVAILABLE


async def test_the_functions_of_a_plugin_in_process_share_no_circuit() -> None:
    site = Site()
    await two_tools(site, "inprocess")
    assert (await site.call("orders.count_all")).code is Code.UNAVAILABLE


async def test_a_service_behind_one_tool_closes_no_other() -> None:
    site = Site()
    await two_tools(site, "worker", DOWN)
    await site.fail(1)
    await site.fail(2, "orders.count_all")
    assert site.changes == []


@pytest.mark.promise("RES-14")
async def test_a_value_answers_while_it_is_open() -> None:
    site = Site()
    site.offer_one(fallback={"value": {"状态": None}})
    await site.fail()
    result = await site.call(TOOL)
    assert (result.code, json.loads(result.data_json), result.effect) == (Code.OK, {"状态": None}, "none")
    assert (result.detail["degraded"], result.detail["fallback"]) == (True, "value")
    assert "connection" in str(result.detail["reason"])


async def offer_with_backup(site: Site, backup: str = "read", **more: object) -> None:
    async def handler(invocation: Invocation) -> Outcome:
        if invocation.tool == TOOL:
            return DOWN
        return site.answer or DOWN

    tools = (
        raw_tool(TOOL, side_effects="read", fallback={"tool": "orders.read_copy"}, **more),
        raw_tool("orders.read_copy", side_effects=backup),
    )
    site.offer(*tools, handler=handler)
    site.answer = Outcome(Code.OK, '{"of": "copy"}')
    await site.fail()


async def test_another_tool_answers_to_the_same_arguments() -> None:
    site = Site()
    await offer_with_backup(site)
    result = await site.call(TOOL, '{"id": 7}', session_id="s")
    assert (result.code, result.tool, json.loads(result.data_json)) == (Code.OK, TOOL, {"of": "copy"})
    assert (result.detail["degraded"], result.detail["fallback"]) == (True, "orders.read_copy")
    asked = site.instances["orders"].runtime.invocations[-1]  # type: ignore[attr-defined]
    assert (asked.tool, asked.arguments, asked.session_id) == ("orders.read_copy", {"id": 7}, "s")


async def test_a_stand_in_that_fails_leaves_the_refusal() -> None:
    site = Site()
    await offer_with_backup(site)
    site.answer = Outcome(Code.TOOL_ERROR, message="no copy")
    result = await site.call(TOOL)
    assert result.code is Code.CIRCUIT_OPEN
    assert "orders.read_copy, which stands in, answered TOOL_ERROR: no copy" in result.message
    assert result.detail["retry_after_ms"]


@pytest.mark.promise("RES-15")
async def test_what_does_more_than_the_tool_never_stands_in() -> None:
    site = Site()
    await offer_with_backup(site, backup="write")
    result = await site.call(TOOL)
    assert result.code is Code.CIRCUIT_OPEN
    assert "has more side effects" in result.message


@pytest.mark.parametrize(("key", "code"), [("", Code.OK), ("k", Code.CIRCUIT_OPEN)])
async def test_what_writes_never_stands_in_under_an_idempotency_key(key: str, code: Code) -> None:
    """The tool itself may be called under that key later, and then both would have happened."""
    site = Site()

    async def handler(invocation: Invocation) -> Outcome:
        return Outcome(Code.OK) if invocation.tool == "orders.write_copy" else DOWN

    tools = (raw_tool(TOOL, fallback={"tool": "orders.write_copy"}), raw_tool("orders.write_copy"))
    site.offer(*tools, handler=handler)
    await site.fail()
    result = await site.call(TOOL, idempotency_key=key)
    assert (result.code, result.effect) == (code, "none" if key else "done")


async def test_a_stand_in_gives_no_right_that_the_caller_lacks() -> None:
    site = Site()
    await offer_with_backup(site)
    plugin = Caller("text", "plugin", calls=(TOOL,), on_behalf_of=Caller("operator", "operator"))
    result = await site.call(TOOL, caller=plugin)
    assert result.code is Code.CIRCUIT_OPEN
    assert "UNKNOWN_TOOL" in result.message


async def test_tools_that_stand_in_for_each_other_end() -> None:
    site = Site()
    tools = (
        raw_tool(TOOL, side_effects="read", fallback={"tool": "orders.read_copy"}),
        raw_tool("orders.read_copy", side_effects="read", fallback={"tool": TOOL}),
    )
    site.offer(*tools, handler=site.handler)
    await site.fail()
    for _ in range(3):
        await site.call("orders.read_copy")
    assert (await site.call(TOOL)).code is Code.CIRCUIT_OPEN


@pytest.mark.promise("RES-16")
async def test_the_last_good_answer_is_given_only_to_who_asks_the_same_again() -> None:
    site = Site()
    site.offer_one(fallback={"last_good": True})
    site.answer = Outcome(Code.OK, '"seven"')
    await site.call(TOOL, '{"id": 7, "deep": 1}', session_id="mine")
    site.answer = DOWN
    await site.fail()
    known = await site.call(TOOL, '{"deep":1,"id":7}', session_id="mine")
    assert (known.code, known.data_json, known.detail["fallback"]) == (Code.OK, '"seven"', "last_good")
    assert known.detail["degraded"] is True
    for arguments, session in (('{"id": 8, "deep": 1}', "mine"), ('{"id": 7, "deep": 1}', "yours")):
        other = await site.call(TOOL, arguments, session_id=session)
        assert other.code is Code.CIRCUIT_OPEN
        assert "no answer to this call yet" in other.message


async def test_a_last_good_answer_grows_too_old() -> None:
    site = Site()
    site.offer_one(fallback={"last_good": {"max_age_s": 60}})
    kept = site.dispatcher._fallbacks._last_good
    kept._clock = site.later
    site.answer = Outcome(Code.OK, "1")
    await site.call(TOOL)
    site.answer = DOWN
    site.later.offset = 59.0
    await site.fail()
    assert (await site.call(TOOL)).detail["age_s"] == pytest.approx(59, abs=1)
    site.later.offset = 61.0
    assert "age_s" not in (await site.call(TOOL)).detail


async def test_what_is_kept_is_bounded() -> None:
    site = Site()
    site.offer_one(fallback={"last_good": True})
    kept = site.dispatcher._fallbacks._last_good
    kept._max_kept = 1000
    site.answer = Outcome(Code.OK, json.dumps("x" * 90))
    for each in range(50):
        await site.call(TOOL, json.dumps({"id": each}))
    assert kept._size <= 1000
    assert 8 <= len(kept._kept) <= 11
    site.answer = Outcome(Code.OK, json.dumps("x" * 100_000))
    await site.call(TOOL, '{"id": "large"}')
    assert all('"large"' not in each[4] for each in kept._kept)
