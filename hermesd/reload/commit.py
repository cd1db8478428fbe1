"""Making prepared instances serve: write down, swap the catalogue once, then drain what was replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from hermesd.errors import Rejection, StoreError
from hermesd.model.dependency import start_order
from hermesd.model.name import domain_of
from hermesd.reload.drain import Drainer
from hermesd.reload.owner import Owner
from hermesd.reload.ports import Listener, Reading
from hermesd.reload.preparation import Made
from hermesd.serving.catalogue import Slice
from hermesd.serving.instance import Instance
from hermesd.serving.registry import Registry


class Committer:
    """Changes which instances `owners` hold. Call it under the reloader's lock only."""

    def __init__(
        self,
        owners: dict[str, Owner],
        *,
        reading: Reading,
        registry: Registry,
        drainer: Drainer,
        listener: Listener,
        tasks: asyncio.TaskGroup,
        restore: Callable[[Owner], Awaitable[Made]],
    ) -> None:
        """`restore` starts anew what had to end for a successor that cannot be recorded."""
        self._owners = owners
        self._reading = reading
        self._registry = registry
        self._drainer = drainer
        self._listener = listener
        self._tasks = tasks
        self._restore = restore

    async def commit(self, made: Mapping[str, Made], gone: Iterable[str]) -> list[asyncio.Task[None]]:
        """Write down, swap once, then drain. Returns the drains."""
        gone = list(gone)
        made = await self._record(made)
        retired: list[Instance] = []
        changes: dict[str, Slice | None] = dict.fromkeys(gone)
        for name, each in made.items():
            owner = self._owners[name]
            before = owner.instance
            owner.arrived(each.instance, each.run, each.failures)
            if each.instance is not None:
                changes[name] = owner.slice()
                retired.extend([before] if before is not None else [])
            elif before is None and self._registry.catalogue.slices.get(name):
                # What is listed is why it did not run, or that it is being replaced: neither is so any more.
                owner.committed = None
                changes[name] = owner.slice()
        for name, owner in self._owners.items():
            if owner.goal.idle is not None and owner.committed != owner.goal.idle and name not in gone:
                retired.extend([owner.instance] if owner.instance is not None else [])
                owner.rest()
                changes[name] = owner.slice()
        for name in gone:
            owner = self._owners.pop(name)
            owner.call_off()
            retired.extend([owner.instance] if owner.instance is not None else [])
        if changes:
            generation = self._registry.commit(changes).generation
            for name in changes.keys() & self._owners.keys():
                self._owners[name].generation = generation
        self._listener.committed(made, gone)
        return [self._tasks.create_task(self.stop(retired), name="drain")] if retired else []

    async def _record(self, made: Mapping[str, Made]) -> Mapping[str, Made]:
        """What cannot be written down does not serve: a restart would not come back to it."""
        served = {name: each for name, each in made.items() if each.instance is not None}
        if not served:
            return made
        try:
            await self._reading.record([each.run for each in served.values()], self._in_use())
        except (StoreError, OSError) as error:
            fault, remedy = str(error), getattr(error, "remedy", "")
            self._listener.tell("store_failed", "", fault)
            refused = dict(made)
            for name, each in served.items():
                if each.instance is not None:
                    await each.instance.runtime.close()
                rejection = Rejection(name, f"cannot be recorded: {fault}", remedy)
                old = each
                if self._owners[name].has_stood_down:
                    old = await self._restore(self._owners[name])
                instance = old.instance if old is not each else None
                refused[name] = Made(old.run, instance, (*each.failures, rejection))
            return refused
        return made

    def _in_use(self) -> set[str]:
        serving = {owner.instance.digest for owner in self._owners.values() if owner.instance is not None}
        coming = {each.preparation.run.spec.digest for each in self._owners.values() if each.preparation}
        return serving | coming | self._drainer.digests()

    async def stop(self, instances: list[Instance]) -> None:
        """Drain and close, dependents before what they depend on."""
        needs = {each.plugin: {domain_of(tool) for tool in _needed(each)} for each in instances}
        order = start_order(needs) if any(needs[name] & needs.keys() - {name} for name in needs) else []
        if not order:
            await _all_done([self._drainer.retire(each) for each in instances])
            return
        for name in reversed(order):
            await _all_done([self._drainer.retire(each) for each in instances if each.plugin == name])


def _needed(instance: Instance) -> set[str]:
    return {tool for parsed in instance.tools.values() for tool in parsed.definition.depends_on}


async def _all_done(tasks: Iterable[asyncio.Task[None]]) -> None:
    waits = list(tasks)
    if waits:
        await asyncio.wait(waits)
