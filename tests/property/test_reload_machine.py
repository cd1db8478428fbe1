"""Any history of edits, decisions, reloads and crashes: the daemon's plugins stay what they should be.

A real plugin directory, the real reading and stores, real in-process runtimes. Beside them a naive model
says which content must serve. Rules write as operators and editors do; every reload is checked against
the model, and a restart on the same disk must come to the very state that was there before.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hermesd.errors import NotFoundError
from hermesd.model.call import Caller, CallRequest, Code
from hermesd.model.status import ReloadReport, State
from hermesd.reload.drain import Drainer
from hermesd.reload.goal import Plan, Run
from hermesd.reload.preparation import Made, Preparer
from hermesd.reload.reloader import Reloader
from hermesd.runtimes.inprocess import InProcessRuntime
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.instance import Instance
from hermesd.serving.policy import CallPolicy
from hermesd.serving.registry import Registry
from tests.core_doubles import Told
from tests.reading_doubles import Site

FOLDERS = ("fa", "fb", "fc")
OPERATOR = Caller("operator", "operator")
GOOD = """
from hermesd.plugin import tool

@tool(side_effects="read", description="tells its version")
def tell_version() -> str:
    from .helpers import VERSION
    return VERSION
"""
BROKEN = {
    "syntax": "def broken(:\n",
    "import": "1 / 0\n",
    "startup": GOOD + "\n\ndef hermesd_startup():\n    raise ValueError('no')\n",
    "schema": GOOD + "\n\n@tool\ndef other(a: object.__class__): ...\n",
}


class Quiet:
    """Nobody listens to the passes."""

    def planned(self, plan: Plan) -> None: ...

    def committed(self, made: Mapping[str, Made], gone: Iterable[str]) -> None: ...

    def tell(self, kind: str, subject: str, message: str = "", /, **fields: object) -> object: ...

    def reloaded(self, report: ReloadReport, cause: str) -> None: ...


def loaded_packages() -> set[str]:
    """The contents of plugins whose modules are loaded in this process."""
    return {each.split(".")[1] for each in sys.modules if each.startswith("hermesd_plugins.")}


class Life:
    """One life of the daemon's core on a site, from the first pass to the end."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.registry = Registry()
        self.runtimes: list[InProcessRuntime] = []
        self._ready = asyncio.Event()
        self._end = asyncio.Event()
        self.reloader: Reloader
        self.dispatcher: Dispatcher
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._live())
        await self._ready.wait()
        await self.reloader.reload(cause="start")

    async def stop(self) -> None:
        assert self._task is not None
        self._end.set()
        await self._task
        assert all(each._closed for each in self.runtimes)

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            flights = Flights()
            self.dispatcher = Dispatcher(self.registry, flights, CallPolicy(), Told(), self.site.clock)
            self.reloader = Reloader(
                reading=self.site.restart(),
                preparer=Preparer(self._make, self.site.clock),
                registry=self.registry,
                drainer=Drainer(tasks, flights, lambda: 5.0),
                listener=Quiet(),
                tasks=tasks,
                clock=self.site.clock,
            )
            self._ready.set()
            await self._end.wait()
            await self.reloader.close()
        self.site.close()

    def _make(self, run: Run) -> InProcessRuntime:
        runtime = InProcessRuntime(run.spec, on_log=lambda *_: None, on_change=lambda: None)
        self.runtimes.append(runtime)
        return runtime

    def instances(self) -> dict[str, Instance]:
        return {
            entry.plugin: entry.instance
            for entry in self.registry.catalogue.tools.values()
            if entry.instance is not None
        }


@dataclass
class Folder:
    """What lies in one folder: the plugin's name, what its helper says, and what is broken."""

    name: str
    version: int = 0
    broken: str = ""

    @property
    def is_readable(self) -> bool:
        return self.broken not in ("manifest", "no manifest")

    @property
    def content(self) -> tuple[str, int, str]:
        return (self.name, self.version, self.broken)


