"""What should be: one goal for each plugin, made by reading, reached by a pass."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from hermesd.config.configuration import Configuration, DescriptionChars
from hermesd.errors import Rejection
from hermesd.model.definition import ToolDefinition
from hermesd.model.digest import digest_of
from hermesd.model.status import State
from hermesd.runtimes.spec import PluginSpec
from hermesd.sources.source import Origin

Where = Literal["inprocess", "worker"]


@dataclass(frozen=True, slots=True)
class Run:
    """Content that may run, and where. Two runs with equal `key` are the same instance.

    `granted` is what it may do, in the shape of a manifest's permissions; `calls` are the globs among it of
    tools. `exclusive` names what two instances cannot hold at once.
    """

    spec: PluginSpec
    where: Where
    key: str
    calls: tuple[str, ...] = ()
    exclusive: tuple[str, ...] = ()
    description_chars: DescriptionChars = field(default_factory=DescriptionChars)
    granted: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Idle:
    """Why a plugin that was found does not run, and what the operator can do."""

    state: State
    reason: str
    remedy: str
    tools: tuple[ToolDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class Goal:
    """One plugin as it should be.

    With `run`, that serves; `fallback` is the last content that did, for a run that fails where nothing
    serves yet. With `idle`, it is listed and does not run. With neither, its source cannot be read: what
    serves goes on serving. `rejections` are the faults of what was found, if they are not those of `run`.
    """

    name: str
    version: str
    origin: str
    path: str
    unit: str
    found_digest: str = ""
    run: Run | None = None
    fallback: Run | None = None
    idle: Idle | None = None
    rejections: tuple[Rejection, ...] = ()
    #: (reason, remedy) when what serves is not what was found.
    awaiting: tuple[str, str] | None = None
    #: (reason, remedy) when others can write to where it lies; then what lies there cannot be trusted.
    unsafe: tuple[str, str] | None = None
    files: tuple[str, ...] = ()
    permissions: Mapping[str, object] = field(default_factory=dict)

    def located(self, rejections: Iterable[Rejection]) -> tuple[Rejection, ...]:
        """The same, by the plugin's name (not a tool's), with the operator's own path of each file."""
        folder = os.path.dirname(self.path) if self.origin == Origin.FILE else self.path
        return tuple(
            replace(each, name=self.name, file=os.path.join(folder, each.file) if each.file else "")
            for each in rejections
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of one reading: a goal for each plugin, and what could not become one."""

    configuration: Configuration
    goals: Mapping[str, Goal]
    rejections: tuple[Rejection, ...] = ()
    notices: tuple[Rejection, ...] = ()

    @property
    def revision(self) -> str:
        """The digest of the configuration and of every goal: the If-Match of a reload."""
        return digest_of(
            {
                "configuration": self.configuration.digest,
                "goals": {name: _mark(goal) for name, goal in self.goals.items()},
            }
        )

    def waiting(self) -> tuple[Rejection, ...]:
        """A notice for each plugin whose content waits for the operator, with what lets it run."""
        found = []
        for name, goal in self.goals.items():
            if goal.awaiting is not None:
                found.append(Rejection(name, *goal.awaiting))
            elif (
                goal.idle is not None
                and goal.idle.state is State.UNAVAILABLE
                and goal.origin != "entry_point"
            ):
                found.append(Rejection(name, goal.idle.reason, goal.idle.remedy))
        return tuple(found)

    def only(self, name: str, previous: Plan) -> Plan:
        """The previous plan, with the goal of `name` from this one."""
        goals = {each: goal for each, goal in previous.goals.items() if each != name}
        if name in self.goals:
            goals[name] = self.goals[name]
        return replace(previous, goals=goals)


def _mark(goal: Goal) -> str:
    return f"{goal.run.key if goal.run else ''} {goal.found_digest} {goal.idle.state if goal.idle else ''}"
