"""The watchdog on a real loop and a real datagram socket."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from hermesd.clock import SystemClock
from hermesd.systemd.notify import Notifier
from hermesd.systemd.watchdog import keep_alive
from hermesd.telemetry.lag import LoopLag


def _heard(manager: socket.socket) -> int:
    count = 0
    while True:
        try:
            manager.recv(100)
        except BlockingIOError:
            return count
        count += 1


@pytest.mark.promise("OPS-2")
async def test_a_blocked_loop_is_silent_and_an_awaiting_one_is_not(tmp_path: Path) -> None:
    """httpd#728, OmniRoute#10661: block the loop for twice the period ⇒ no ping; await as long ⇒ pings."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        notifier = Notifier.from_environ(
            {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        )
        lags: list[float] = []
        lag = LoopLag(SystemClock(), lags.append, interval_s=0.02)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(lag.run()),
                group.create_task(keep_alive(notifier, lambda: lag.last_progress)),
            ]
            await asyncio.sleep(0.6)
            assert _heard(manager) >= 2
            time.sleep(0.4)  # the fault itself: a tool that blocks the loop
            assert _heard(manager) == 0
            await asyncio.sleep(0.3)
            for task in tasks:
                task.cancel()
        assert max(lags) >= 0.3
