"""How late the event loop is: the proof that it makes progress, and the measure of what holds it up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hermesd.clock import Clock


class LoopLag:
    """Runs a timer again and again and measures how late it fires, in seconds.

    `observe` gets every measurement, `lagged` those of `warn_s` and more. `last_progress` (monotonic
    seconds) is when the loop last ran the timer: the watchdog pings only while it advances.
    """

    def __init__(
        self,
        clock: Clock,
        observe: Callable[[float], None],
        *,
        lagged: Callable[[float], None] | None = None,
        interval_s: float = 0.5,
        warn_s: float = 0.25,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._observe = observe
        self._lagged = lagged
        self._interval_s = interval_s
        self._warn_s = warn_s
        self._sleep = sleep
        self.last_progress = clock.monotonic()
        self.last_lag = 0.0
        self.worst_lag = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began = self._clock.monotonic()
            await self._sleep(self._interval_s)
            now = self._clock.monotonic()
            self.last_progress = now
            self.last_lag = max(0.0, now - began - self._interval_s)
            self.worst_lag = max(self.worst_lag, self.last_lag)
            self._observe(self.last_lag)
            if self._lagged is not None and self.last_lag >= self._warn_s:
                self._lagged(self.last_lag)
