"""One plugin over time: what should serve, what does, what is on its way, what was refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hermesd.clock import Clock
from hermesd.errors import Rejection
from hermesd.model.definition import ToolDefinition
from hermesd.model.digest import canonical_json
from hermesd.model.status import PluginStatus, Standing, State
from hermesd.reload.goal import Goal, Idle, Run, Where
from hermesd.serving.catalogue import Entry, Slice
from hermesd.serving.instance import Instance

if TYPE_CHECKING:
    from hermesd.reload.preparation import Preparation

SOURCE = "python"
#: What the operator calls the places where code runs.
ISOLATION: Mapping[Where, str] = {"inprocess": "inprocess", "worker": "process"}


class Owner:
    """The reloader's account of one plugin. Only passes change it, under the reloader's lock."""

    def __init__(self, name: str, goal: Goal, clock: Clock) -> None:
        self.name = name
        self.goal = goal
        self.instance: Instance | None = None
        self.run: Run | None = None
        self.preparation: Preparation | None = None
        self.generation = 0
        #: The reason for not running that the catalogue lists now.
        self.committed: Idle | None = None
        #: What it last served: callers of a plugin that was switched off learn why, not that it never was.
        self._served: tuple[ToolDefinition, ...] = ()
        self._failed_key = ""
        self._failures: tuple[Rejection, ...] = ()
        self._clock = clock
        self._standing = Standing(State.PENDING, clock.now())

    def needs(self, run: Run, *, retry: bool) -> bool:
        """Whether `run` is to be prepared: it neither serves, nor is on its way, nor was refused already."""
        if self.instance is not None and self.instance.key == run.key:
            return False
        if self.preparation is not None and self.preparation.run.key == run.key:
            return False
        return retry or self._failed_key != run.key

    def aim(self, goal: Goal) -> None:
        """Take over a new goal. What is on its way to another one is called off.

        A goal without run or reason could not be read: then what is on its way goes on, as what serves does.
        """
        key = goal.run.key if goal.run is not None else ""
        readable = goal.run is not None or goal.idle is not None
        if readable and self.preparation is not None and self.preparation.run.key != key:
            self.call_off()
        if self._failed_key != key:
            self._failed_key, self._failures = "", ()
        self.goal = goal
        self.standing()  # `since` is when it came to be so, not when somebody first asked

    def call_off(self) -> None:
        """End what is on its way."""
        if self.preparation is not None:
            self.preparation.task.cancel()
            self.preparation = None

    def rest(self) -> None:
        """Serve no more: the goal says that the plugin does not run."""
        self.instance = self.run = None
        self.committed = self.goal.idle
        self.standing()

    def resting(self, instance: Instance) -> Slice:
        """The tools of `instance` while it has ended and its successor has not begun."""
        reason, remedy = "is being replaced", "try again in a moment"
        fixed = Standing(State.UNAVAILABLE, self._clock.now(), reason, remedy)
        return {
            name: Entry(parsed.definition, self.name, SOURCE, fixed.since, fixed=fixed)
            for name, parsed in instance.tools.items()
        }

    def arrived(self, instance: Instance | None, run: Run, failures: Sequence[Rejection]) -> None:
        """The preparation of the goal has ended: `instance` serves from now on, unless it is None.

        With failures the goal's own run was refused, and `run` is what serves in its place.
        """
        self.preparation = None
        goal_key = self.goal.run.key if self.goal.run is not None else ""
        self._failed_key = goal_key if failures else ""
        self._failures = tuple(failures)
        if instance is not None:
            self.instance, self.run, self.committed = instance, run, None
            self._served = tuple(parsed.definition for parsed in instance.tools.values())
        self.standing()

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        return (*self.goal.rejections, *self._failures)

    @property
    def identity(self) -> str:
        """Equal as long as nothing that callers or operators see of this plugin has changed."""
        return identity_of(self.instance.key if self.instance else "", self.goal.idle, self.goal.found_digest)

    @property
    def has_stood_down(self) -> bool:
        """Whether what served was ended for a successor that does not serve yet."""
        return self.instance is None and self.run is not None

    def slice(self) -> Slice:
        """What the catalogue lists for this plugin now."""
        now = self._clock.now()
        if self.instance is not None:
            return {
                name: Entry(
                    parsed.definition,
                    self.name,
                    SOURCE,
                    now,
                    parsed.schema,
                    self.instance,
                    corrections=parsed.corrections,
                    returns=parsed.returns,
                )
                for name, parsed in self.instance.tools.items()
            }
        idle = self.goal.idle
        if idle is None:
            return {}
        fixed = Standing(idle.state, now, idle.reason, idle.remedy)
        tools = idle.tools or self._served
        return {each.name: Entry(each, self.name, SOURCE, now, fixed=fixed) for each in tools}

    def standing(self) -> Standing:
        """Where the plugin stands; `since` moves only when the state or the reason does."""
        found = self._judge()
        if (found.state, found.reason) != (self._standing.state, self._standing.reason):
            self._standing = found
        return self._standing

    def _judge(self) -> Standing:
        now = self._clock.now()
        rejections = self.rejections
        if self.instance is None:
            if self.goal.idle is not None:
                return Standing(self.goal.idle.state, now, self.goal.idle.reason, self.goal.idle.remedy)
            if rejections:
                return Standing(State.REJECTED, now, rejections[0].fault, rejections[0].remedy)
            return Standing(State.PENDING, now, "is being prepared")
        own = self.instance.standing()
        if own.state is not State.READY:
            return own
        if unmet := self.instance.unmet:
            name, first = next(iter(unmet.items()))
            reason = f"{len(unmet)} of {len(self.instance.tools)} tools cannot work: {name}: {first.reason}"
            return Standing(State.DEGRADED, now, reason, first.remedy)
        if rejections:
            reason = f"the last good version serves; the new one was rejected: {rejections[0].fault}"
            return Standing(State.DEGRADED, now, reason, rejections[0].remedy)
        if self.goal.awaiting is not None:
            return Standing(State.READY, now, *self.goal.awaiting)
        return Standing(State.READY, now)

    def status(self, draining: int) -> PluginStatus:
        """Everything that an operator may want to know of this plugin."""
        goal, instance = self.goal, self.instance
        vitals = instance.runtime.vitals() if instance is not None else None
        tools = instance.tools if instance is not None else {}
        warnings = [f"{name}: {each}" for name, parsed in tools.items() for each in parsed.warnings]
        warnings.extend(self._overdue())
        if instance is not None and not tools:
            warnings.append("offers no tool: mark its functions with @tool, or give them in hermesd_tools")
        return PluginStatus(
            name=self.name,
            version=self.run.spec.version if self.run is not None else goal.version,
            origin=goal.origin,
            source=SOURCE,
            path=goal.path,
            standing=self.standing(),
            digest=instance.digest if instance is not None else "",
            found_digest=goal.found_digest,
            isolation=ISOLATION[self.run.where] if self.run is not None else "",
            generation=self.generation,
            tools=tuple(self.slice()),
            rejections=self.rejections,
            warnings=tuple(warnings),
            draining=draining,
            stray_threads=vitals.stray_threads if vitals is not None else 0,
            pid=vitals.pid if vitals is not None else 0,
            files=goal.files,
            permissions_json=canonical_json(goal.permissions),
            granted_json=canonical_json(self.run.granted if self.run is not None else {}),
        )

    def _overdue(self) -> Iterator[str]:
        """Of each tool that was announced to be gone by now."""
        today = self._clock.now().date()
        for name, parsed in self.instance.tools.items() if self.instance is not None else ():
            leaving = parsed.definition.deprecated
            if leaving is not None and leaving.is_overdue(today):
                yield f"{name}: {leaving}, and that day is over: take it out"


def identity_of(key: str, idle: Idle | None, found_digest: str) -> str:
    """The identity of a plugin whose instance has `key` ("": none), or that is `idle`."""
    shown = "" if idle is None else f"{idle.state} {idle.reason} {found_digest}"
    return f"{key}|{shown}"


#: The identity of a plugin that neither serves nor has a reason not to.
UNSERVED = identity_of("", None, "")
