"""Doubles of the core: a clock, a runtime that does what it is told, and those who listen to calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hermesd.clock import SystemClock
from hermesd.model.call import Caller, CallRequest, Code, Outcome, Result
from hermesd.model.definition import parse_definition
from hermesd.runtimes.runtime import Invocation, Prepared, Vitals
from hermesd.runtimes.spec import PluginSpec
from hermesd.serving.catalogue import Catalogue, Entry
from hermesd.serving.course import Course
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.instance import Instance
from hermesd.serving.policy import CallPolicy
from hermesd.serving.registry import Registry

OPERATOR = Caller("operator", "operator")
Handler = Callable[[Invocation], Awaitable[Outcome]]


class SetClock:
    """Both times stand still until they are moved. Durations of asyncio's own stay real."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at)


async def answer(invocation: Invocation) -> Outcome:
    return Outcome(Code.OK, invocation.arguments_json)


class FakeRuntime:
    """A runtime whose stages wait for gates and fail when told; `history` notes what was asked of it."""

    kind = "fake"

    def __init__(
        self,
        spec: PluginSpec,
        tools: tuple[Mapping[str, object], ...] = (),
        *,
        history: list[str] | None = None,
        handler: Handler = answer,
    ) -> None:
        self.spec = spec
        self.tools = tools
        self.handler = handler
        self.history = history if history is not None else []
        self.prepare_gate: asyncio.Event | None = None
        self.ready_gate: asyncio.Event | None = None
        self.prepare_error: BaseException | None = None
        self.ready_error: BaseException | None = None
        self.closed = 0
        self.refusal: tuple[str, str] | None = None
        self.invocations: list[Invocation] = []

    def _note(self, what: str) -> None:
        self.history.append(f"{what} {self.spec.name} {self.spec.digest}")

    async def prepare(self) -> Prepared:
        self._note("prepare")
        if self.prepare_gate is not None:
            await self.prepare_gate.wait()
        if self.prepare_error is not None:
            raise self.prepare_error
        return Prepared(self.tools, {})

    async def ready(self) -> None:
        if self.ready_gate is not None:
            await self.ready_gate.wait()
        if self.ready_error is not None:
            raise self.ready_error
        self._note("ready")

    async def invoke(self, invocation: Invocation) -> Outcome:
        assert not self.closed, "a closed runtime was invoked"
        self.invocations.append(invocation)
        return await self.handler(invocation)

    async def close(self) -> None:
        self.closed += 1
        self._note("close")

    def vitals(self) -> Vitals:
        return Vitals()

    def unavailable(self) -> tuple[str, str] | None:
        return self.refusal


def spec(name: str = "orders", digest: str = "sha256:" + "a" * 64, **more: Any) -> PluginSpec:
    settings: dict[str, Any] = {
        "name": name,
        "version": "1.0.0",
        "digest": digest,
        "root": Path(),
        "entry": f"{name}.py",
        "tools": None,
        "settings": {},
        "secrets": {},
        "max_concurrency": 4,
        "prepare_timeout_s": 5.0,
        "close_timeout_s": 2.0,
        "max_stray_threads": 2,
        "idle_stop_s": 300.0,
        "grace_s": 0.01,
    }
    return PluginSpec(**{**settings, **more})


def raw_tool(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "description": "does it", "side_effects": "write", **more}


ANYTHING: dict[str, object] = {"type": "object"}


class Told:
    """An observer of calls that keeps what it hears."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.results: list[Result] = []
        self.lines: list[dict[str, object]] = []
        self.errors: list[BaseException] = []
        self.waits: list[float] = []

    def started(self, entry: Entry) -> None:
        self.began.append(entry.definition.name)

    def finished(self, course: Course, result: Result) -> None:
        self.results.append(result)

    def logged(self, entry: Entry, request: CallRequest, attempt: int, line: dict[str, object]) -> None:
        self.lines.append(line)

    def failed(self, request: CallRequest, error: BaseException) -> None:
        self.errors.append(error)

    def retried(self, course: Course, outcome: Outcome, wait_s: float) -> None:
        self.waits.append(wait_s)


class Served:
    """A dispatcher over fake runtimes, ready to be called."""

    def __init__(self, policy: CallPolicy | None = None, **collaborators: Any) -> None:
        self.clock = SystemClock()
        self.registry = Registry()
        self.flights = Flights()
        self.told = Told()
        self.dispatcher = Dispatcher(
            self.registry, self.flights, policy or CallPolicy(), self.told, self.clock, **collaborators
        )
        self.instances: dict[str, Instance] = {}
        self._ids = 0

    def offer(
        self, *tools: Mapping[str, object], handler: Handler = answer, calls: tuple[str, ...] = ()
    ) -> FakeRuntime:
        """Commit one plugin with these tools, all of one domain."""
        plugin = str(tools[0]["name"]).partition(".")[0]
        runtime = FakeRuntime(spec(plugin), tools, handler=handler)
        parsed = {
            str(raw["name"]): parse_definition(
                {"parameters": ANYTHING, **raw}, plugin=plugin, version="1.0.0"
            )
            for raw in tools
        }
        instance = Instance(plugin, "key", "digest", runtime, parsed, clock=self.clock, calls=calls)
        self.instances[plugin] = instance
        now = self.clock.now()
        entries = {
            name: Entry(
                each.definition,
                plugin,
                "python",
                now,
                each.schema,
                instance,
                corrections=each.corrections,
                returns=each.returns,
            )
            for name, each in parsed.items()
        }
        self.registry.commit({plugin: entries})
        return runtime

    def request(self, tool: str, arguments: str = "{}", **more: Any) -> CallRequest:
        self._ids += 1
        given: dict[str, Any] = {"request_id": f"r{self._ids}", "caller": OPERATOR, **more}
        return CallRequest(tool, arguments, **given)

    async def call(self, tool: str, arguments: str = "{}", **more: Any) -> Result:
        return await self.dispatcher.call(self.request(tool, arguments, **more))

    @property
    def catalogue(self) -> Catalogue:
        return self.registry.catalogue


async def settle(turns: int = 20) -> None:
    """Let the loop run what is ready. No time passes."""
    for _ in range(turns):
        await asyncio.sleep(0)
