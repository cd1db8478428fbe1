"""A call is attempted again only where its way failed, where that can do no harm, and where there is time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.model.call import Code, Outcome
from hermesd.model.retry import RetryRule
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.attempts import Attempts
from hermesd.serving.policy import CallPolicy
from tests.core_doubles import Served, raw_tool

CONNECTION = Outcome(Code.TOOL_ERROR, message="refused", detail={"reason": "connection"})
STATUS = Outcome(Code.TOOL_ERROR, detail={"status": 503})
UNAVAILABLE = Outcome(Code.UNAVAILABLE)
NOT_BEGUN = Outcome(Code.UNAVAILABLE, entered=False)
TIMEOUT = Outcome(Code.TIMEOUT)
SAYS_SO = Outcome(Code.TOOL_ERROR, retryable=True)
UNDONE = Outcome(Code.TOOL_ERROR, effect="none", detail={"reason": "connection"})
ERROR = Outcome(Code.TOOL_ERROR, message="no such order")
MISSING = Outcome(Code.TOOL_ERROR, detail={"status": 404})
FINE = Outcome(Code.OK, "1")


class Waits:
    """Time that passes only in a wait."""

    def __init__(self, served: Served) -> None:
        self.slept: list[float] = []
        self.chance = 0.5
        self.offset = 0.0
        clock = served.clock
        real = clock.monotonic
        clock.monotonic = lambda: real() + self.offset  # type: ignore[method-assign]
        served.dispatcher._attempts = Attempts(
            clock, served.told.retried, sleep=self.sleep, chance=lambda: self.chance
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.offset += seconds


def answering(outcomes: Iterable[Outcome]) -> Callable[[Invocation], Any]:
    left = list(outcomes)

    async def handler(_: Invocation) -> Outcome:
        return left.pop(0) if len(left) > 1 else left[0]

    return handler


def offered(*outcomes: Outcome, policy: CallPolicy | None = None, **more: object) -> tuple[Served, Waits]:
    served = Served(policy)
    waits = Waits(served)
    tool = raw_tool("orders.query_status", **{"side_effects": "read", "retryable": True, **more})
    served.offer(tool, handler=answering(outcomes))
    return served, waits


@pytest.mark.promise("RES-1")
@pytest.mark.parametrize("outcome", [CONNECTION, STATUS, UNAVAILABLE, NOT_BEGUN, TIMEOUT, SAYS_SO, UNDONE])
async def test_a_retryable_tool_is_attempted_again_when_its_way_failed(outcome: Outcome) -> None:
    served, waits = offered(outcome, outcome, FINE)
    result = await served.call("orders.query_status")
    assert (result.code, result.attempts, len(waits.slept)) == (Code.OK, 3, 2)
    assert served.told.waits == waits.slept
    assert served.told.began == ["orders.query_status"], "it is one call"


@pytest.mark.parametrize(
    "outcome", [ERROR, MISSING, Outcome(Code.INVALID_RESULT), Outcome(Code.RATE_LIMITED)]
)
async def test_an_answer_is_no_reason_to_ask_again(outcome: Outcome) -> None:
    served, _ = offered(outcome)
    assert (await served.call("orders.query_status")).attempts == 1


@pytest.mark.promise("RES-2")
@pytest.mark.parametrize("side_effects", ["write", "destructive"])
@pytest.mark.parametrize("outcome", [CONNECTION, STATUS, UNAVAILABLE, TIMEOUT, SAYS_SO])
async def test_a_write_that_may_have_left_is_never_sent_twice(outcome: Outcome, side_effects: str) -> None:
    """#88821: write-capable calls were replayed after a session had expired."""
    served, _ = offered(outcome, FINE, side_effects=side_effects, confirm="none")
    result = await served.call("orders.query_status")
    assert (result.code, result.attempts, result.effect) == (outcome.code, 1, "unknown")


@pytest.mark.parametrize("outcome", [UNDONE, NOT_BEGUN])
async def test_a_write_that_certainly_did_not_happen_is_attempted_again(outcome: Outcome) -> None:
    served, _ = offered(outcome, FINE, side_effects="write")
    result = await served.call("orders.query_status")
    assert (result.code, result.attempts, result.effect) == (Code.OK, 2, "done")


async def test_an_idempotent_write_is_attempted_again() -> None:
    served, _ = offered(CONNECTION, FINE, side_effects="write", idempotent=True)
    assert (await served.call("orders.query_status")).attempts == 2


async def test_what_could_not_begin_has_no_effect() -> None:
    served, _ = offered(NOT_BEGUN, side_effects="write", retryable=False)
    result = await served.call("orders.query_status")
    assert (result.code, result.effect, result.attempts) == (Code.UNAVAILABLE, "none", 1)


@pytest.mark.parametrize("last", [NOT_BEGUN, UNDONE])
async def test_an_effect_that_was_unknown_once_stays_unknown(last: Outcome) -> None:
    served, _ = offered(CONNECTION, last, side_effects="write", idempotent=True)
    assert (await served.call("orders.query_status")).effect == "unknown"


