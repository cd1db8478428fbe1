"""Preparing what takes a plugin's place, with the last content that served as the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hermesd.errors import PluginError, Rejection
from hermesd.reload.drain import Drainer
from hermesd.reload.goal import Run
from hermesd.reload.owner import Owner
from hermesd.reload.ports import Listener
from hermesd.reload.preparation import Made, Preparation, Preparer
from hermesd.serving.instance import Instance
from hermesd.serving.registry import Registry


class Replacer:
    """Prepares for `owners`, which it only changes where an exclusive plugin has to end first."""

    def __init__(
        self,
        owners: Mapping[str, Owner],
        *,
        preparer: Preparer,
        registry: Registry,
        drainer: Drainer,
        listener: Listener,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._owners = owners
        self._preparer = preparer
        self._registry = registry
        self._drainer = drainer
        self._listener = listener
        self._tasks = tasks

    def start(self, preparation: Preparation, group: Mapping[str, Preparation], *, rehearse: bool) -> None:
        """Begin; `preparation.task` ends with what it came to. `group`: whom a dependent waits for."""
        preparation.task = self._tasks.create_task(
            self._prepare(preparation, group, rehearse=rehearse), name=f"prepare {preparation.goal.name}"
        )

    async def restore(self, owner: Owner) -> Made:
        """Start anew what had to end for a successor that will not serve."""
        assert owner.run is not None  # noqa: S101 - it has stood down, so something did serve
        preparation = Preparation(owner.goal, owner.run)
        self.start(preparation, {}, rehearse=False)
        return await preparation.task

    async def _prepare(
        self, preparation: Preparation, group: Mapping[str, Preparation], *, rehearse: bool
    ) -> Made:
        """Raises only CancelledError: the failure of one plugin is a value, for it stops nothing else."""
        goal, run = preparation.goal, preparation.run
        owner = self._owners.get(goal.name)
        served = owner.run if owner is not None else None

        async def make_way() -> None:
            if run.exclusive and owner is not None and owner.instance is not None:
                await self._stand_down(owner, owner.instance)

        async def attempt(what: Run) -> Made:
            try:
                instance = await self._preparer.prepare(
                    preparation, what, group, make_way=make_way, rehearse=rehearse
                )
            except PluginError as error:
                return Made(what, None, goal.located(error.rejections))
            except asyncio.CancelledError:
                if preparation.task.cancelling():
                    raise
                reason = "its startup was cancelled by its own code"
                return Made(what, None, (Rejection(goal.name, reason, "fix its hooks"),))
            except Exception as error:  # noqa: BLE001 - a fault of ours rejects one plugin, and stops nothing
                cause = f"{type(error).__name__}: {error}"
                self._listener.tell("plugin_rejected", goal.name, cause)
                reason = f"could not be prepared: {cause}"
                return Made(what, None, (Rejection(goal.name, reason, "see the daemon's log"),))
            return Made(what, instance)

        made = await attempt(run)
        fallback = served or goal.fallback
        nothing_serves = owner is None or owner.instance is None
        if made.instance is not None or rehearse or fallback is None or not nothing_serves:
            return made
        if fallback.key == run.key:
            return made
        second = await attempt(fallback)
        return Made(second.run, second.instance, (*made.failures, *second.failures))

    async def _stand_down(self, owner: Owner, instance: Instance) -> None:
        """Stop what serves before its successor starts: both at once could not hold what is exclusive."""
        owner.instance = None
        self._registry.commit({owner.name: owner.resting(instance)})
        # Not awaited itself: a preparation that is called off meanwhile must not end the drain with it.
        await asyncio.wait([self._drainer.retire(instance)])
