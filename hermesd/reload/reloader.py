"""Passes of a reload: read, compare, prepare, commit or undo, whoever asked for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import NoReturn

from hermesd.clock import Clock
from hermesd.errors import ConflictError, DrainingError, NotFoundError, Rejection
from hermesd.model.name import domain_of
from hermesd.model.status import PluginStatus, ReloadReport, State
from hermesd.reload.availability import look_again
from hermesd.reload.commit import Committer
from hermesd.reload.drain import Drainer
from hermesd.reload.goal import Plan
from hermesd.reload.owner import Owner
from hermesd.reload.ports import Listener, Reading
from hermesd.reload.preparation import Made, Preparation, Preparer
from hermesd.reload.replacement import Replacer
from hermesd.reload.report import Ask, Finished, Pass, report_of
from hermesd.serving.registry import Registry

#: Beyond the longest preparation or drain, for the commit that follows it.
MARGIN_S = 5.0

#: So many digits of a digest are shown to people, and name it.
SHOWN_DIGITS = 12


class Reloader:
    """Owns every plugin's instance. Passes are single-flight; late preparations commit by themselves."""

    def __init__(
        self,
        *,
        reading: Reading,
        preparer: Preparer,
        registry: Registry,
        drainer: Drainer,
        listener: Listener,
        tasks: asyncio.TaskGroup,
        clock: Clock,
    ) -> None:
        self._reading = reading
        self._registry = registry
        self._drainer = drainer
        self._listener = listener
        self._tasks = tasks
        self._clock = clock
        self._lock = asyncio.Lock()
        self._queued: dict[Ask, asyncio.Task[Pass | Exception]] = {}
        self._owners: dict[str, Owner] = {}
        self._replacer = Replacer(
            self._owners,
            preparer=preparer,
            registry=registry,
            drainer=drainer,
            listener=listener,
            tasks=tasks,
        )
        self._committer = Committer(
            self._owners,
            reading=reading,
            registry=registry,
            drainer=drainer,
            listener=listener,
            tasks=tasks,
            restore=self._replacer.restore,
        )
        self._closed = False
        #: The commit to come of what outlasted its pass, by plugin.
        self._late: dict[str, asyncio.Task[None]] = {}
        #: Of the pass on its way.
        self._preparing: dict[str, asyncio.Task[Made]] = {}
        self.plan: Plan | None = None
        self.last: Finished | None = None

    @property
    def revision(self) -> str:
        """Of the newest plan that was committed; "" before the first."""
        return self.plan.revision if self.plan is not None else ""

    def plugins(self) -> list[PluginStatus]:
        """Every plugin that is known, in name order."""
        return [owner.status(self._drainer.draining(name)) for name, owner in sorted(self._owners.items())]

    def awaited(self, tool: str) -> str:
        """Why a tool that nothing serves may be there in a moment; "" when nothing on its way brings it."""
        if self.plan is None:
            return "the daemon is starting"
        plugin = domain_of(tool)
        owner = self._owners.get(plugin)
        is_new = plugin in self._preparing if owner is None else owner.standing().state is State.PENDING
        return f"the plugin {plugin} is being prepared" if is_new else ""

    def rejections(self) -> tuple[Rejection, ...]:
        """What stands rejected, until it is fixed."""
        general = self.plan.rejections if self.plan is not None else ()
        return (*general, *(each for _, owner in sorted(self._owners.items()) for each in owner.rejections))

    async def reload(
        self,
        *,
        name: str = "",
        dry_run: bool = False,
        atomic: bool = False,
        no_wait: bool = False,
        if_revision: str = "",
        cause: str = "rpc",
    ) -> ReloadReport:
        """Answer with a pass that began after this was asked.

        `name`: that plugin alone. `dry_run`: everything but the commit. `atomic`: all or nothing.
        `if_revision`: only if that is still the revision. Returns when what was added is ready or failed
        and what was replaced has drained, each bounded; with `no_wait` when the pass has committed.
        Raises NotFoundError, ConflictError, DrainingError.
        """
        ask = Ask(name, dry_run, atomic, if_revision, cause)
        queued = self._queued.get(ask)
        if queued is None:
            queued = self._queued[ask] = self._tasks.create_task(self._run(ask), name="reload")
        # The pass is everybody's: an asker that goes away must not end it.
        run = await asyncio.shield(queued)
        if isinstance(run, Exception):
            raise run
        if not no_wait:
            await self._aftermath(run)
        # What a pass came to when it ended, unless the asker waited for more.
        return run.report if no_wait and run.report is not None else self._report(run)

    async def close(self) -> None:
        """Prepare nothing more; drain and close every instance, dependents first.

        A pass on its way is called off: its askers get DrainingError.
        """
        self._closed = True
        for task in self._preparing.values():
            task.cancel()
        async with self._lock:
            preparations = [each.preparation for each in self._owners.values() if each.preparation]
            for preparation in preparations:
                preparation.task.cancel()
            self._registry.commit(dict.fromkeys(self._registry.catalogue.slices))
            instances = [each.instance for each in self._owners.values() if each.instance is not None]
            await self._committer.stop(instances)
            if preparations:
                await asyncio.wait([each.task for each in preparations])

    async def _run(self, ask: Ask) -> Pass | Exception:
        async with self._lock:
            del self._queued[ask]
            try:
                run = await self._pass(ask)
            except Exception as error:  # noqa: BLE001 - every asker raises it; the daemon goes on
                return error
        if run.late:
            self._task(self._conclude(run), "conclude")
        else:
            self._finish(run)
        return run

    async def _conclude(self, run: Pass) -> None:
        await asyncio.wait(run.late)
        self._finish(run)

    def _finish(self, run: Pass) -> None:
        """Tell of a pass once, however many asked for it and whether or not they still listen."""
        if run.ask.dry_run:
            return
        report = run.report = self._report(run)
        self.last = Finished(self._clock.now(), report.rejected)
        self._listener.reloaded(report, run.ask.cause)

    async def _aftermath(self, run: Pass) -> None:
        """Return when what was added is ready or failed, and what was replaced has drained; each bounded."""
        limits = run.plan.configuration
        for waits, longest_s in (
            (run.under_way, limits.plugins.prepare_timeout_s),
            (run.drains, limits.server.drain_timeout_s),
        ):
            if waits:
                await asyncio.wait(waits, timeout=longest_s + MARGIN_S)

    async def _pass(self, ask: Ask) -> Pass:
        began = self._clock.monotonic()
        if self._closed:
            raise _stopping()
        if ask.if_revision and not _names(ask.if_revision, self.revision):
            raise ConflictError(
                f"the revision is {self.revision}, not {ask.if_revision}",
                remedy="look at what has changed, then ask with the new revision",
            )
        plan = await self._reading.read(patient=ask.cause not in ("start", "watch"))
        if ask.name and ask.name not in plan.goals and ask.name not in self._owners:
            raise NotFoundError(f"there is no plugin {ask.name!r}", remedy="hermesd ctl plugins list")
        if ask.name and self.plan is not None:
            plan = plan.only(ask.name, self.plan)
        before = {name: each.identity for name, each in self._owners.items()}
        run = Pass(ask, plan, began, before)
        await self._prepare_all(run)
        run.refusals = run.refused()
        run.undone = ask.dry_run or (ask.atomic and bool(run.refusals))
        await (self._undo(run) if run.undone else self._commit_pass(run))
        return run

    async def _prepare_all(self, run: Pass) -> None:
        """Start every preparation that is needed, and wait for them as long as the pass may."""
        ask = run.ask
        #: Whom a dependent waits for: what is on its way already, and what this pass sets out with.
        group = {name: owner.preparation for name, owner in self._owners.items() if owner.preparation}
        for name, goal in run.plan.goals.items():
            owner = self._owners.get(name)
            if goal.run is None or not ask.covers(name):
                continue
            if owner is not None and not owner.needs(goal.run, retry=ask.retries):
                continue
            group[name] = run.preparations[name] = Preparation(goal, goal.run)
        for preparation in run.preparations.values():
            self._replacer.start(preparation, group, rehearse=ask.dry_run)
        patient = ask.dry_run or ask.atomic
        window = None if patient else run.plan.configuration.plugins.commit_window_s
        if run.preparations:
            self._preparing = {name: each.task for name, each in run.preparations.items()}
            await asyncio.wait(self._preparing.values(), timeout=window)
            self._preparing = {}
        if self._closed:
            await self._abandon(run)

    async def _abandon(self, run: Pass) -> NoReturn:
        """Close what a pass has prepared when the daemon stops meanwhile."""
        for preparation in run.preparations.values():
            preparation.task.cancel()
            await asyncio.wait([preparation.task])
            made = None if preparation.task.cancelled() else preparation.task.result()
            if made is not None and made.instance is not None:
                await made.instance.runtime.close()
        raise _stopping()

    async def _undo(self, run: Pass) -> None:
        """Close what was prepared; the catalogue never saw it."""
        for preparation in run.preparations.values():
            made = await preparation.task
            if made.instance is not None:
                await made.instance.runtime.close()
        prepared = [self._owners[name] for name in run.preparations if name in self._owners]
        ended = [owner for owner in prepared if owner.has_stood_down]
        if ended:
            restored = {owner.name: await self._replacer.restore(owner) for owner in ended}
            await self._committer.commit(restored, [])

    async def _commit_pass(self, run: Pass) -> None:
        ask, plan = run.ask, run.plan
        self.plan = plan
        self._listener.planned(plan)
        gone = [name for name in self._owners if name not in plan.goals and ask.covers(name)]
        made: dict[str, Made] = {}
        for name, goal in plan.goals.items():
            if not ask.covers(name):
                continue
            owner = self._owners.setdefault(name, Owner(name, goal, self._clock))
            owner.aim(goal)
            preparation = run.preparations.get(name)
            if preparation is None:
                continue
            owner.preparation = preparation
            if preparation.task.done():
                made[name] = preparation.task.result()
            else:
                late = self._task(self._commit_late(run, owner, preparation), f"late {name}")
                run.late.append(late)
                self._late[name] = late
        self._late = {name: each for name, each in self._late.items() if not each.done()}
        run.under_way = [each for name, each in self._late.items() if ask.covers(name)]
        await self._look_again(ask)
        run.drains.extend(await self._committer.commit(made, gone))

    async def _look_again(self, ask: Ask) -> None:
        """What tools require may have come or gone though their plugin is the same."""
        serving = [owner for name, owner in self._owners.items() if ask.covers(name)]
        for name in await look_again(serving, self._clock):
            self._registry.state_changed(name)
            self._listener.tell("plugin_state", name)

    async def _commit_late(self, run: Pass, owner: Owner, preparation: Preparation) -> None:
        """A preparation that outlasted its pass commits by itself, unless a newer goal has called it off.

        Those that have ended by the time commit together: one swap and one write for all of them.
        """
        await asyncio.wait([preparation.task])
        if preparation.task.cancelled():
            return
        made = preparation.task.result()
        async with self._lock:
            if owner.preparation is preparation and not self._closed:
                run.drains.extend(await self._committer.commit(self._arrivals(), []))
            elif made.instance is not None and owner.instance is not made.instance:
                await made.instance.runtime.close()

    def _arrivals(self) -> dict[str, Made]:
        """Every preparation that has ended and waits to be committed."""
        waiting = {name: each.preparation.task for name, each in self._owners.items() if each.preparation}
        return {name: task.result() for name, task in waiting.items() if task.done() and not task.cancelled()}

    def _report(self, run: Pass) -> ReloadReport:
        now = {name: each.identity for name, each in self._owners.items()}
        pending = {name for name, each in self._owners.items() if each.preparation and not run.undone}
        return report_of(
            run,
            run.after_undo() if run.undone else now,
            pending=pending,
            rejections=self.rejections(),
            revision=self.revision,
            generation=self._registry.catalogue.generation,
            duration_ms=(self._clock.monotonic() - run.began) * 1000,
        )

    def _task(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        return self._tasks.create_task(work, name=name)


def _names(given: str, revision: str) -> bool:
    """The whole revision, or its beginning as `ctl status` shows it."""
    shown = given.removeprefix("sha256:")
    return given == revision or (
        len(shown) >= SHOWN_DIGITS and revision.removeprefix("sha256:").startswith(shown)
    )


def _stopping() -> DrainingError:
    return DrainingError("the daemon is stopping and reloads nothing", remedy="start it again")