async def test_a_tool_that_is_not_retryable_is_asked_once() -> None:
    served, _ = offered(CONNECTION, FINE, retryable=False, idempotent=True)
    assert (await served.call("orders.query_status")).attempts == 1


@pytest.mark.promise("RES-3")
async def test_waits_grow_and_the_definition_wins_over_the_operator() -> None:
    policy = CallPolicy(retry=RetryRule(max_attempts=9, backoff_ms=999), timeouts_ms={"python": 60_000})
    rule = {"max_attempts": 4, "backoff_ms": 100, "multiplier": 3, "jitter": 0.5}
    served, waits = offered(CONNECTION, policy=policy, retry=rule)
    result = await served.call("orders.query_status")
    assert result.attempts == 4
    assert waits.slept == pytest.approx([0.1, 0.3, 0.9])


async def test_the_operators_rule_holds_for_a_tool_that_says_nothing() -> None:
    policy = CallPolicy(retry=RetryRule(max_attempts=2, backoff_ms=10))
    served, waits = offered(CONNECTION, policy=policy)
    assert (await served.call("orders.query_status")).attempts == 2
    assert waits.slept == pytest.approx([0.01])


@pytest.mark.promise("RES-4")
async def test_retry_after_is_honoured() -> None:
    busy = Outcome(Code.TOOL_ERROR, detail={"status": 503, "retry_after_ms": 1500})
    served, waits = offered(busy, FINE)
    assert (await served.call("orders.query_status")).code is Code.OK
    assert waits.slept == pytest.approx([1.5])


async def test_a_wait_that_does_not_fit_into_the_deadline_is_not_begun() -> None:
    busy = Outcome(Code.TOOL_ERROR, detail={"status": 503, "retry_after_ms": 60_000})
    served, waits = offered(busy, FINE)
    result = await served.call("orders.query_status")
    assert (result.code, result.attempts, waits.slept) == (Code.TOOL_ERROR, 1, [])
    assert result.detail["retry_after_ms"] == 60_000, "the caller learns when to come back"


@pytest.mark.promise("RES-5")
async def test_one_attempt_that_hangs_leaves_time_for_the_next() -> None:
    served = Served()
    deadlines: list[float] = []

    async def handler(invocation: Invocation) -> Outcome:
        assert invocation.deadline is not None
        deadlines.append(invocation.deadline - served.clock.monotonic())
        if invocation.attempt < 3:
            await asyncio.Event().wait()
        return FINE

    retry = {"attempt_timeout_ms": 20, "backoff_ms": 1}
    tool = raw_tool("orders.query_status", side_effects="read", retryable=True, retry=retry)
    served.offer(tool, handler=handler)
    result = await served.call("orders.query_status")
    assert (result.code, result.attempts) == (Code.OK, 3)
    assert max(deadlines) <= 0.02, "the tool is told of its attempt's own deadline"


async def test_a_write_that_ran_out_of_its_attempt_is_not_sent_again() -> None:
    served = Served()

    async def handler(_: Invocation) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    retry = {"attempt_timeout_ms": 10, "backoff_ms": 1}
    served.offer(raw_tool("orders.change_it", retryable=True, retry=retry), handler=handler)
    result = await served.call("orders.change_it")
    assert (result.code, result.attempts, result.effect) == (Code.TIMEOUT, 1, "unknown")


@given(
    rule=st.builds(
        RetryRule,
        max_attempts=st.integers(1, 100),
        backoff_ms=st.integers(0, 86_400_000),
        multiplier=st.floats(1, 100),
        jitter=st.floats(0, 1),
    ),
    attempts=st.integers(1, 100),
)
def test_a_wait_stays_within_its_jitter(rule: RetryRule, attempts: int) -> None:
    plain = rule.backoff_ms / 1000 * rule.multiplier ** (attempts - 1)
    wait = rule.backoff_s(attempts, random.random())
    assert plain * (1 - rule.jitter) * 0.999 <= wait <= plain * (1 + rule.jitter) * 1.001


OUTCOMES = [CONNECTION, STATUS, UNAVAILABLE, NOT_BEGUN, TIMEOUT, SAYS_SO, UNDONE, ERROR, MISSING, FINE]


@pytest.mark.promise("RES-2")
@given(outcomes=st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=8), most=st.integers(1, 8))
def test_whatever_fails_in_whatever_order_a_write_leaves_once_at_most(
    outcomes: list[Outcome], most: int
) -> None:
    async def play() -> None:
        policy = CallPolicy(retry=RetryRule(max_attempts=most, backoff_ms=0))
        served, _ = offered(*outcomes, policy=policy, side_effects="write")
        result = await served.call("orders.query_status")
        asked = served.instances["orders"].runtime.invocations  # type: ignore[attr-defined]
        answered = [outcomes[min(each, len(outcomes) - 1)] for each in range(len(asked))]
        may_have_left = [each for each in answered if each.entered and each.effect != "none"]
        assert len(may_have_left) <= 1
        assert len(asked) == result.attempts <= most
        assert all(each in (UNDONE, NOT_BEGUN) for each in answered[:-1])
        assert (result.effect == "none") is (not may_have_left)

    asyncio.run(play())
