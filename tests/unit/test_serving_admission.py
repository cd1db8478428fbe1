"""The stage as calls see it: rates, places, and limits that move under it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from hermesd.model.call import Caller, Code, Outcome, Result, Rights
from hermesd.model.rate import Bound, RateLimit
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.policy import CallPolicy
from tests.core_doubles import Served, raw_tool, settle

EVERYTHING = Rights(allow=("*",))
NOISY = Caller("noisy", "agent", rights=EVERYTHING)
QUIET = Caller("quiet", "agent", rights=EVERYTHING)
ONE_A_MINUTE = RateLimit(1, 60.0)


class Latch:
    """Tools that run until they are let go, in the order in which they began."""

    def __init__(self) -> None:
        self.running: list[tuple[Invocation, asyncio.Event]] = []
        self.began: list[str] = []

    async def handler(self, invocation: Invocation) -> Outcome:
        done = asyncio.Event()
        self.running.append((invocation, done))
        self.began.append(invocation.request_id)
        try:
            await done.wait()
        finally:
            self.running = [each for each in self.running if each[1] is not done]
        return Outcome(Code.OK)

    async def let_go(self, count: int = 1) -> None:
        for _, done in self.running[:count]:
            done.set()
        await settle()


class Callers:
    """Tasks that call, ended when the test ends."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.tasks: list[asyncio.Task[Result]] = []

    async def call(self, tool: str, caller: Caller, *names: str, **more: object) -> None:
        for name in names:
            request = self.served.request(tool, request_id=name, caller=caller, **more)
            self.tasks.append(asyncio.create_task(self.served.dispatcher.call(request)))
        await settle()

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.mark.promise("ADM-1")
async def test_one_agents_flood_does_not_keep_another_from_its_turn() -> None:
    served, latch = Served(CallPolicy(max_concurrency=1, queue_ms=60_000)), Latch()
    served.offer(raw_tool("orders.query_status"), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, *(f"n{number}" for number in range(6)))
    await callers.call("orders.query_status", QUIET, "q0")
    await latch.let_go()
    await latch.let_go()
    assert latch.began == ["n0", "n1", "q0"]
    await callers.end()
    assert not served.dispatcher.waiting()


@pytest.mark.promise("ADM-2")
async def test_a_tool_at_its_limit_delays_no_other_tool() -> None:
    served, latch = Served(CallPolicy(max_concurrency=1, queue_ms=60_000)), Latch()
    served.offer(raw_tool("orders.query_status"), raw_tool("orders.list_all"), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, "n0", "n1", "n2")
    await callers.call("orders.list_all", NOISY, "other")
    assert latch.began == ["n0", "other"]
    await callers.end()


@pytest.mark.parametrize(
    ("policy", "scope"),
    [
        (CallPolicy(max_concurrency=1, queue_ms=1), "tool"),
        (CallPolicy(plugins={"orders": Bound(1)}, queue_ms=1), "plugin"),
        (CallPolicy(agent_concurrency=1, queue_ms=1), "agent"),
        (CallPolicy(agents={"noisy": Bound(1)}, queue_ms=1), "agent"),
    ],
)
async def test_whatever_is_full_is_named(policy: CallPolicy, scope: str) -> None:
    served, latch = Served(policy), Latch()
    served.offer(raw_tool("orders.query_status"), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, "n0")
    result = await served.call("orders.query_status", caller=NOISY)
    assert (result.code, result.effect, result.retryable) == (Code.OVERLOADED, "none", True)
    assert (result.detail["reason"], result.detail["retry_after_ms"]) == (f"places of the {scope}", 1)
    assert "runs 1 call and" in result.message
    crowd = served.dispatcher.crowded()
    assert [(each.scope, each.running, each.places) for each in crowd] == [(scope, 1, 1)]
    await callers.end()
    assert not served.dispatcher.crowded()


async def test_the_default_of_a_plugin_yields_to_a_tool_that_asks_for_more() -> None:
    served, latch = Served(CallPolicy(plugin_concurrency=1, queue_ms=1)), Latch()
    served.offer(raw_tool("orders.query_status", max_concurrency=2), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, "a", "b")
    assert latch.began == ["a", "b"]
    await callers.end()


