"""Ending what was replaced: its calls finish, within a bound, and then it is closed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from hermesd.model.call import Code
from hermesd.serving.flight import Cut, Flights
from hermesd.serving.instance import Instance

_log = logging.getLogger(__name__)
MAX_DRAINING = 3


class Drainer:
    """Closes retired instances once their last lease ends, after `timeout_s()` at the latest.

    At most three instances of one plugin drain at once: a fourth cuts the calls of the oldest, so that
    a stuck call cannot pile up instances however often its plugin is replaced.
    """

    def __init__(self, tasks: asyncio.TaskGroup, flights: Flights, timeout_s: Callable[[], float]) -> None:
        self._tasks = tasks
        self._flights = flights
        self._timeout_s = timeout_s
        self._draining: dict[str, deque[tuple[Instance, asyncio.Event]]] = {}

    def retire(self, instance: Instance) -> asyncio.Task[None]:
        """Begin to drain `instance`, which no catalogue holds any more; the task ends when it is closed."""
        line = self._draining.setdefault(instance.plugin, deque())
        hurry = asyncio.Event()
        line.append((instance, hurry))
        for _, oldest in list(line)[:-MAX_DRAINING]:
            oldest.set()
        return self._tasks.create_task(self._drain(instance, hurry), name=f"drain {instance.plugin}")

    def draining(self, plugin: str) -> int:
        """How many instances wait for their calls; one whose calls are being cut does not any more."""
        return sum(1 for _, hurry in self._draining.get(plugin, ()) if not hurry.is_set())

    def digests(self) -> set[str]:
        """The contents that draining instances still run from."""
        return {instance.digest for line in self._draining.values() for instance, _ in line}

    async def _drain(self, instance: Instance, hurry: asyncio.Event) -> None:
        try:
            if not await self._idle_within(instance, hurry):
                await self._cut(instance)
        finally:
            try:
                await instance.runtime.close()
            except Exception:  # noqa: BLE001 - what is closed for good must not stop the daemon
                _log.exception("closing an instance of %s failed", instance.plugin)
            self._forget(instance)

    async def _idle_within(self, instance: Instance, hurry: asyncio.Event) -> bool:
        if not instance.leases:
            return True
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(instance.idle()), group.create_task(hurry.wait())]
            await asyncio.wait(waits, timeout=self._timeout_s(), return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
        return not instance.leases

    async def _cut(self, instance: Instance) -> None:
        cut = Cut(
            Code.UNAVAILABLE,
            f"{instance.plugin} was replaced, and this call outlasted the drain",
            "call again; the new version answers",
        )
        for flight in self._flights.of_instance(instance):
            flight.end(cut)
        # A cut call ends within one pass of the loop; the runtime is closed only after it has.
        await instance.idle()

    def _forget(self, instance: Instance) -> None:
        line = self._draining[instance.plugin]
        self._draining[instance.plugin] = deque(each for each in line if each[0] is not instance)
        if not self._draining[instance.plugin]:
            del self._draining[instance.plugin]
