"""A reloader over fakes: plans are set by hand, runtimes do what they are told, nothing touches a disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from hermesd.config.load import load_configuration
from hermesd.errors import Rejection
from hermesd.model.digest import digest_of
from hermesd.model.status import PluginStatus, ReloadReport, State
from hermesd.reload.drain import Drainer
from hermesd.reload.goal import Goal, Idle, Plan, Run
from hermesd.reload.preparation import Made, Preparer
from hermesd.reload.reloader import Reloader
from hermesd.runtimes.runtime import Runtime
from hermesd.serving.flight import Flights
from hermesd.serving.registry import Registry
from tests.core_doubles import ANYTHING, FakeRuntime, SetClock, raw_tool, spec

BASE = load_configuration(None, environ={}, overrides={})


class FakeReading:
    """Answers with the plan that the test set; a reading that waits shows who asked while it ran."""

    def __init__(self) -> None:
        self.goals: dict[str, Goal] = {}
        self.rejections: tuple[Rejection, ...] = ()
        self.configuration = BASE
        self.gate: asyncio.Event | None = None
        self.reads: list[bool] = []
        self.recorded: list[tuple[str, str]] = []
        self.in_use: set[str] = set()
        self.record_error: Exception | None = None

    async def read(self, *, patient: bool) -> Plan:
        plan = Plan(self.configuration, dict(sorted(self.goals.items())), self.rejections)
        self.reads.append(patient)
        if self.gate is not None:
            await self.gate.wait()
        return plan

    async def record(self, served: Iterable[Run], in_use: Iterable[str]) -> None:
        if self.record_error is not None:
            raise self.record_error
        self.recorded.extend((run.spec.name, run.spec.digest) for run in served)
        self.in_use = set(in_use)


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.made: list[str] = []
        self.gone: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.reports: list[tuple[str, ReloadReport]] = []

    def planned(self, plan: Plan) -> None:
        self.plans.append(plan)

    def committed(self, made: Mapping[str, Made], gone: Iterable[str]) -> None:
        self.made.extend(made)
        self.gone.extend(gone)

    def tell(self, kind: str, subject: str, message: str = "", /, **fields: object) -> object:
        self.told.append((kind, subject))
        return None

    def reloaded(self, report: ReloadReport, cause: str) -> None:
        self.reports.append((cause, report))


class World:
    """Plugins that exist as words: `put("a", "1")` is plugin a with content 1."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.clock = SetClock()
        self.reading = FakeReading()
        self.registry = Registry()
        self.flights = Flights()
        self.heard = Heard()
        self.history: list[str] = []
        self.runtimes: list[FakeRuntime] = []
        #: What to do to the runtimes of a plugin and content, by "name content" (see FakeRuntime).
        self.orders: dict[str, dict[str, Any]] = {}
        self.depends: dict[str, tuple[str, ...]] = {}
        self.reloader = Reloader(
            reading=self.reading,
            preparer=Preparer(self._make, self.clock),
            registry=self.registry,
            drainer=Drainer(tasks, self.flights, lambda: self.reading.configuration.server.drain_timeout_s),
            listener=self.heard,
            tasks=tasks,
            clock=self.clock,
        )

    def _make(self, run: Run) -> Runtime:
        name = run.spec.name
        raw = raw_tool(f"{name}.do_it", parameters=ANYTHING, depends_on=list(self.depends.get(name, ())))
        runtime = FakeRuntime(run.spec, (raw,), history=self.history)
        for key, value in self.orders.get(f"{name} {run.spec.digest}", {}).items():
            setattr(runtime, key, value)
        self.runtimes.append(runtime)
        return runtime

    def set(self, *, window_s: float = 60.0, drain_s: float = 60.0) -> None:
        """The bounds in force from the next pass on."""
        plugins = replace(BASE.plugins, commit_window_s=window_s)
        server = replace(BASE.server, drain_timeout_s=drain_s)
        digest = digest_of([window_s, drain_s])
        self.reading.configuration = replace(BASE, plugins=plugins, server=server, digest=digest)

    def run(self, name: str, content: str, *, exclusive: tuple[str, ...] = ()) -> Run:
        made = spec(name, content, prepare_timeout_s=5.0)
        return Run(made, "inprocess", f"{name} {content}", exclusive=exclusive)

    def put(
        self,
        name: str,
        content: str,
        *,
        exclusive: tuple[str, ...] = (),
        fallback: str = "",
        rejections: tuple[Rejection, ...] = (),
        **orders: Any,
    ) -> None:
        if orders:
            self.orders[f"{name} {content}"] = orders
        self.reading.goals[name] = Goal(
            name, "1.0.0", "folder", f"/plugins/{name}", f"/plugins/{name}",
            found_digest=content,
            run=self.run(name, content, exclusive=exclusive),
            fallback=self.run(name, fallback) if fallback else None,
            rejections=rejections,
        )  # fmt: skip

    def idle(self, name: str, reason: str = "not trusted") -> None:
        goal = Goal(name, "1.0.0", "folder", f"/plugins/{name}", f"/plugins/{name}", found_digest="x")
        self.reading.goals[name] = replace(goal, idle=Idle(State.UNAVAILABLE, reason, "trust it"))

    def unreadable(self, name: str) -> None:
        goal = Goal(name, "1.0.0", "folder", f"/plugins/{name}", f"/plugins/{name}")
        self.reading.goals[name] = replace(goal, rejections=(Rejection(name, "cannot be read", "mend it"),))

    def drop(self, name: str) -> None:
        del self.reading.goals[name]

    async def reload(self, **how: Any) -> ReloadReport:
        async with asyncio.timeout(20):
            return await self.reloader.reload(**how)

    def serving(self) -> dict[str, str]:
        """Which content answers for each plugin that serves."""
        return {
            entry.plugin: entry.instance.digest
            for entry in self.registry.catalogue.tools.values()
            if entry.instance is not None
        }

    def status(self, name: str) -> PluginStatus:
        return {each.name: each for each in self.reloader.plugins()}[name]

    def alive(self) -> list[str]:
        """What has been made and not been closed."""
        return sorted(f"{each.spec.name} {each.spec.digest}" for each in self.runtimes if not each.closed)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """A world whose end closes everything and shows that nothing was left or closed twice."""
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        made = World(tasks)
        made.set()
        yield made
        async with asyncio.timeout(20):
            await made.reloader.close()
    assert made.alive() == []