async def test_the_operator_has_no_bound_of_its_own() -> None:
    served, latch = Served(CallPolicy(agent_concurrency=1)), Latch()
    served.offer(raw_tool("orders.query_status"), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", Caller("operator", "operator"), "a", "b", "c")
    assert latch.began == ["a", "b", "c"]
    await callers.end()


@pytest.mark.parametrize("where", ["tool", "plugin", "agent"])
@pytest.mark.promise("ADM-4")
async def test_a_rate_refuses_at_once_and_says_when_to_come_back(where: str) -> None:
    bound = {"x": Bound(rate=ONE_A_MINUTE)}
    policy = CallPolicy(
        plugins={"orders": bound["x"]} if where == "plugin" else {},
        agents={"noisy": bound["x"]} if where == "agent" else {},
    )
    served = Served(policy)
    rate = {"rate_limit": {"calls": 1, "per_s": 60}} if where == "tool" else {}
    served.offer(raw_tool("orders.query_status", **rate))
    assert (await served.call("orders.query_status", caller=NOISY)).code is Code.OK
    result = await served.call("orders.query_status", caller=NOISY)
    assert (result.code, result.effect, result.retryable, result.attempts) == (
        Code.RATE_LIMITED, "none", True, 0,
    )  # fmt: skip
    assert 59_000 < int(str(result.detail["retry_after_ms"])) <= 60_000
    assert result.detail["reason"] == f"rate of the {where}"
    assert result.detail["remedy"]
    assert "1 calls every 60 s" in result.message
    other = await served.call("orders.query_status", caller=QUIET)
    assert other.code is (Code.OK if where == "agent" else Code.RATE_LIMITED)


@pytest.mark.promise("ADM-4")
async def test_a_call_that_a_rate_refused_uses_up_no_other_rate() -> None:
    policy = CallPolicy(agents={"noisy": Bound(rate=RateLimit(2, 60.0))})
    served = Served(policy)
    served.offer(
        raw_tool("orders.query_status", rate_limit={"calls": 1, "per_s": 60}), raw_tool("orders.list_all")
    )
    codes = [(await served.call("orders.query_status", caller=NOISY)).code for _ in range(5)]
    assert codes == [Code.OK, *[Code.RATE_LIMITED] * 4]
    assert (await served.call("orders.list_all", caller=NOISY)).code is Code.OK
    assert (await served.call("orders.list_all", caller=NOISY)).code is Code.RATE_LIMITED


@pytest.mark.promise("ADM-4")
async def test_a_call_that_the_queue_refused_uses_up_no_rate() -> None:
    served, latch = Served(CallPolicy(max_concurrency=1, queue_ms=0)), Latch()
    served.offer(
        raw_tool("orders.query_status", rate_limit={"calls": 2, "per_s": 3600}), handler=latch.handler
    )
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, "first")
    codes = [(await served.call("orders.query_status")).code for _ in range(3)]
    assert codes == [Code.OVERLOADED] * 3
    await latch.let_go()
    await callers.call("orders.query_status", NOISY, "second")
    assert latch.began == ["first", "second"]
    await callers.end()


@pytest.mark.promise("ADM-3")
async def test_what_tools_call_for_an_agent_does_not_lock_up_at_its_limits() -> None:
    policy = CallPolicy(
        agent_concurrency=1,
        plugins={"outer": Bound(1), "inner": Bound(1)},
        agents={"noisy": Bound(1, RateLimit(1, 3600.0))},
        queue_ms=60_000,
    )
    served = Served(policy)

    async def outer(invocation: Invocation) -> Outcome:
        answers = await asyncio.gather(*(invocation.call("inner.do_it", {}) for _ in range(5)))
        return answers[-1]

    async def inner(invocation: Invocation) -> Outcome:
        return await invocation.call("outer.last_step", {})

    async def handle(invocation: Invocation) -> Outcome:
        return await outer(invocation) if invocation.tool == "outer.begin_it" else Outcome(Code.OK, '"end"')

    served.offer(raw_tool("outer.begin_it"), raw_tool("outer.last_step"), handler=handle, calls=("*",))
    served.offer(raw_tool("inner.do_it"), handler=inner, calls=("*",))
    result = await asyncio.wait_for(served.call("outer.begin_it", caller=NOISY), 5)
    assert (result.code, result.data_json) == (Code.OK, '"end"')
    assert not served.dispatcher.crowded()


