"""One prepared runtime of one plugin at one content digest, and the leases that calls hold on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

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

    def __exit__(self, *_: object) -> None:
        instance = self._instance
        instance.leases -= 1
        if instance._idle is not None and not instance.leases:
            instance._idle.set()
            instance._idle = None


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
        #: Made when somebody waits for it: each call would pay for its being cleared and set.
        self._idle: asyncio.Event | None = None
        self._refusal = runtime.unavailable()
        self._standing = _standing(self._refusal, clock.now())

    def lease(self) -> Lease:
        """Hold the instance for the length of one call, which is a `with` block."""
        return Lease(self)

    async def idle(self) -> None:
        """Return when no call holds a lease."""
        while self.leases:
            idle = self._idle = self._idle or asyncio.Event()
            await idle.wait()

    def standing(self) -> Standing:
        """Ready, or unavailable with the runtime's own reason; `since` is when that was first seen."""
        refusal = self.runtime.unavailable()
        if refusal != self._refusal:
            same = refusal is not None and refusal[0] == self._standing.reason
            self._refusal = refusal
            self._standing = _standing(refusal, self._standing.since if same else self._clock.now())
        return self._standing


def _standing(refusal: tuple[str, str] | None, since: datetime) -> Standing:
    if refusal is None:
        return Standing(State.READY, since)
    return Standing(State.UNAVAILABLE, since, *refusal)
