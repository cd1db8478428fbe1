"""What a reload would say, without a daemon: the same reading, preparing and parsing, and nothing touched.

Trusted code of folders is loaded in a worker process that is thrown away; untrusted code is only read.
What is copied on the way lies in a temporary folder; the data dir is read for trust, never written.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hermesd.clock import Clock, SystemClock, uuid7
from hermesd.config.configuration import Configuration, TrustEntry
from hermesd.config.effective import EffectiveValue
from hermesd.config.load import find_config, load_configuration
from hermesd.config.places import data_dir, plugin_dirs
from hermesd.errors import ConfigError, PluginError, Rejection
from hermesd.model.call import Caller, CallRequest, Code, Outcome, Result
from hermesd.model.definition import ToolDefinition
from hermesd.model.digest import canonical_json
from hermesd.model.lint import lint
from hermesd.model.outline import outline
from hermesd.model.status import PluginStatus, State
from hermesd.reload.goal import Goal, Idle, Plan, Run
from hermesd.reload.owner import Owner
from hermesd.reload.preparation import Preparation, Preparer
from hermesd.reload.reading import SourceReading
from hermesd.reload.start_fault import start_faults
from hermesd.runtimes.inprocess import InProcessRuntime
from hermesd.runtimes.runtime import Runtime
from hermesd.runtimes.worker import WorkerRuntime
from hermesd.serving.catalogue import Entry
from hermesd.serving.course import Course
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.instance import Instance
from hermesd.serving.policy import CallPolicy
from hermesd.serving.registry import Registry
from hermesd.sources.bundled import BundledSource
from hermesd.sources.entry_point import EntryPointSource
from hermesd.sources.folder import FolderSource
from hermesd.sources.source import Origin, Scan, Source
from hermesd.store.content import Content, ContentStore
from hermesd.store.grants import GrantStore
from hermesd.store.layout import DataDir
from hermesd.store.served import ServedStore
from hermesd.supervise.launcher import Launcher

OPERATOR = Caller("check", "operator")
EXAMPLE_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found. `ok` is False exactly when something would be rejected."""

    rejected: tuple[Rejection, ...] = ()
    warnings: tuple[Rejection, ...] = ()
    plugins: tuple[PluginStatus, ...] = ()
    config: tuple[EffectiveValue, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.rejected


async def check_configuration(
    path: Path | None, environ: Mapping[str, str], *, effective: bool = False
) -> CheckReport:
    """Check the configuration that `serve` would read, and every plugin that it would find."""
    try:
        configuration = _load(path, environ)
    except ConfigError as error:
        return CheckReport(rejected=error.rejections)
    directory = _directory(configuration, environ)
    excluded = [directory.root] if directory is not None else []
    sources = (
        BundledSource(),
        EntryPointSource(configuration.plugins.entry_points),
        FolderSource(configuration.plugins.dirs, excluded=excluded),
    )
    async with _workshop(configuration, directory, lambda _: sources) as workshop:
        report = await workshop.report(call=False)
    report = replace(report, warnings=(*report.warnings, *start_faults(configuration, directory)))
    if not effective:
        return report
    return replace(report, config=tuple(configuration.effective()))


async def check_plugin(
    path: Path, *, call: bool = False, trust: bool = False, environ: Mapping[str, str] | None = None
) -> CheckReport:
    """Check one folder or file as the daemon of this user would load it.

    `trust`: run its code though no operator trusts it here. `call`: run the examples of tools without
    side effects.
    """
    environ = os.environ if environ is None else environ
    try:
        configuration = _load(None, environ)
    except ConfigError as error:
        return CheckReport(rejected=error.rejections)
    directory = _directory(configuration, environ)
    async with _workshop(configuration, directory, lambda _: (_OneUnit(Path(path)),)) as workshop:
        report = await workshop.report(call=call, trust=trust, alone=True)
        return _alone(report, configuration)


def _alone(report: CheckReport, configuration: Configuration) -> CheckReport:
    """The report without what the configuration says of anything but this plugin: that is no fault of it."""
    plugins = configuration.plugins
    others = {*plugins.trusted, *plugins.untrusted, *plugins.settings} - {
        each.name for each in report.plugins
    }
    general = set(configuration.warnings)
    warnings = tuple(each for each in report.warnings if each.name not in others and each not in general)
    return replace(report, warnings=warnings)


def _as_found(goal: Goal) -> Goal:
    """The goal of what lies there: what serves in its place is not what an author asks about."""
    if goal.run is None or goal.awaiting is None:
        return goal
    return replace(goal, run=None, idle=Idle(State.UNAVAILABLE, *goal.awaiting))


def _not_what_was_found(plan: Plan) -> Iterable[Rejection]:
    """A notice for each plugin of which something else was examined than what lies there."""
    for name, goal in plan.goals.items():
        if goal.run is not None and goal.awaiting is not None:
            reason, remedy = goal.awaiting
            yield Rejection(name, f"what lies there was not examined: {reason}", remedy, goal.path)


class _OneUnit:
    """The source that holds what lies at one path, and nothing beside it."""

    def __init__(self, path: Path) -> None:
        self._path = Path(os.path.abspath(path))

    def scan(self) -> Scan:
        scan = FolderSource([self._path.parent]).scan()
        found = tuple(each for each in scan.found if each.path == self._path)
        faults = tuple(each for each in scan.faults if each.file.startswith(str(self._path)))
        if not found and not faults:
            reason = "is neither a folder with plugin.yaml nor a .py file"
            faults = (Rejection(self._path.name, reason, "hermesd plugin new NAME", str(self._path)),)
        return Scan(found=found, faults=faults, roots=scan.roots)


class _Overlay(ContentStore):
    """Takes new contents into a temporary folder; finds the daemon's own where they are."""

    def __init__(self, root: Path, below: ContentStore | None) -> None:
        super().__init__(root)
        self._below = below

    def get(self, digest: str) -> Content | None:
        found = super().get(digest)
        return found if found is not None or self._below is None else self._below.get(digest)


class _Workshop:
    """A reading, and workers that are thrown away."""

    def __init__(
        self, reading: SourceReading, launcher: Launcher, clock: Clock, configuration: Configuration
    ) -> None:
        self._reading = reading
        self._launcher = launcher
        self._clock = clock
        self._configuration = configuration
        self._lines: list[Rejection] = []

    async def report(self, *, call: bool, trust: bool = False, alone: bool = False) -> CheckReport:
        """`alone`: an author asks about one plugin, so that what trust would bring to light is rejected."""
        plan = await self._reading.read(patient=False)
        if trust:
            plan = await self._trusting(plan)
        elif alone:
            plan = replace(plan, goals={name: _as_found(goal) for name, goal in plan.goals.items()})
        preparer = Preparer(self._runtime, self._clock)
        preparations = {
            name: Preparation(goal, goal.run) for name, goal in plan.goals.items() if goal.run is not None
        }
        outcomes = await asyncio.gather(
            *(
                # The bundled plugins are ours: their start touches nothing but the scratch folder, and
                # tells whether they can work as they are configured.
                preparer.prepare(each, each.run, {}, rehearse=not call and each.goal.origin != Origin.BUNDLED)
                for each in preparations.values()
            ),
            return_exceptions=True,
        )
        made = dict(zip(preparations, outcomes, strict=True))
        owners = []
        rejected = list(plan.rejections)
        warnings = [*plan.notices, *_not_what_was_found(plan)]
        for name, goal in plan.goals.items():
            owner = Owner(name, goal, self._clock)
            outcome = made.get(name)
            if isinstance(outcome, Instance) and goal.run is not None:
                owner.arrived(outcome, goal.run, ())
                warnings.extend(self._lints(outcome, goal))
            elif outcome is not None and goal.run is not None:
                owner.arrived(None, goal.run, goal.located(_rejections(name, outcome)))
            else:
                found, faults = self._unrun(goal)
                warnings.extend(found)
                (rejected if alone else warnings).extend(faults)
            rejected.extend(owner.rejections)
            owners.append(owner)
        instances = [each for each in made.values() if isinstance(each, Instance)]
        if call:
            rejected.extend(await self._examples(instances))
        plugins = tuple(owner.status(0) for owner in owners)
        for instance in instances:
            await instance.runtime.close()
        # What a worker says of its own failure stands in the rejection, with its place.
        lines = [said for said in self._lines if not any(each.reason in said.reason for each in rejected)]
        return CheckReport(tuple(rejected), (*warnings, *lines), plugins)

    async def _trusting(self, plan: Plan) -> Plan:
        """The plan as it would be if each folder were trusted as it is, in a process of its own."""
        trusted = {
            name: TrustEntry(digest=goal.found_digest, isolation="process")
            for name, goal in plan.goals.items()
            if goal.origin in (Origin.FOLDER, Origin.FILE) and goal.found_digest
        }
        plugins = replace(self._configuration.plugins, trusted=trusted, untrusted={})
        configuration = replace(self._configuration, plugins=plugins)
        self._reading.load = lambda: configuration
        return await self._reading.read(patient=False)

    def _runtime(self, run: Run) -> Runtime:
        if run.spec.entry.endswith(".py"):
            return WorkerRuntime(run.spec, self._launcher, self._clock, self._heard)
        # This process is thrown away too.
        return InProcessRuntime(run.spec, on_log=lambda *_: None, on_change=lambda: None)

    def _heard(self, *, plugin: str, level: str, message: str, **_: object) -> None:
        if level in ("warning", "error", "critical"):
            self._lines.append(Rejection(plugin, f"it said: {message}"))

    def _lints(self, instance: Instance, goal: Goal) -> Iterable[Rejection]:
        budget = self._configuration.defaults.description_chars.warn
        if goal.origin == Origin.BUNDLED:
            return
        for parsed in instance.tools.values():
            yield from lint(parsed.definition, description_chars=budget, file=goal.path)
        for name, unmet in instance.unmet.items():
            yield Rejection(name, f"tool {name!r} cannot work here: {unmet.reason}", unmet.remedy, goal.path)

    def _unrun(self, goal: Goal) -> tuple[Sequence[Rejection], Sequence[Rejection]]:
        """What can be said of a plugin whose code does not run here: (warnings, faults of the code)."""
        if goal.idle is None:
            return (), ()
        said = [Rejection(goal.name, f"was not run: {goal.idle.reason}", goal.idle.remedy, goal.path)]
        budget = self._configuration.defaults.description_chars.warn
        for definition in goal.idle.tools:
            said.extend(lint(definition, description_chars=budget, file=goal.path))
        content = self._reading.content_of(goal)
        if content is None or goal.idle.tools:
            return said, ()
        names = [each.path for each in content.files if each.path.endswith(".py")]
        read = outline({name: (content.root / name).read_bytes() for name in names}, goal.name, goal.version)
        for each in read.tools:
            lints = lint(each.definition, description_chars=budget, file=each.file, line=each.line)
            said.extend(goal.located(lints))
        return said, goal.located(read.faults)

    async def _examples(self, instances: Sequence[Instance]) -> list[Rejection]:
        """Run the examples of tools without side effects through the dispatcher, as a caller would."""
        registry = Registry()
        now = self._clock.now()
        registry.commit(
            {
                each.plugin: {
                    name: Entry(
                        parsed.definition,
                        each.plugin,
                        "python",
                        now,
                        parsed.schema,
                        each,
                        corrections=parsed.corrections,
                        returns=parsed.returns,
                    )
                    for name, parsed in each.tools.items()
                }
                for each in instances
            }
        )
        dispatcher = Dispatcher(registry, Flights(), CallPolicy(), _Silence(), self._clock)
        failures = []
        for instance in instances:
            for parsed in instance.tools.values():
                failures.extend(await self._run_examples(dispatcher, instance, parsed.definition))
        return failures

    async def _run_examples(
        self, dispatcher: Dispatcher, instance: Instance, definition: ToolDefinition
    ) -> list[Rejection]:
        if definition.side_effects not in ("none", "read") or definition.confirmation != "none":
            return []
        if definition.name in instance.unmet:
            return []
        failures = []
        for index, example in enumerate(definition.examples):
            result = await dispatcher.call(
                CallRequest(
                    tool=definition.name,
                    arguments_json=canonical_json(example.arguments),
                    request_id=uuid7(self._clock),
                    caller=OPERATOR,
                    timeout_ms=EXAMPLE_TIMEOUT_MS,
                )
            )
            if result.code is not Code.OK:
                reason = f"example {index} of {definition.name} answers {result.code}: {result.message}"
                failures.append(Rejection(instance.plugin, reason, "fix the example or the tool"))
        return failures


class _Silence:
    """Nobody listens to the calls of a check."""

    def started(self, entry: Entry) -> None: ...

    def finished(self, course: Course, result: Result) -> None: ...

    def logged(self, entry: Entry, request: CallRequest, attempt: int, line: dict[str, object]) -> None: ...

    def failed(self, request: CallRequest, error: BaseException) -> None: ...

    def retried(self, course: Course, outcome: Outcome, wait_s: float) -> None: ...


@asynccontextmanager
async def _workshop(
    configuration: Configuration,
    directory: DataDir | None,
    sources: Callable[[Configuration], Sequence[Source]],
) -> AsyncIterator[_Workshop]:
    clock = SystemClock()
    launcher = Launcher.start()
    with tempfile.TemporaryDirectory(prefix="hermesd-check-") as scratch, ThreadPoolExecutor(1) as executor:
        below = directory if directory is not None and os.access(directory.plugins, os.R_OK) else None
        empty = DataDir(Path(scratch) / "data")
        present = below or empty
        reading = SourceReading(
            load=lambda: configuration,
            sources=sources,
            contents=_Overlay(empty.plugins, ContentStore(below.plugins) if below is not None else None),
            grants=GrantStore(present.grants, clock),
            served=ServedStore(present.last_good, clock),
            executor=executor,
            unsettled=_nothing_unsettled,
            state_dir=Path(scratch) / "state",
        )
        try:
            yield _Workshop(reading, launcher, clock, configuration)
        finally:
            await launcher.stop()


async def _nothing_unsettled(_: bool) -> frozenset[str]:
    return frozenset()


def _load(path: Path | None, environ: Mapping[str, str]) -> Configuration:
    found = find_config(path, environ, os.geteuid() == 0)
    dirs = list(plugin_dirs(path, environ, os.geteuid() == 0))
    return load_configuration(found, environ=environ, defaults={"plugins.dirs": dirs})


def _directory(configuration: Configuration, environ: Mapping[str, str]) -> DataDir | None:
    found = configuration.data_dir or data_dir(environ, os.geteuid() == 0)
    return DataDir(found) if found is not None else None


def _rejections(name: str, outcome: object) -> Sequence[Rejection]:
    if isinstance(outcome, PluginError):
        return outcome.rejections
    return (Rejection(name, f"could not be prepared: {type(outcome).__name__}: {outcome}"),)