@pytest.mark.promise("ADM-5")
async def test_places_that_a_reload_adds_are_taken_by_who_waits() -> None:
    narrow = CallPolicy(
        max_concurrency=1, plugins={"orders": Bound(1)}, agents={"noisy": Bound(1)}, queue_ms=60_000
    )
    served, latch = Served(narrow), Latch()
    served.offer(raw_tool("orders.query_status"), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, "a", "b", "c", "d")
    for wider, expected in (
        (replace(narrow, max_concurrency=4), 1),
        (replace(narrow, max_concurrency=4, plugins={}), 1),
        (replace(narrow, max_concurrency=2, plugins={}, agents={}), 2),
        (replace(narrow, max_concurrency=4, plugins={}, agents={}), 4),
    ):
        served.dispatcher.policy = wider
        await settle()
        assert len(latch.began) == expected
    served.dispatcher.policy = narrow
    await callers.call("orders.query_status", NOISY, "e")
    await latch.let_go(3)
    assert latch.began == ["a", "b", "c", "d"], "fewer places put nobody out and let nobody in"
    await latch.let_go()
    assert latch.began[-1] == "e"
    await callers.end()


@pytest.mark.promise("ADM-5")
async def test_a_new_definition_changes_the_limits_and_doubles_none() -> None:
    served, latch = Served(CallPolicy(queue_ms=60_000)), Latch()
    served.offer(raw_tool("orders.query_status", max_concurrency=1), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, "a", "b")
    rate = {"calls": 1, "per_s": 60}
    served.offer(raw_tool("orders.query_status", max_concurrency=2, rate_limit=rate), handler=latch.handler)
    await callers.call("orders.query_status", NOISY, "c")
    assert latch.began == ["a", "b"], "the new place went to the one that waited"
    assert (await served.call("orders.query_status", caller=NOISY)).code is Code.RATE_LIMITED
    served.offer(raw_tool("orders.query_status", max_concurrency=2), handler=latch.handler)
    await latch.let_go(2)
    await callers.call("orders.query_status", NOISY, "d")
    assert latch.began == ["a", "b", "c", "d"]
    await callers.end()


async def test_a_rate_that_a_reload_takes_away_is_gone() -> None:
    served = Served(CallPolicy(agents={"noisy": Bound(rate=ONE_A_MINUTE)}))
    served.offer(raw_tool("orders.query_status"))
    codes = [(await served.call("orders.query_status", caller=NOISY)).code for _ in range(2)]
    served.dispatcher.policy = CallPolicy()
    codes.append((await served.call("orders.query_status", caller=NOISY)).code)
    assert codes == [Code.OK, Code.RATE_LIMITED, Code.OK]


async def test_what_is_gone_and_idle_is_forgotten_and_what_is_used_is_not() -> None:
    served, latch = Served(), Latch()
    served.offer(raw_tool("orders.query_status", max_concurrency=1), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, "a")
    served.registry.commit({"orders": None})
    served.dispatcher.forget_gone_tools()
    assert [each.name for each in served.dispatcher.crowded()] == ["orders.query_status"]
    await callers.end()
    served.dispatcher.forget_gone_tools()
    admission = served.dispatcher._admission
    assert [admission._gates, admission._pools, admission._parties, admission._nested] == [{}] * 4


@pytest.mark.parametrize("how", ["cancel", "deadline"])
async def test_a_call_that_ends_while_it_waits_leaves_nothing(how: str) -> None:
    served, latch = Served(CallPolicy(max_concurrency=1, queue_ms=60_000)), Latch()
    served.offer(raw_tool("orders.query_status"), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, "a")
    await callers.call("orders.query_status", QUIET, "b", timeout_ms=20 if how == "deadline" else None)
    if how == "cancel":
        assert served.dispatcher.cancel("b", QUIET)
    result = await callers.tasks[-1]
    assert result.code is (Code.CANCELLED if how == "cancel" else Code.TIMEOUT)
    assert (result.effect, result.attempts) == ("none", 0)
    assert not served.dispatcher.waiting()
    await latch.let_go()
    await callers.call("orders.query_status", QUIET, "c")
    assert latch.began == ["a", "c"]
    await callers.end()


async def test_the_time_in_the_queue_is_told_apart() -> None:
    served, latch = Served(CallPolicy(max_concurrency=1, queue_ms=60_000)), Latch()
    served.offer(raw_tool("orders.query_status"), handler=latch.handler)
    callers = Callers(served)
    await callers.call("orders.query_status", NOISY, "a", "b")
    await asyncio.sleep(0.02)
    await latch.let_go()
    await latch.let_go()
    first, second = [await each for each in callers.tasks]
    assert first.queued_ms == 0.0
    assert 15 <= second.queued_ms <= second.duration_ms
