"""Where the daemon is in its life: starting, ready, draining, stopping."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from hermesd.errors import PreconditionError
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.telemetry.event import EventLog

Phase = Literal["starting", "ready", "draining", "stopping"]
#: How long the answer to `shutdown` has to leave before the stop that could cut it.
ANSWER_S = 0.05


class Lifecycle:
    """Calls are taken in `starting` and `ready`. Only a ready daemon can drain, and may resume after it."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        flights: Flights,
        events: EventLog,
        stop: Callable[[], None],
        serving: Callable[[bool], Awaitable[None]],
    ) -> None:
        """`serving` tells whoever watches the daemon's health whether it takes calls."""
        self._dispatcher = dispatcher
        self._flights = flights
        self._events = events
        self._stop = stop
        self._serving = serving
        self.phase: Phase = "starting"

    def loaded(self) -> None:
        """The first pass has committed."""
        if self.phase == "starting":
            self.phase = "ready"

    def stopping(self) -> None:
        """From now on there is no way back."""
        self.phase = "stopping"

    async def drain(self) -> None:
        """Take no more calls; those that run go on. Nothing to do unless the daemon is ready."""
        if self.phase == "ready":
            self.phase = "draining"
            self._dispatcher.draining = True
            await self._serving(False)
            self._events.emit("daemon_draining", "", calls=len(self._flights))

    async def resume(self) -> None:
        """Take calls again after `drain`. Raises PreconditionError when the daemon is stopping."""
        if self.phase == "stopping":
            raise PreconditionError("the daemon is stopping", remedy="start it again")
        if self.phase == "draining":
            self.phase = "ready"
            self._dispatcher.draining = False
            await self._serving(True)
            self._events.emit("daemon_resumed", "")

    async def shutdown(self) -> None:
        """Begin to stop, once this answer has left: a stop that cuts its own asker looks like a failure."""
        asyncio.get_running_loop().call_later(ANSWER_S, self._stop)
