"""Another attempt for a call whose way failed, where that can do no harm and there is time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from hermesd.clock import Clock
from hermesd.model.call import Outcome
from hermesd.model.definition import ToolDefinition
from hermesd.model.retry import RetryRule, is_transient, may_repeat, retry_after_s
from hermesd.serving.course import Course

#: Told before each wait: the call, what the attempt answered, and how long the wait is, in seconds.
OnRetry = Callable[[Course, Outcome, float], None]


class Attempts:
    """Runs a retryable call until it is answered, its attempts are used up, or its time would be.

    A write that is not idempotent is never attempted again once anything of it may have left. Time and
    chance are given, so that tests neither sleep nor guess.
    """

    def __init__(
        self,
        clock: Clock,
        on_retry: OnRetry,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._on_retry = on_retry
        self._sleep = sleep
        self._chance = chance

    async def run(
        self,
        course: Course,
        definition: ToolDefinition,
        rule: RetryRule,
        attempt: Callable[[], Awaitable[Outcome]],
    ) -> Outcome:
        """The answer of the last attempt. `attempt` counts itself in `course.attempts`."""
        course.attempt_s = rule.attempt_timeout_ms / 1000
        has_left = False
        while True:
            outcome = await attempt()
            if has_left and outcome.effect == "none":
                outcome = replace(outcome, effect="unknown")  # it speaks of the last attempt alone
            has_left = has_left or (outcome.entered and outcome.effect != "none")
            if course.attempts >= rule.max_attempts or not _is_worth_another(outcome, definition):
                return outcome
            wait = max(rule.backoff_s(course.attempts, self._chance()), retry_after_s(outcome))
            if self._clock.monotonic() + wait >= course.deadline:
                return outcome
            course.entered = has_left  # what is known to have done nothing counts as not begun
            self._on_retry(course, outcome, wait)
            await self._sleep(wait)


def _is_worth_another(outcome: Outcome, definition: ToolDefinition) -> bool:
    return is_transient(outcome) and may_repeat(
        outcome, definition.side_effects, idempotent=definition.idempotent
    )
