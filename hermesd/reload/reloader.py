"""The one reload, whoever asks: read, diff, prepare, commit in one swap, drain what was replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn, Protocol

from hermesd.clock import Clock
from hermesd.errors import ConflictError, DrainingError, NotFoundError, PluginError, Rejection, StoreError
from hermesd.model.dependency import start_order
from hermesd.model.name import domain_of
from hermesd.model.status import PluginStatus, ReloadReport
from hermesd.reload.drain import Drainer
from hermesd.reload.goal import Goal, Plan, Run
from hermesd.reload.owner import Owner
from hermesd.reload.preparation import Made, Preparation, Preparer
from hermesd.serving.catalogue import Slice
from hermesd.serving.instance import Instance
from hermesd.serving.registry import Registry

#: Beyond the longest preparation or drain, for the commit that follows it.
MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What an asker wants of a pass; equal asks share one.

    `cause` is rpc, signal, start or watch. All but watch try again what was rejected.
    """

    name: str = ""
    dry_run: bool = False
    atomic: bool = False
    if_revision: str = ""
    cause: str = "rpc"

    def covers(self, plugin: str) -> bool:
        return self.name in ("", plugin)


@dataclass(frozen=True, slots=True)
class Finished:
    """The last pass that changed something or tried to: when (UTC), and what it left rejected."""

    at: datetime
    rejected: tuple[Rejection, ...]


class Reading(Protocol):
    """Where plans come from and where it is written down what served."""

    def read(self, *, patient: bool) -> Awaitable[Plan]:
        """Read the configuration and every source. Never raises for their faults: the plan lists them.

        What is being written just now stays as it was; with `patient` it is waited for, bounded.
        """
        ...

    def record(self, served: Iterable[Run], in_use: Iterable[str]) -> Awaitable[None]:
        """Write down what is about to serve, before it does, and let go of contents that nobody needs.

        `in_use` are digests that instances still run from. Raises StoreError.
        """
        ...


class Listener(Protocol):
    """Who hears of what passes do: the policy of calls, events, metrics."""

    def planned(self, plan: Plan) -> None:
        """This plan is in force from now on."""
        ...

    def committed(self, made: Mapping[str, Made], gone: Iterable[str]) -> None:
        """These preparations have ended, well or not, and these plugins are gone."""
        ...

    def tell(self, kind: str, subject: str, message: str = "", /, **fields: object) -> object: ...

    def reloaded(self, report: ReloadReport, cause: str) -> None: ...


