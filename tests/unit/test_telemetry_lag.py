"""The loop's lag, measured on an injected clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from hermesd.telemetry.lag import LoopLag


class Loop:
    """A clock whose sleep takes as long as the test says."""

    def __init__(self, *delays: float) -> None:
        self.time = 100.0
        self.delays = list(delays)

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC)

    async def sleep(self, seconds: float) -> None:
        if not self.delays:
            raise asyncio.CancelledError
        self.time += seconds + self.delays.pop(0)


async def test_lag_is_how_late_a_timer_fires_and_progress_is_when_it_did() -> None:
    loop = Loop(0.0, 0.3, 0.1)
    seen: list[float] = []
    warned: list[float] = []
    lag = LoopLag(loop, seen.append, lagged=warned.append, interval_s=1.0, warn_s=0.25, sleep=loop.sleep)
    assert lag.last_progress == 100.0
    with pytest.raises(asyncio.CancelledError):
        await lag.run()
    assert seen == pytest.approx([0.0, 0.3, 0.1])
    assert warned == pytest.approx([0.3])
    assert (lag.last_lag, lag.worst_lag) == (pytest.approx(0.1), pytest.approx(0.3))
    assert lag.last_progress == pytest.approx(103.4)


async def test_a_loop_that_is_blocked_makes_no_progress() -> None:
    """httpd#728: the proof of progress stands still while the loop does.

    hermes-agent#41289: a loop that was held up, and nobody saw it.
    """
    loop = Loop()
    lag = LoopLag(loop, lambda _: None, sleep=loop.sleep)
    loop.time += 60
    with pytest.raises(asyncio.CancelledError):
        await lag.run()
    assert lag.last_progress == 100.0
