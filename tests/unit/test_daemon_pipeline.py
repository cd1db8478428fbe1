"""The parts that answer calls, before anything runs and while the disk is in the way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermesd.clock import SystemClock
from hermesd.config.load import load_configuration
from hermesd.daemon.pipeline import Pipeline
from hermesd.store.layout import DataDir
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.metric import Metrics
from hermesd.telemetry.plugin_log import PluginLog
from tests.core_doubles import settle


class Made:
    """A pipeline below `root`; `told` are the kinds of events so far."""

    def __init__(self, root: Path) -> None:
        clock = SystemClock()
        self.layout = DataDir(root)
        self.layout.prepare()
        self.events = EventLog(clock)
        self.configuration = load_configuration(None, environ={}, overrides={})
        self.pipeline = Pipeline(
            configuration=lambda: self.configuration,
            directory=self.layout,
            log_dir=self.layout.logs,
            plugin_log=PluginLog(self.layout.logs, clock=clock, dropped=lambda count: None),
            events=self.events,
            metrics=Metrics(),
            clock=clock,
        )

    @property
    def told(self) -> list[str]:
        return [each.kind for each in self.events.recent(100)]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "data")


async def test_making_it_opens_no_file_and_begins_no_task(made: Made) -> None:
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not any(each.is_file() for each in made.layout.store.rglob("*"))
    assert not list(made.layout.logs.iterdir())
    assert (made.pipeline.faults(), made.told) == ([], [])


async def test_outputs_that_cannot_be_opened_are_told_and_calls_go_on(made: Made) -> None:
    if made.layout.output.exists():
        made.layout.output.rmdir()
    made.layout.output.write_text("in the way")
    async with asyncio.TaskGroup() as tasks:
        detached = await made.pipeline.recover_detached(tasks)
    assert len(detached) == 0
    assert made.told == ["outputs_lost"]
