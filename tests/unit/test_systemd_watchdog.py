"""The watchdog is fed by progress and by nothing else."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.systemd.notify import Notifier
from hermesd.systemd.watchdog import keep_alive


class Recorder(Notifier):
    def __init__(self, usec: int) -> None:
        super().__init__("/nowhere", watchdog_usec=usec)
        self.pings = 0

    def watchdog(self) -> None:
        self.pings += 1


async def _run(progress: list[float]) -> tuple[int, list[float]]:
    """Pings after one look per entry of `progress`, and how long was slept between."""
    notifier = Recorder(20_000_000)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == len(progress):
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await keep_alive(notifier, lambda: progress[len(slept)], sleep=sleep)
    return notifier.pings, slept


@pytest.mark.promise("OPS-2")
async def test_no_progress_means_no_ping() -> None:
    """httpd#728, OmniRoute#10661: a busy loop must not be kept alive by a timer of its own."""
    pings, _ = await _run([5.0, 5.0, 5.0, 5.0])
    assert pings == 1


@pytest.mark.promise("OPS-2")
async def test_a_slow_reload_that_awaits_goes_on_being_alive() -> None:
    """httpd#728: pings continue as long as the loop makes progress, at half of what systemd tolerates."""
    pings, slept = await _run([1.0, 2.0, 3.0])
    assert pings == 3
    assert slept == [10.0] * 3


async def test_without_a_watchdog_nothing_runs() -> None:
    notifier = Recorder(0)
    await keep_alive(notifier, lambda: 1.0)
    assert notifier.pings == 0
