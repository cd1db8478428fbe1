"""One pass of a reload: what was asked for, what it set in motion, and the report it ends in."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hermesd.errors import Rejection
from hermesd.model.status import ReloadReport
from hermesd.reload.goal import Goal, Plan
from hermesd.reload.owner import UNSERVED, identity_of
from hermesd.reload.preparation import Preparation


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

    @property
    def retries(self) -> bool:
        """Whether what was rejected before is tried again: it decides over all or nothing, too."""
        return self.atomic or self.cause != "watch"


@dataclass(frozen=True, slots=True)
class Finished:
    """The last pass that changed something or tried to: when (UTC), and what it left rejected."""

    at: datetime
    rejected: tuple[Rejection, ...]


@dataclass(slots=True)
class Pass:
    """One pass: where it began, and what it set in motion."""

    ask: Ask
    plan: Plan
    began: float
    before: Mapping[str, str]
    preparations: dict[str, Preparation] = field(default_factory=dict)
    late: list[asyncio.Task[None]] = field(default_factory=list)
    #: Its late ones and those that an earlier pass set out with: what an asker who waits waits for.
    under_way: list[asyncio.Task[None]] = field(default_factory=list)
    drains: list[asyncio.Task[None]] = field(default_factory=list)
    refusals: tuple[Rejection, ...] = ()
    undone: bool = False
    #: What the pass came to, once that has been told.
    report: ReloadReport | None = None

    def refused(self) -> tuple[Rejection, ...]:
        """What the pass rejects: faults of the plan, and of the preparations that have ended so far."""
        ended = [each.task for each in self.preparations.values() if each.task.done()]
        goals = [goal for name, goal in self.plan.goals.items() if self.ask.covers(name)]
        return (
            *self.plan.rejections,
            *(each for goal in goals for each in goal.rejections),
            *(each for task in ended if not task.cancelled() for each in task.result().failures),
        )

    def after_undo(self) -> dict[str, str]:
        """The identity of every plugin after a pass that changed nothing; for a dry run, as it would be."""
        if not self.ask.dry_run:
            return dict(self.before)
        after = {name: each for name, each in self.before.items() if not self.ask.covers(name)}
        for name, goal in self.plan.goals.items():
            if self.ask.covers(name):
                after[name] = self._rehearsed(name, goal)
        return after

    def _rehearsed(self, name: str, goal: Goal) -> str:
        preparation = self.preparations.get(name)
        if preparation is not None and preparation.task.result().instance is not None:
            return identity_of(preparation.run.key, None, "")
        if goal.idle is not None:
            return identity_of("", goal.idle, goal.found_digest)
        return self.before.get(name, UNSERVED)


def report_of(
    run: Pass,
    after: Mapping[str, str],
    *,
    pending: Collection[str],
    rejections: tuple[Rejection, ...],
    revision: str,
    generation: int,
    duration_ms: float,
) -> ReloadReport:
    """The report of `run`, by comparing each plugin's identity before it with that in `after`.

    `pending` are still being prepared. `rejections` are all that stand now, `revision` and `generation`
    what is in force; a pass that was undone reports its own refusals instead.
    """
    names = sorted(after.keys() | run.before.keys())
    settled = [name for name in names if name not in pending]
    refused = {each.name for each in (*run.refusals, *rejections)}
    return ReloadReport(
        revision=revision if run.undone else run.plan.revision,
        generation=generation,
        added=tuple(
            each
            for each in settled
            if each not in run.before and (after[each] != UNSERVED or each not in refused)
        ),
        changed=tuple(
            each
            for each in settled
            if each in run.before and each in after and after[each] != run.before[each]
        ),
        removed=tuple(each for each in settled if each not in after),
        kept=tuple(each for each in settled if each in after and after[each] == run.before.get(each)),
        pending=tuple(name for name in names if name in pending),
        rejected=run.refusals if run.undone else rejections,
        notices=(*run.plan.notices, *run.plan.waiting()),
        duration_ms=duration_ms,
        config_digest=run.plan.configuration.digest,
        dry_run=run.ask.dry_run,
    )
