"""Fixtures of tests with real child processes."""

import asyncio

import pytest

from hermesd.clock import SystemClock
from hermesd.runtimes.worker import WorkerRuntime
from hermesd.supervise.launcher import Launcher
from tests.worker_plugin import PLUGIN, Lines, spec_of


@pytest.fixture
async def launcher():
    started = Launcher.start()
    yield started
    await started.stop()


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "插件 demo"
    root.mkdir()
    (root / "demo.py").write_text(PLUGIN)
    (root / "helper.py").write_text("def word():\n    return '帮手'\n")
    return root


@pytest.fixture
async def made(launcher, folder):
    """Makes ready runtimes, and closes them."""
    runtimes = []

    async def make(root=folder, **changes):
        lines = Lines()
        runtime = WorkerRuntime(spec_of(root, **changes), launcher, SystemClock(), lines)
        runtime.lines = lines
        runtimes.append(runtime)
        runtime.prepared = await runtime.prepare()
        await runtime.ready()
        return runtime

    yield make
    for runtime in runtimes:
        await runtime.close()
    async with asyncio.timeout(5):
        while launcher.children():
            await asyncio.sleep(0.01)