@dataclass(slots=True)
class _Pass:
    """One pass: where it began, and what it set in motion."""

    ask: Ask
    plan: Plan
    began: float
    before: Mapping[str, str]
    preparations: dict[str, Preparation] = field(default_factory=dict)
    late: list[asyncio.Task[None]] = field(default_factory=list)
    drains: list[asyncio.Task[None]] = field(default_factory=list)
    refusals: tuple[Rejection, ...] = ()
    undone: bool = False
    #: What the pass came to, once that has been told.
    report: ReloadReport | None = None


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
        self._preparer = preparer
        self._registry = registry
        self._drainer = drainer
        self._listener = listener
        self._tasks = tasks
        self._clock = clock
        self._lock = asyncio.Lock()
        self._queued: dict[Ask, asyncio.Task[_Pass | Exception]] = {}
        self._owners: dict[str, Owner] = {}
        self._closed = False
        #: Of the pass on its way.
        self._preparing: list[asyncio.Task[Made]] = []
        self.plan: Plan | None = None
        self.last: Finished | None = None

    @property
    def revision(self) -> str:
        """Of the newest plan that was committed; "" before the first."""
        return self.plan.revision if self.plan is not None else ""

    def plugins(self) -> list[PluginStatus]:
        """Every plugin that is known, in name order."""
        return [owner.status(self._drainer.draining(name)) for name, owner in sorted(self._owners.items())]

    def rejections(self) -> tuple[Rejection, ...]:
        """What stands rejected, until it is mended."""
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
        for task in self._preparing:
            task.cancel()
        async with self._lock:
            preparations = [each.preparation for each in self._owners.values() if each.preparation]
            for preparation in preparations:
                preparation.task.cancel()
            self._registry.commit(dict.fromkeys(self._registry.catalogue.slices))
            instances = [each.instance for each in self._owners.values() if each.instance is not None]
            await self._stop(instances)
            if preparations:
                await asyncio.wait([each.task for each in preparations])

    async def _run(self, ask: Ask) -> _Pass | Exception:
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

    async def _conclude(self, run: _Pass) -> None:
        await _all_done(run.late)
        self._finish(run)

    def _finish(self, run: _Pass) -> None:
        """Tell of a pass once, however many asked for it and whether or not they still listen."""
        if run.ask.dry_run:
            return
        report = run.report = self._report(run)
        self.last = Finished(self._clock.now(), report.rejected)
        self._listener.reloaded(report, run.ask.cause)

    async def _aftermath(self, run: _Pass) -> None:
        """Return when what was added is ready or failed, and what was replaced has drained; each bounded."""
        limits = run.plan.configuration
        for waits, longest_s in (
            (run.late, limits.plugins.prepare_timeout_s),
            (run.drains, limits.server.drain_timeout_s),
        ):
            if waits:
                await asyncio.wait(waits, timeout=longest_s + MARGIN_S)

    async def _pass(self, ask: Ask) -> _Pass:
        began = self._clock.monotonic()
        if self._closed:
            raise _stopping()
        if ask.if_revision and ask.if_revision != self.revision:
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
        run = _Pass(ask, plan, began, before)
        await self._prepare_all(run)
        run.refusals = self._refusals(run)
        run.undone = ask.dry_run or (ask.atomic and bool(run.refusals))
        await (self._undo(run) if run.undone else self._commit_pass(run))
        return run

    async def _prepare_all(self, run: _Pass) -> None:
        """Start every preparation that is needed, and wait for them as long as the pass may."""
        ask = run.ask
        #: Whom a dependent waits for: what is on its way already, and what this pass sets out with.
        group = {name: owner.preparation for name, owner in self._owners.items() if owner.preparation}
        for name, goal in run.plan.goals.items():
            owner = self._owners.get(name)
            if goal.run is None or not ask.covers(name):
                continue
            if owner is not None and not owner.needs(goal.run, retry=ask.cause != "watch"):
                continue
            group[name] = run.preparations[name] = Preparation(goal, goal.run)
        for name, preparation in run.preparations.items():
            preparation.task = self._tasks.create_task(
                self._prepare(preparation, group, rehearse=ask.dry_run), name=f"prepare {name}"
            )
        patient = ask.dry_run or ask.atomic
        window = None if patient else run.plan.configuration.plugins.commit_window_s
        if run.preparations:
            self._preparing = [each.task for each in run.preparations.values()]
            await asyncio.wait(self._preparing, timeout=window)
            self._preparing = []
        if self._closed:
            await self._abandon(run)

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
                return Made(what, None, (Rejection(goal.name, reason, "mend its hooks"),))
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
        await _all_done([self._drainer.retire(instance)])

    def _refusals(self, run: _Pass) -> tuple[Rejection, ...]:
        ended = [each.task for each in run.preparations.values() if each.task.done()]
        goals = [goal for name, goal in run.plan.goals.items() if run.ask.covers(name)]
        return (
            *run.plan.rejections,
            *(each for goal in goals for each in goal.rejections),
            *(each for task in ended if not task.cancelled() for each in task.result().failures),
        )

    async def _abandon(self, run: _Pass) -> NoReturn:
        """Close what a pass has prepared when the daemon stops meanwhile."""
        for preparation in run.preparations.values():
            preparation.task.cancel()
            await asyncio.wait([preparation.task])
            made = None if preparation.task.cancelled() else preparation.task.result()
            if made is not None and made.instance is not None:
                await made.instance.runtime.close()
        raise _stopping()

    async def _undo(self, run: _Pass) -> None:
        """Close what was prepared; the catalogue never saw it."""
        for preparation in run.preparations.values():
            made = await preparation.task
            if made.instance is not None:
                await made.instance.runtime.close()
        ended = [self._owners[name] for name in run.preparations if self._has_stood_down(name)]
        if ended:
            await self._commit({owner.name: await self._restored(owner) for owner in ended}, [])

    def _has_stood_down(self, name: str) -> bool:
        owner = self._owners.get(name)
        return owner is not None and owner.instance is None and owner.run is not None

    async def _restored(self, owner: Owner) -> Made:
        """What had to end for a successor that is not to serve, begun anew."""
        assert owner.run is not None  # noqa: S101 - it has stood down, so something did serve
        preparation = Preparation(owner.goal, owner.run)
        preparation.task = self._tasks.create_task(self._prepare(preparation, {}, rehearse=False))
        return await preparation.task

    async def _commit_pass(self, run: _Pass) -> None:
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
                late = self._commit_late(run, owner, preparation)
                run.late.append(self._task(late, f"late {name}"))
        run.drains.extend(await self._commit(made, gone))

    async def _commit_late(self, run: _Pass, owner: Owner, preparation: Preparation) -> None:
        """A preparation that outlasted its pass commits by itself, unless a newer goal has called it off.

        Those that have ended by the time commit together: one swap and one write for all of them.
        """
        await asyncio.wait([preparation.task])
        if preparation.task.cancelled():
            return
        made = preparation.task.result()
        async with self._lock:
            if owner.preparation is preparation and not self._closed:
                run.drains.extend(await self._commit(self._arrivals(), []))
            elif made.instance is not None and owner.instance is not made.instance:
                await made.instance.runtime.close()

    def _arrivals(self) -> dict[str, Made]:
        """Every preparation that has ended and waits to be committed."""
        waiting = {name: each.preparation.task for name, each in self._owners.items() if each.preparation}
        return {name: task.result() for name, task in waiting.items() if task.done() and not task.cancelled()}

    async def _commit(self, made: Mapping[str, Made], gone: Iterable[str]) -> list[asyncio.Task[None]]:
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
        return [self._task(self._stop(retired), "drain")] if retired else []

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
                if self._has_stood_down(name):
                    old = await self._restored(self._owners[name])
                instance = old.instance if old is not each else None
                refused[name] = Made(old.run, instance, (*each.failures, rejection))
            return refused
        return made

    def _in_use(self) -> set[str]:
        serving = {owner.instance.digest for owner in self._owners.values() if owner.instance is not None}
        coming = {each.preparation.run.spec.digest for each in self._owners.values() if each.preparation}
        return serving | coming | self._drainer.digests()

    async def _stop(self, instances: list[Instance]) -> None:
        """Drain and close, dependents before what they depend on."""
        needs = {each.plugin: {domain_of(tool) for tool in _needed(each)} for each in instances}
        order = start_order(needs) if any(needs[name] & needs.keys() - {name} for name in needs) else []
        if not order:
            await _all_done([self._drainer.retire(each) for each in instances])
            return
        for name in reversed(order):
            await _all_done([self._drainer.retire(each) for each in instances if each.plugin == name])

    def _report(self, run: _Pass) -> ReloadReport:
        after = self._after(run)
        names = sorted(after.keys() | run.before.keys())
        pending = [name for name in names if self._is_pending(run, name)]
        settled = [name for name in names if name not in pending]
        refused = {each.name for each in run.refusals} | {each.name for each in self.rejections()}
        return ReloadReport(
            revision=run.plan.revision if not run.undone else self.revision,
            generation=self._registry.catalogue.generation,
            added=tuple(
                each
                for each in settled
                if each not in run.before and (after[each] != "|" or each not in refused)
            ),
            changed=tuple(
                each
                for each in settled
                if each in run.before and each in after and after[each] != run.before[each]
            ),
            removed=tuple(each for each in settled if each not in after),
            kept=tuple(each for each in settled if each in after and after[each] == run.before.get(each)),
            pending=tuple(pending),
            rejected=run.refusals if run.undone else self.rejections(),
            notices=(*run.plan.notices, *run.plan.waiting()),
            duration_ms=(self._clock.monotonic() - run.began) * 1000,
            config_digest=run.plan.configuration.digest,
            dry_run=run.ask.dry_run,
        )

    def _after(self, run: _Pass) -> dict[str, str]:
        """The identity of every plugin once the pass is through; for a dry run, as it would be."""
        if not run.undone:
            return {name: owner.identity for name, owner in self._owners.items()}
        if not run.ask.dry_run:
            return dict(run.before)
        after = {name: each for name, each in run.before.items() if not run.ask.covers(name)}
        for name, goal in run.plan.goals.items():
            if run.ask.covers(name):
                after[name] = self._rehearsed(run, name, goal)
        return after

    def _rehearsed(self, run: _Pass, name: str, goal: Goal) -> str:
        preparation = run.preparations.get(name)
        if preparation is not None and preparation.task.result().instance is not None:
            return f"{preparation.run.key}|"
        if goal.idle is not None:
            owner = Owner(name, goal, self._clock)
            return owner.identity
        return run.before.get(name, "|")

    def _is_pending(self, run: _Pass, name: str) -> bool:
        owner = self._owners.get(name)
        return not run.undone and owner is not None and owner.preparation is not None

    def _task(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        return self._tasks.create_task(work, name=name)


def _needed(instance: Instance) -> set[str]:
    return {tool for parsed in instance.tools.values() for tool in parsed.definition.depends_on}


async def _all_done(tasks: Iterable[asyncio.Task[None]]) -> None:
    waits = list(tasks)
    if waits:
        await asyncio.wait(waits)


def _stopping() -> DrainingError:
    return DrainingError("the daemon is stopping and reloads nothing", remedy="start it again")