@dataclass
class Model:
    """The naive account: what is on the disk, what was decided, and what last served."""

    folders: dict[str, Folder] = field(default_factory=dict)
    #: By plugin name: "follow", or the content that is trusted.
    trusted: dict[str, str | tuple[str, int, str]] = field(default_factory=dict)
    disabled: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)
    config_broken: bool = False
    #: By plugin name: (content, settings) that served last.
    last_good: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    #: By folder: the name it served as.
    served_as: dict[str, str] = field(default_factory=dict)

    def name_of(self, folder: str) -> str:
        """The name that a reading gives to what the folder holds now; "" for nothing to speak of."""
        held = self.folders[folder]
        if held.is_readable:
            return held.name
        return self.served_as.get(folder) or folder

    def wanted(self, folder: str) -> tuple[str, int, str] | None:
        """The content that must serve for this folder, or None."""
        held, name = self.folders[folder], self.name_of(folder)
        trust = self.trusted.get(name)
        if trust is None or name in self.disabled:
            return None
        if trust != "follow":
            assert not isinstance(trust, str)
            return trust
        if held.is_readable and not held.broken:
            return held.content
        return self.last_good.get(name)


class ReloadMachine(RuleBasedStateMachine):
    """Rules change the disk or the operator's mind, or reload; invariants hold after each."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="hm-"))
        # Nothing here loses power, and each flush would wait for whatever else uses the disk.
        self._fsync, os.fsync = os.fsync, lambda _: None
        self.loop = asyncio.new_event_loop()
        # What other tests loaded and left behind is not this machine's.
        self.foreign = loaded_packages()
        self.site = Site(self.path)
        self.model = Model()
        self.life = Life(self.site)
        #: Digests by content, as the content store names them.
        self.digests: dict[tuple[str, int, str], str] = {}
        #: Nothing has changed since the last full pass.
        self.settled = False

    def run_async(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(30):
                return await work

        return self.loop.run_until_complete(bounded())

    @initialize()
    def start(self) -> None:
        self.configure()
        for folder in FOLDERS:
            self.write(folder, 1, "", False)
            self.model.trusted[f"p{folder}"] = "follow"
        self.configure()
        self.run_async(self.life.start())
        self.reload("rpc", atomic=False)

    def teardown(self) -> None:
        self.run_async(self.life.stop())
        self.loop.close()
        os.fsync = self._fsync
        assert loaded_packages() == self.foreign
        for each in self.path.rglob("*"):
            if each.is_dir() and not each.is_symlink():
                each.chmod(0o755)
        shutil.rmtree(self.path)

    # What operators and editors do

    @rule(
        folder=st.sampled_from(FOLDERS),
        version=st.integers(1, 3),
        broken=st.sampled_from(["", "", "", *BROKEN, "manifest", "no manifest"]),
        renamed=st.sampled_from([False, False, False, True]),
    )
    def write(self, folder: str, version: int, broken: str, renamed: bool) -> None:
        held = self.model.folders.get(folder)
        name = held.name if held is not None else f"p{folder}"
        if renamed:
            name = f"q{folder}" if name.startswith("p") else f"p{folder}"
        new = Folder(name, version, broken)
        self.model.folders[folder] = new
        path = self.site.plugin(
            name, folder=folder, code=BROKEN.get(broken, GOOD), helpers=f"VERSION = 'v{version}'\n"
        )
        if broken == "manifest":
            self.site.write(path / "plugin.yaml", "name: [\n")
        elif broken == "no manifest":
            (path / "plugin.yaml").unlink()
        self.settled = False

    @rule(folder=st.sampled_from(FOLDERS))
    def edit_only_the_helper(self, folder: str) -> None:
        """In place, within the same second and of the same size."""
        held = self.model.folders.get(folder)
        if held is None:
            return
        held.version = held.version % 3 + 1
        helper = self.site.plugins / folder / "helpers.py"
        with helper.open("r+") as file:
            file.write(f"VERSION = 'v{held.version}'\n")
        self.settled = False

    @rule(folder=st.sampled_from(FOLDERS))
    def remove(self, folder: str) -> None:
        if self.model.folders.pop(folder, None) is not None:
            shutil.rmtree(self.site.plugins / folder)
            self.settled = False

    @rule(folder=st.sampled_from(FOLDERS), how=st.sampled_from(["follow", "pin", "pin", "nobody"]))
    def decide(self, folder: str, how: str) -> None:
        if folder not in self.model.folders or self.model.config_broken:
            return
        held, name = self.model.folders[folder], self.model.name_of(folder)
        if how == "nobody":
            self.model.trusted.pop(name, None)
        elif how == "follow":
            self.model.trusted[name] = "follow"
        elif held.is_readable and not held.broken:
            # What is pinned must be known to the store, as `plugins trust` sees to.
            self.digests[held.content] = self.site.contents.add(self.site.plugins / folder).digest
            self.model.trusted[name] = held.content
        self.configure()
        self.settled = False

    @rule(folder=st.sampled_from(FOLDERS), on=st.booleans())
    def switch(self, folder: str, on: bool) -> None:
        if folder not in self.model.folders:
            return
        name = self.model.name_of(folder)
        self.site.grants.set_plugin(name, enabled=on, by="operator")
        (self.model.disabled.discard if on else self.model.disabled.add)(name)
        self.settled = False

    @rule(folder=st.sampled_from(FOLDERS), number=st.integers(1, 2))
    def set_something(self, folder: str, number: int) -> None:
        if folder in self.model.folders and not self.model.config_broken:
            self.model.numbers[self.model.name_of(folder)] = number
            self.configure()
            self.settled = False

    @rule(broken=st.booleans())
    def break_or_mend_the_configuration(self, broken: bool) -> None:
        self.model.config_broken = broken
        if broken:
            self.site.config.write_text("plugins: [\n")
        else:
            self.configure()
        self.settled = False

    def configure(self) -> None:
        trusted: dict[str, Any] = {
            name: {"follow": True} if isinstance(each, str) else {"digest": self.digests[each]}
            for name, each in self.model.trusted.items()
        }
        numbers = {name: {"number": number} for name, number in self.model.numbers.items()}
        self.site.configure(trusted=trusted, settings=numbers, kept_contents=50)

    # Reloads

    @rule(cause=st.sampled_from(["rpc", "signal", "watch"]), atomic=st.sampled_from([False, False, True]))
    def reload(self, cause: str, atomic: bool) -> None:
        before, instances = self.snapshot(), self.life.instances()
        report = self.run_async(self.life.reloader.reload(cause=cause, atomic=atomic))
        if atomic and report.rejected:
            assert self.snapshot() == before, "all or nothing"
            assert (report.added, report.changed, report.removed) == ((), (), ())
            return
        self.settled = True
        self.check_diff(before, report)
        self.check_serving(report)
        self.check_identity(instances)

    @rule()
    def rehearse(self) -> None:
        before, instances = self.snapshot(), self.life.instances()
        made = len(self.life.runtimes)
        report = self.run_async(self.life.reloader.reload(dry_run=True))
        assert self.snapshot() == before, "a dry run changes nothing"
        assert self.life.instances() == instances
        assert all(each._closed for each in self.life.runtimes[made:])
        assert report.dry_run

    @rule(folder=st.sampled_from(FOLDERS))
    def reload_one(self, folder: str) -> None:
        name = self.model.name_of(folder) if folder in self.model.folders else f"p{folder}"
        before = self.snapshot()
        try:
            self.run_async(self.life.reloader.reload(name=name))
        except NotFoundError:
            assert self.snapshot() == before
        after = self.snapshot()
        for other in before.keys() | after.keys():
            if other != name:
                assert before.get(other) == after.get(other), "only what was named"
        # By its answer: the model may not have met this content yet.
        self.note_by_answer()
        self.settled = False

    @precondition(lambda self: not self.model.config_broken)
    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        """I7: after a full pass, a fresh process on the same disk comes to the same state."""
        if not self.settled:
            self.reload("rpc", atomic=False)
        before, revision = self.snapshot(), self.life.reloader.revision
        rejected = self.rejected()
        self.run_async(self.life.stop())
        if crash:  # what a killed process leaves: a half-made copy and a temporary file
            (self.site.directory.plugins / ".staging-left").mkdir(exist_ok=True)
        self.life = Life(self.site)
        self.run_async(self.life.start())
        assert self.snapshot() == before
        assert self.rejected() == rejected
        assert self.life.reloader.revision == revision

    # What must be so

    def snapshot(self) -> dict[str, tuple[object, ...]]:
        """What callers and operators see of each plugin, but for times and counts.

        The tools of one that rests are known only to the process in which it served.
        """
        tools = self.life.registry.catalogue.tools
        return {
            each.name: (
                each.standing.state,
                each.standing.reason if each.standing.state is not State.DEGRADED else "",
                each.digest,
                each.isolation,
                tuple((tool, str(tools[tool].standing().state)) for tool in each.tools if each.digest),
            )
            for each in self.life.reloader.plugins()
        }

    def rejected(self) -> set[str]:
        return {f"{each.name} {each.reason}" for each in self.life.reloader.rejections()}

    def note_serving(self) -> None:
        serving = self.life.instances()
        known = {digest: content for content, digest in self.digests.items()}
        for folder in self.model.folders:
            name = self.model.name_of(folder)
            if name in serving and serving[name].digest in known:
                self.model.last_good[name] = known[serving[name].digest]
                self.model.served_as[folder] = name

    def check_serving(self, report: ReloadReport) -> None:
        if self.model.config_broken:
            assert [each for each in report.rejected if each.file == str(self.site.config)]
            self.note_by_answer()
            return
        serving = self.life.instances()
        expected = {}
        for folder in self.model.folders:
            wanted = self.model.wanted(folder)
            if wanted is not None:
                expected[self.model.name_of(folder)] = wanted
        assert serving.keys() == expected.keys()
        for name, content in expected.items():
            assert self.answer(name) == f"v{content[1]}"
            assert self.digests.setdefault(content, serving[name].digest) == serving[name].digest
        self.note_serving()
        self.check_nothing_is_absent(report)

    def note_by_answer(self) -> None:
        """Learn from the answers what serves now, where the model does not say it beforehand."""
        for name, instance in self.life.instances().items():
            folder = next((each for each in self.model.folders if self.model.name_of(each) == name), None)
            if folder is None:
                continue
            version = int(self.answer(name)[1:])
            content = (name, version, "")
            self.digests.setdefault(content, instance.digest)
        self.note_serving()

    def check_nothing_is_absent(self, report: ReloadReport) -> None:
        """I14: whatever lies in the directory has a state with a reason, or a rejection that names it."""
        listed = {each.name: each for each in self.life.reloader.plugins()}
        for folder, held in self.model.folders.items():
            status = listed.get(self.model.name_of(folder))
            if status is None:
                assert [each for each in report.rejected if folder in each.file], folder
                continue
            assert status.standing.state is State.READY or status.standing.reason
            if held.broken in ("manifest", "no manifest"):
                assert [each for each in report.rejected if folder in each.file]

    def check_diff(self, before: Mapping[str, object], report: ReloadReport) -> None:
        after = self.snapshot()
        assert not report.pending
        assert set(report.removed) == before.keys() - after.keys()
        assert set(report.added) <= after.keys() - before.keys()
        assert set(report.kept) | set(report.changed) == before.keys() & after.keys()
        assert report.generation == self.life.registry.catalogue.generation

    def check_identity(self, before: Mapping[str, Instance]) -> None:
        """I3: equal key, same object."""
        for name, instance in self.life.instances().items():
            if name in before and before[name].key == instance.key:
                assert before[name] is instance

    def answer(self, name: str) -> str:
        request = CallRequest(f"{name}.tell_version", "{}", "r", OPERATOR)
        result = self.run_async(self.life.dispatcher.call(request))
        assert result.code is Code.OK, result
        told: str = json.loads(result.data_json)
        return told

    @invariant()
    def only_what_serves_is_alive(self) -> None:
        """I5: what failed, was rehearsed or was replaced has left nothing."""
        if not hasattr(self.life, "reloader"):
            return
        alive = [each for each in self.life.runtimes if not each._closed]
        assert set(map(id, alive)) == {id(each.runtime) for each in self.life.instances().values()}
        packages = loaded_packages() - self.foreign
        assert len(packages) == len({each.digest for each in self.life.instances().values()})


ReloadMachine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.promise("CORE-1")
class TestReloadMachine(ReloadMachine.TestCase):  # type: ignore[misc] # made by Hypothesis
    """The machine, as a test."""
