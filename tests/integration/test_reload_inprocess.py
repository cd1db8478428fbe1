"""Real plugins on disk and a real daemon core in this process: swaps under load lose nothing."""

from __future__ import annotations

import asyncio
import collections
import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermesd.clock import SystemClock, uuid7
from hermesd.model.call import Caller, CallRequest, Code, Result
from hermesd.model.status import ReloadReport
from hermesd.reload.drain import MAX_DRAINING, Drainer
from hermesd.reload.goal import Run
from hermesd.reload.preparation import Preparer
from hermesd.reload.reloader import Reloader
from hermesd.runtimes.inprocess import InProcessRuntime
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.policy import CallPolicy
from hermesd.serving.registry import Registry
from tests.core_doubles import Told
from tests.reading_doubles import Site
from tests.reload_doubles import Heard

OPERATOR = Caller("operator", "operator")
WAIT_S = 20.0


class Core:
    """Reading, reloader and dispatcher over a Site, as the daemon wires them."""

    def __init__(self, site: Site, tasks: asyncio.TaskGroup, drain_s: float) -> None:
        self.site = site
        self.registry = Registry()
        self.flights = Flights()
        self.told = Told()
        self.runtimes: list[InProcessRuntime] = []
        self.dispatcher = Dispatcher(
            self.registry, self.flights, CallPolicy(max_concurrency=64), self.told, site.clock
        )
        self.reloader = Reloader(
            reading=site.reading,
            preparer=Preparer(self._make, site.clock),
            registry=self.registry,
            drainer=Drainer(tasks, self.flights, lambda: drain_s),
            listener=Heard(),
            tasks=tasks,
            clock=site.clock,
        )

    def _make(self, run: Run) -> InProcessRuntime:
        runtime = InProcessRuntime(run.spec, on_log=lambda *_: None, on_change=lambda: None)
        self.runtimes.append(runtime)
        return runtime

    async def reload(self, **how: Any) -> ReloadReport:
        async with asyncio.timeout(WAIT_S):
            return await self.reloader.reload(**how)

    async def call(self, tool: str, **arguments: object) -> Result:
        request_id = uuid7(SystemClock())
        request = CallRequest(tool, json.dumps(arguments), request_id, OPERATOR, timeout_ms=20_000)
        return await self.dispatcher.call(request)

    async def answer(self, tool: str, **arguments: object) -> Any:
        result = await self.call(tool, **arguments)
        assert result.code is Code.OK, result
        return json.loads(result.data_json)


@asynccontextmanager
async def core(path: Path, drain_s: float = 30.0) -> AsyncIterator[Core]:
    site = Site(path)
    async with asyncio.TaskGroup() as tasks:
        made = Core(site, tasks, drain_s)
        yield made
        await made.reloader.close()
    assert all(each._closed for each in made.runtimes)
    site.close()
    async with asyncio.timeout(WAIT_S):
        while [each for each in threading.enumerate() if each.name.startswith("plugin-")]:
            await asyncio.sleep(0.01)


VERSIONED = """
import time
from hermesd.plugin import tool, ToolContext

VERSION = {version!r}

@tool(side_effects="read", description="d")
def tell() -> list:
    from .helpers import VERSION as HELPER
    return [VERSION, HELPER]

@tool(side_effects="read", description="d")
async def tell_async() -> list:
    from .helpers import VERSION as HELPER
    return [VERSION, HELPER]

@tool(side_effects="read", description="d")
def wait(ctx: ToolContext) -> bool:
    return ctx.cancelled.wait(30)

@tool(side_effects="read", description="d")
def late(ctx: ToolContext) -> list:
    (ctx.state_dir.parent.parent / "begun").touch()
    while not (ctx.state_dir.parent.parent / "go").exists():
        time.sleep(0.002)
    from .helpers import VERSION as HELPER
    return [VERSION, HELPER]
"""


def write(c: Core, version: str) -> None:
    c.site.plugin("orders", code=VERSIONED.format(version=version), helpers=f"VERSION = {version!r}\n")


async def test_sixty_quick_reloads_with_a_stuck_call_in_each_drain_at_most_three(tmp_path: Path) -> None:
    """haproxy#155, #1876: old generations neither linger nor pile up."""
    async with core(tmp_path) as c:
        c.site.follow("orders")
        write(c, "0")
        await c.reload()
        calls = []
        for number in range(1, 61):
            calls.append(asyncio.create_task(c.call("orders.wait")))
            await asyncio.sleep(0)
            write(c, str(number))
            await c.reload(no_wait=True)
            (status,) = c.reloader.plugins()
            assert status.draining <= MAX_DRAINING
        async with asyncio.timeout(WAIT_S):
            while sum(1 for each in c.runtimes if not each._closed) > MAX_DRAINING + 1:
                await asyncio.sleep(0.005)
        ended = [each.result().code for each in calls if each.done()]
        assert len(ended) == 57
        assert set(ended) == {Code.UNAVAILABLE}
        assert await c.answer("orders.tell") == ["60", "60"]
        for flight in c.flights:
            c.dispatcher.cancel(flight.request_id, OPERATOR)
        assert {each.code for each in await asyncio.gather(*calls[-3:])} == {Code.CANCELLED}


