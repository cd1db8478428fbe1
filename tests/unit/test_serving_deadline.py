"""The smallest of all bounds holds, and progress moves it as far as operator and caller allow."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.model.call import Code, Outcome
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.policy import CallPolicy
from tests.core_doubles import Served, raw_tool

pytestmark = pytest.mark.promise("RES-17")
TOOL = "orders.copy_all"


async def getting_on(invocation: Invocation) -> Outcome:
    """Ten steps of 60 ms, each told."""
    for done in range(10):
        await asyncio.sleep(0.06)
        invocation.emit("progress", {"done": done, "total": 10, "message": ""})
    return Outcome(Code.OK)


def served(**policy: int) -> Served:
    made = Served(CallPolicy(**policy))  # type: ignore[arg-type]
    made.offer(raw_tool(TOOL, timeout_ms=400), handler=getting_on)
    return made


async def test_a_tool_that_gets_on_is_given_its_timeout_anew() -> None:
    result = await served().call(TOOL)
    assert result.code is Code.OK
    assert result.duration_ms > 400


async def test_a_tool_that_stops_getting_on_is_out_of_time() -> None:
    async def stuck(invocation: Invocation) -> Outcome:
        invocation.emit("progress", {"done": 1})
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    made = Served()
    made.offer(raw_tool(TOOL, timeout_ms=30), handler=stuck)
    result = await made.call(TOOL)
    assert (result.code, result.duration_ms < 200) == (Code.TIMEOUT, True)


async def test_a_log_line_is_no_progress() -> None:
    async def chatting(invocation: Invocation) -> Outcome:
        for _ in range(10):
            await asyncio.sleep(0.015)
            invocation.emit("log", {"level": "info", "message": "still here"})
        return Outcome(Code.OK)

    made = Served()
    made.offer(raw_tool(TOOL, timeout_ms=60), handler=chatting)
    assert (await made.call(TOOL)).code is Code.TIMEOUT


@pytest.mark.parametrize("bound", ["ceiling", "timeout_ms", "deadline"])
async def test_progress_moves_nothing_beyond_the_ceiling_and_what_the_caller_gave(bound: str) -> None:
    made = served(max_timeout_ms=450 if bound == "ceiling" else 300_000)
    more: dict[str, object] = {}
    if bound == "timeout_ms":
        more = {"timeout_ms": 450}
    elif bound == "deadline":
        more = {"deadline": made.clock.monotonic() + 0.45}
    result = await made.call(TOOL, **more)
    assert result.code is Code.TIMEOUT
    assert result.duration_ms >= 400


async def test_a_runtime_is_told_how_far_the_deadline_may_move() -> None:
    made = served()
    runtime = made.instances["orders"].runtime
    began = made.clock.monotonic()
    await made.call(TOOL)
    asked = runtime.invocations[0]  # type: ignore[attr-defined]
    assert asked.allowance_s == 0.4
    assert asked.deadline - began == pytest.approx(0.4, abs=0.2)
    assert asked.limit - began == pytest.approx(300, abs=1)


async def test_what_it_calls_later_has_the_moved_deadline() -> None:
    deadlines: list[float] = []

    async def handler(invocation: Invocation) -> Outcome:
        assert invocation.deadline is not None
        if invocation.tool == TOOL:
            await asyncio.sleep(0.1)
            invocation.emit("progress", {"done": 1})
            return await invocation.call("orders.query_status", {})
        deadlines.append(invocation.deadline)
        return Outcome(Code.OK)

    made = Served()
    tools = (raw_tool(TOOL, timeout_ms=400), raw_tool("orders.query_status", timeout_ms=350))
    made.offer(*tools, handler=handler, calls=("*",))
    began = made.clock.monotonic()
    assert (await made.call(TOOL)).code is Code.OK
    assert deadlines[0] - began > 0.42
