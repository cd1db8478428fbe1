"""A runtime in process over a plugin written by the test, and where the two meet."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from hermesd.model.call import Code, Outcome
from hermesd.runtimes.inprocess import InProcessRuntime
from hermesd.runtimes.runtime import Invocation, Prepared
from hermesd.telemetry.routing import CallScope
from tests.core_doubles import spec

WAIT_S = 10.0
HEAD = """
import asyncio, sys, threading, time
from hermesd.plugin import tool, ToolContext, ToolError, hookimpl
"""


class Gates:
    """What plugin code under test and the test itself meet at; plugins import it as `meeting`."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        self.notes: list[str] = []


@pytest.fixture
def gates() -> Any:
    made = Gates()
    module = ModuleType("meeting")
    module.gates = made  # type: ignore[attr-defined]
    sys.modules["meeting"] = module
    yield made
    made.go.set()
    del sys.modules["meeting"]


class Bench:
    """One runtime, and what it said."""

    def __init__(self, path: Path, code: str, *, files: dict[str, str] | None = None, **more: Any) -> None:
        path.mkdir(exist_ok=True)
        (path / "main.py").write_text(HEAD + dedent(code), encoding="utf-8")
        for name, text in (files or {}).items():
            (path / name).write_text(dedent(text), encoding="utf-8")
        digest = "sha256:" + hashlib.sha256(f"{path}{code}{files}".encode()).hexdigest()
        self.spec = spec("orders", digest, root=path, **{"entry": "main.py", **more})
        self.lines: list[tuple[CallScope, str, str, dict[str, object]]] = []
        self.changes = 0
        self.emitted: list[tuple[str, dict[str, object]]] = []
        self.called: list[tuple[str, dict[str, object]]] = []
        self.answer: Callable[[str, dict[str, object]], Awaitable[Outcome]] = self._answer
        self.runtime = InProcessRuntime(self.spec, on_log=self._log, on_change=self._change)
        self._ids = 0

    def _log(self, *line: Any) -> None:
        self.lines.append(line)

    def _change(self) -> None:
        self.changes += 1

    async def _answer(self, tool: str, arguments: dict[str, object]) -> Outcome:
        self.called.append((tool, arguments))
        return Outcome(Code.OK, json.dumps({"called": tool}))

    async def start(self) -> Prepared:
        prepared = await self.runtime.prepare()
        await self.runtime.ready()
        return prepared

    def call(self, tool: str, **arguments: object) -> asyncio.Task[Outcome]:
        self._ids += 1
        invocation = Invocation(
            tool=f"orders.{tool}",
            arguments=arguments,
            arguments_json=json.dumps(arguments),
            request_id=f"r{self._ids}",
            session_id="s1",
            attempt=1,
            deadline=None,
            emit=lambda kind, payload: self.emitted.append((kind, payload)),
            call=self.answer,
        )
        return asyncio.get_running_loop().create_task(self.runtime.invoke(invocation))

    async def data(self, tool: str, **arguments: object) -> Any:
        outcome = await self.call(tool, **arguments)
        assert outcome.code is Code.OK, outcome
        return json.loads(outcome.data_json)


def plugin_threads() -> list[str]:
    return sorted(each.name for each in threading.enumerate() if "orders" in each.name)


def plugin_modules() -> list[str]:
    return [each for each in sys.modules if each.startswith("hermesd_plugins.orders")]


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that a thread does; bounded."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def bench(path: Path, code: str, **more: Any) -> AsyncIterator[Bench]:
    """A started runtime; its end leaves neither thread nor module."""
    made = Bench(path, code, **more)
    await made.start()
    try:
        yield made
    finally:
        await made.runtime.close()
        await made.runtime.close()
    await until(lambda: not plugin_threads())
    assert plugin_modules() == []


async def acquire(gates: Gates, count: int = 1) -> None:
    for _ in range(count):
        assert await asyncio.to_thread(gates.begun.acquire, timeout=WAIT_S)
