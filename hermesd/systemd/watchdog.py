"""The watchdog's ping: only a loop that has proved its progress is alive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hermesd.systemd.notify import Notifier


async def keep_alive(
    notifier: Notifier,
    progress: Callable[[], float],
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Ping systemd until cancelled, each time only if `progress` has advanced since the last look.

    `progress` tells when the event loop last did its work (monotonic seconds, from the lag meter). A loop
    that is blocked sends nothing, so systemd ends it; a slow reload that awaits leaves the pings going.
    Returns at once when no watchdog is asked for.
    """
    interval = notifier.watchdog_interval_s
    if interval is None:
        return
    seen = float("-inf")
    while True:
        now = progress()
        if now > seen:
            seen = now
            notifier.watchdog()
        await sleep(interval)
