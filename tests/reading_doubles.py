"""A reading of a real plugin directory into a real data dir; what stands on the disk is the only state."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml

from hermesd.clock import SystemClock
from hermesd.config.configuration import Configuration
from hermesd.config.load import load_configuration
from hermesd.reload.goal import Goal, Plan
from hermesd.reload.reading import SourceReading
from hermesd.sources.folder import FolderSource
from hermesd.sources.source import Source
from hermesd.store.content import ContentStore
from hermesd.store.grants import GrantStore
from hermesd.store.layout import DataDir
from hermesd.store.served import ServedStore

CODE = """
from hermesd.plugin import tool

@tool(side_effects="read", description="tells its version")
def tell_version() -> str:
    return {answer!r}
"""


class Site:
    """`plugins/`, `hermesd.yaml` and `data/` below one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plugins = path / "plugins"
        self.config = path / "hermesd.yaml"
        self.plugins.mkdir(mode=0o755)
        self.directory = DataDir(path / "data")
        self.directory.prepare()
        self.clock = SystemClock()
        self.unsettled: frozenset[str] = frozenset()
        self.configure()
        self.restart()

    def configure(
        self,
        *,
        secrets: dict[str, str] | None = None,
        defaults: dict[str, Any] | None = None,
        **plugins: Any,
    ) -> None:
        value = {
            "plugins": {"dirs": [str(self.plugins)], **plugins},
            "secrets": secrets or {},
            "defaults": defaults or {},
        }
        self.config.write_text(yaml.safe_dump(value, allow_unicode=True), encoding="utf-8")

    def follow(self, *names: str) -> None:
        self.configure(trusted={name: {"follow": True} for name in names})

    def restart(self) -> SourceReading:
        """Forget everything but the disk, as a fresh process does."""
        self.executor = ThreadPoolExecutor(1)
        self.contents = ContentStore(self.directory.plugins)
        self.grants = GrantStore(self.directory.grants, self.clock)
        self.served = ServedStore(self.directory.last_good, self.clock)
        self.reading = SourceReading(
            load=self._load,
            sources=self.sources,
            contents=self.contents,
            grants=self.grants,
            served=self.served,
            executor=self.executor,
            unsettled=self._unsettled,
            state_dir=self.directory.state / "plugins",
        )
        return self.reading

    def _load(self) -> Configuration:
        return load_configuration(self.config, environ={}, overrides={})

    def sources(self, configuration: Configuration) -> Sequence[Source]:
        return (FolderSource(configuration.plugins.dirs, excluded=[self.directory.root]),)

    async def _unsettled(self, _: bool) -> frozenset[str]:
        return self.unsettled

    def plugin(
        self,
        name: str,
        answer: str = "1",
        *,
        folder: str = "",
        code: str = "",
        manifest: str = "",
        **files: str,
    ) -> Path:
        """Write a folder plugin whose tool answers `answer`."""
        path = self.plugins / (folder or name)
        path.mkdir(mode=0o755, exist_ok=True)
        self.write(path / "main.py", dedent(code) or CODE.format(answer=answer))
        for stem, text in files.items():
            self.write(path / f"{stem}.py", dedent(text))
        head = f"name: {name}\nversion: 1.0.0\nentry: main.py\n"
        self.write(path / "plugin.yaml", head + dedent(manifest))
        return path

    @staticmethod
    def write(path: Path, text: str) -> None:
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o644)
        temporary.rename(path)

    def read(self) -> Plan:
        return self.reading.read_now(self.unsettled)

    def goal(self, name: str) -> Goal:
        return self.read().goals[name]

    def serve(self, *names: str) -> None:
        """Record what the goals of these plugins run, as a commit does."""
        plan = self.read()
        runs = [plan.goals[name].run for name in names]
        self.served.record([(run.spec.name, run.spec.digest, run.spec.version) for run in runs if run])

    def digest(self, name: str) -> str:
        return self.goal(name).found_digest

    def close(self) -> None:
        self.executor.shutdown()