@pytest.mark.promise("CORE-7")
@pytest.mark.parametrize("tool", ["tell", "tell_async"])
async def test_no_call_is_lost_over_fifty_reloads_under_twenty_callers(tmp_path: Path, tool: str) -> None:
    """Unregister-then-register on a live manager lost 1,552 of 2,120 calls; one swapped pointer none."""
    async with core(tmp_path) as c:
        c.site.follow("orders")
        write(c, "0")
        await c.reload()
        answers: collections.Counter[str] = collections.Counter()
        done = asyncio.Event()

        async def caller() -> None:
            while not done.is_set() or answers.total() < 5000:
                version, helper = await c.answer(f"orders.{tool}")
                assert version == helper, "one call is served by one content"
                answers[version] += 1

        async with asyncio.timeout(60), asyncio.TaskGroup() as callers:
            for _ in range(20):
                callers.create_task(caller())
            for number in range(1, 51):
                write(c, str(number))
                report = await c.reload(no_wait=True)
                assert report.changed == ("orders",)
                assert report.rejected == ()
            done.set()
        assert answers.total() >= 5000
        assert len(answers) > 25, "calls were answered by one version after the other"
        assert await c.answer(f"orders.{tool}") == ["50", "50"]


async def test_a_helper_imported_late_belongs_to_the_version_of_its_call(tmp_path: Path) -> None:
    """I1: the call is in flight while its plugin's files are replaced."""
    async with core(tmp_path) as c:
        c.site.follow("orders")
        write(c, "old")
        await c.reload()
        state = c.site.directory.state
        call = asyncio.create_task(c.answer("orders.late"))
        async with asyncio.timeout(WAIT_S):
            while not (state / "begun").exists():
                await asyncio.sleep(0.002)
        write(c, "new")
        await c.reload(no_wait=True)
        assert await c.answer("orders.tell") == ["new", "new"]
        (state / "go").touch()
        assert await call == ["old", "old"]


async def test_an_edit_of_a_helper_alone_is_served(tmp_path: Path) -> None:
    """canvas-plugins#1546."""
    async with core(tmp_path) as c:
        c.site.follow("orders")
        write(c, "1")
        await c.reload()
        assert await c.answer("orders.tell") == ["1", "1"]
        c.site.write(c.site.plugins / "orders" / "helpers.py", "VERSION = '2'\n")
        await c.reload()
        assert await c.answer("orders.tell") == ["1", "2"]


async def test_an_edit_within_the_same_second_and_of_the_same_size_is_served(tmp_path: Path) -> None:
    """cpython#75953: stale byte code was loaded 50 times in 50."""
    async with core(tmp_path) as c:
        c.site.follow("orders")
        write(c, "0")
        helper = c.site.plugins / "orders" / "helpers.py"
        status = helper.stat()
        for digit in "123456789":
            with helper.open("r+") as file:
                file.write(f"VERSION = '{digit}'\n")
            os.utime(helper, ns=(status.st_atime_ns, status.st_mtime_ns))
            await c.reload()
            assert await c.answer("orders.tell") == ["0", digit]
        assert not list(c.site.plugins.rglob("*.pyc"))
        assert not list(c.site.directory.plugins.rglob("*.pyc"))


async def test_a_changed_setting_is_served_while_calls_of_the_old_one_run(tmp_path: Path) -> None:
    """Two instances of one content share their modules; the end of one does not hurt the other."""
    async with core(tmp_path) as c:
        c.site.follow("orders")
        write(c, "1")
        await c.reload()
        call = asyncio.create_task(c.call("orders.wait"))
        await asyncio.sleep(0)
        c.site.configure(trusted={"orders": {"follow": True}}, settings={"orders": {"n": 1}})
        assert (await c.reload(no_wait=True)).changed == ("orders",)
        assert await c.answer("orders.tell") == ["1", "1"]
        (flight,) = c.flights
        c.dispatcher.cancel(flight.request_id, OPERATOR)
        assert (await call).code is Code.CANCELLED
        async with asyncio.timeout(WAIT_S):
            while c.reloader.plugins()[0].draining:
                await asyncio.sleep(0.005)
        assert await c.answer("orders.tell") == ["1", "1"]
