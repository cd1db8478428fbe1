"""One prepared runtime of one plugin at one content digest, and the leases that calls hold on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hermesd.clock import Clock
from hermesd.model.definition import Parsed
from hermesd.model.status import Standing, State
from hermesd.runtimes.runtime import Runtime


class Lease:
    """A call's hold on its instance, within a `with` block."""

    __slots__ = ("_instance",)

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def __enter__(self) -> None:
        self._instance.leases += 1
        self._instance._idle.clear()

    def __exit__(self, *_: object) -> None:
        self._instance.leases -= 1
        if not self._instance.leases:
            self._instance._idle.set()


class Instance:
    """Calls lease it, and it drains when it has been retired and the last lease has ended.

    An instance is never closed while a lease is held, except by `Drainer`, which first cuts the
    calls that outlast the drain timeout.
    """

    def __init__(
        self,
        plugin: str,
        key: str,
        digest: str,
        runtime: Runtime,
        tools: Mapping[str, Parsed],
        *,
        clock: Clock,
        calls: tuple[str, ...] = (),
    ) -> None:
        self.plugin = plugin
        self.key = key
        self.digest = digest
        self.runtime = runtime
        self.tools = tools
        #: Globs of the tools that this plugin may call through `ctx.call`.
        self.calls = calls
        #: Tools that lack something that they need, with what; looked at again by each reload.
        self.unmet: Mapping[str, Standing] = {}
        self.leases = 0
        self._clock = clock
        self._idle = asyncio.Event()
        self._idle.set()
        self._since = clock.now()
        self._reason = (runtime.unavailable() or ("",))[0]

    def lease(self) -> Lease:
        """Hold the instance for the length of one call, which is a `with` block."""
        return Lease(self)

    async def idle(self) -> None:
        """Return when no call holds a lease."""
        await self._idle.wait()

    def standing(self) -> Standing:
        """Ready, or unavailable with the runtime's own reason; `since` is when that was first seen."""
        refusal = self.runtime.unavailable()
        reason, remedy = refusal or ("", "")
        if reason != self._reason:
            self._reason, self._since = reason, self._clock.now()
        return Standing(State.UNAVAILABLE if refusal else State.READY, self._since, reason, remedy)
