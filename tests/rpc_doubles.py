"""The daemon behind the gRPC edge, held in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from hermesd.access.identity import Identities
from hermesd.clock import SystemClock
from hermesd.errors import (
    AlreadyExistsError,
    ConflictError,
    DrainingError,
    FellBehindError,
    NotFoundError,
    Rejection,
)
from hermesd.model.call import Caller, CallRequest, Code, Result
from hermesd.model.definition import Example, ToolDefinition
from hermesd.model.record import CallFilter, CallRecord, CallStats, MiscalledTool, ToolStats
from hermesd.model.status import PluginStatus, ReloadReport, Standing, State
from hermesd.rpc.ports import Emit
from hermesd.rpc.server import Backend, Limits, RpcServer
from hermesd.serving.confirmation import Confirmations
from hermesd.serving.journal import Journal, JournalEvent

SINCE = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
DIGEST = "sha256:" + "1" * 64


@dataclass
class Entry:
    definition: ToolDefinition
    plugin: str = "demo"
    source: str = "python"
    state: State = State.READY
    reason: str = ""

    def standing(self) -> Standing:
        return Standing(self.state, SINCE, self.reason)


def tool_entry(name: str, **changes: object) -> Entry:
    state = changes.pop("state", State.READY)
    definition = ToolDefinition(
        name=name,
        version="1.0.0",
        parameters={"type": "object", "properties": {"文本": {"type": "string"}}},
        description="回显文本",
        examples=(Example("说 hi", {"文本": "hi"}),),
        **changes,  # type: ignore[arg-type]
    )
    return Entry(definition, plugin=name.partition(".")[0], state=state)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Catalogue:
    generation: int
    tools: Mapping[str, Entry]

    def find(self, name: str) -> Entry | None:
        return self.tools.get(name)


@dataclass(frozen=True)
class Change:
    seq: int
    kind: str
    name: str
    generation: int
    roles: tuple[str, ...] | None = ()
    roles_before: tuple[str, ...] | None = ()


@dataclass(frozen=True)
class Occurrence:
    seq: int
    at: datetime
    kind: str
    subject: str
    message: str
    fields: Mapping[str, object]


@dataclass(frozen=True)
class Line:
    message: str
    at: datetime = SINCE
    plugin: str = "demo"
    tool: str = "demo.echo_text"
    request_id: str = "r-1"
    session_id: str = ""
    attempt: int = 1
    level: str = "info"
    fields: Mapping[str, object] = field(default_factory=dict)


class History:
    """A numbered history that keeps the last `capacity` items."""

    def __init__(self, capacity: int = 100) -> None:
        self.capacity = capacity
        self.items: list = []
        self.last_seq = 0
        self.open_watches = 0
        self._wake = asyncio.Event()

    def add(self, make) -> None:
        self.last_seq += 1
        self.items.append(make(self.last_seq))
        del self.items[: -self.capacity]
        self._wake.set()
        self._wake = asyncio.Event()

    async def watch(self, after_seq: int | None = None) -> AsyncIterator:
        position = self.last_seq if after_seq is None else after_seq
        self.open_watches += 1
        try:
            while True:
                if self.items and position < self.items[0].seq - 1:
                    raise FellBehindError(f"events before {self.items[0].seq} are gone", remedy="watch anew")
                for each in [each for each in self.items if each.seq > position]:
                    position = each.seq
                    yield each
                await self._wake.wait()
        finally:
            self.open_watches -= 1

    def recent(self, count: int) -> list:
        return self.items[-count:] if count else []


class Registry(History):
    def __init__(self) -> None:
        super().__init__()
        self.catalogue = Catalogue(1, {})

    def standing(self, entry: Entry) -> Standing:
        return entry.standing()

    def commit(self, entries: Sequence[Entry]) -> None:
        tools = {each.definition.name: each for each in sorted(entries, key=lambda e: e.definition.name)}
        self.catalogue = Catalogue(self.catalogue.generation + 1, tools)

    def change(self, kind: str, name: str) -> None:
        generation = self.catalogue.generation
        self.add(lambda seq: Change(seq, kind, name, generation))


class Calls:
    """Echoes; tools named demo.* behave as their name says."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.requests: list[CallRequest] = []
        self.cancelled: list[str] = []
        self.inflight: dict[str, asyncio.Task] = {}
        self.draining = False
        self.finished = asyncio.Event()
        self.release = asyncio.Event()
        self.data_json: str | None = None

    async def call(self, request: CallRequest, emit: Emit | None = None) -> Result:
        self.requests.append(request)
        if self.draining:
            raise DrainingError("the daemon drains", remedy="try later")
        if request.request_id in self.inflight:
            raise AlreadyExistsError(f"call {request.request_id} is in flight")
        task = asyncio.current_task()
        assert task is not None
        self.inflight[request.request_id] = task
        try:
            return await self._run(request, emit)
        except asyncio.CancelledError:
            self.cancelled.append(request.request_id)
            raise
        finally:
            self.inflight.pop(request.request_id)
            self.finished.set()

    async def _run(self, request: CallRequest, emit: Emit | None) -> Result:
        if request.tool == "demo.wait_long":
            await self.release.wait()
        elif request.tool == "demo.use_time":
            await asyncio.sleep(request.deadline - asyncio.get_running_loop().time())
            return self.result(request, Code.TIMEOUT)
        elif request.tool == "demo.raise_fault":
            raise RuntimeError("secret traceback text")
        elif request.tool == "demo.talk_much" and emit is not None:
            emit("progress", {"done": 1, "total": 3, "message": "一"})
            emit("log", {"level": "warning", "message": "小心", "fields": {"a": 1}})
            await asyncio.sleep(0)
            emit("progress", {"done": 2, "total": None, "message": ""})
        elif request.tool == "demo.flood_logs" and emit is not None:
            for each in range(1000):
                emit("progress", {"done": each, "message": ""})
                emit("log", {"level": "info", "message": str(each)})
        elif request.tool == "demo.fail_always":
            return self.result(request, Code.TOOL_ERROR, "坏了", detail={"remedy": "mend it"})
        elif request.tool == "demo.say_surrogate":
            return self.result(request, Code.OK, "bad \ud800 text")
        return self.result(request, Code.OK)

    def result(self, request: CallRequest, code: Code, message: str = "", **more) -> Result:
        catalogue = self.registry.catalogue
        return Result(
            code=code,
            message=message,
            data_json=self.data_json or request.arguments_json,
            request_id=request.request_id,
            session_id=request.session_id,
            tool=request.tool,
            version="1.0.0",
            generation=catalogue.generation,
            attempts=1,
            duration_ms=0.5,
            queued_ms=0.25,
            retryable=False,
            effect="none",
            **more,
        )

    def cancel(self, request_id: str, caller: Caller) -> bool:
        task = self.inflight.get(request_id)
        if task is not None:
            task.cancel()
        return task is not None


class Detached:
    """Calls that go on; each is ended by its test through its journal."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.journals: dict[str, Journal] = {}

    async def start(self, request: CallRequest) -> Result:
        self.journals[request.request_id] = Journal()
        return self.calls.result(request, Code.OK, detail={"detached": True})

    async def watch(
        self, request_id: str, caller: Caller, after_seq: int | None
    ) -> AsyncIterator[JournalEvent]:
        if request_id not in self.journals:
            raise NotFoundError(f"there is no detached call {request_id!r}")
        self.journals[request_id].check(after_seq)
        return self.journals[request_id].read(request_id, after_seq)


class Kept:
    """Whole results by request id, four characters a page."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def page(self, caller: Caller, request_id: str, part: str, offset: int) -> tuple[str, int, int]:
        if request_id not in self.texts:
            raise NotFoundError(f"there is no output of a call {request_id!r}")
        text = self.texts[request_id]
        return text[offset : offset + 4], min(offset + 4, len(text)), len(text)


@dataclass(frozen=True)
class Value:
    key: str
    value_json: str
    origin: str


@dataclass(frozen=True)
class Content:
    digest: str
    version: str
    first_served: datetime = SINCE
    last_served: datetime = SINCE


class Records:
    """Records held in a list, the newest last; its filter knows `code`. `askers`: who asked."""

    def __init__(self) -> None:
        self.ended: list[CallRecord] = []
        self.flying: list[CallRecord] = []
        self.asked: list[CallFilter] = []
        self.askers: list[Caller] = []
        self.replayed: list[tuple[CallRecord, dict[str, object]]] = []
        self.failure: Exception | None = None

    async def page(self, caller: Caller, asked: CallFilter, limit: int, before: int | None):
        self.asked.append(asked)
        self.askers.append(caller)
        if self.failure is not None:
            raise self.failure
        found = [(seq, each) for seq, each in enumerate(self.ended, 1) if asked.code in ("", each.code)]
        return [each for each in reversed(found) if before is None or each[0] < before][:limit]

    def in_flight(self, caller: Caller, asked: CallFilter):
        return self.flying

    async def find(self, caller: Caller, request_id: str):
        self.askers.append(caller)
        known = [*self.ended, *self.flying]
        return next((each for each in reversed(known) if each.request_id == request_id), None)

    async def stats(self, caller: Caller, asked: CallFilter) -> CallStats:
        self.asked.append(asked)
        self.askers.append(caller)
        tool = ToolStats("demo.echo_text", 4, {"OK": 3, "TIMEOUT": 1}, 1.0, 2.0, 3.0, 0.5, 0.0, 5, SINCE)
        wrong = MiscalledTool("demo.echo_text", "INVALID_ARGUMENT", 2, 6, "/文本: missing")
        return CallStats(
            6, {"OK": 3, "TIMEOUT": 1, "INVALID_ARGUMENT": 2}, 1.0, 2.0, 3.0, (tool,), ("store.put_item",),
            (wrong,), SINCE,
        )  # fmt: skip

    async def replay(self, record: CallRecord, caller: Caller, **asked) -> Result:
        self.replayed.append((record, asked))
        code = Code.OK if asked["token"] else Code.CONFIRMATION_REQUIRED
        detail = {} if asked["token"] else {"confirmation_token": "t-1", "summary": "would run again"}
        return Result(
            code=code, message="", data_json='"好"', request_id="r-new", session_id="", tool=record.tool,
            version="1.0.0", generation=1, attempts=1, duration_ms=1.0, queued_ms=0.0, retryable=False,
            effect="none", detail=detail,
        )  # fmt: skip


def call_record(request_id: str = "r-1", **changes: object) -> CallRecord:
    """A call that went well, but for the changes."""
    values: dict[str, object] = {
        "request_id": request_id, "parent_request_id": "", "session_id": "s-1", "agent": "operator",
        "agent_kind": "operator", "caller": "", "tool": "demo.echo_text", "version": "1.0.0",
        "generation": 1, "source": "python", "plugin": "demo", "code": "OK", "message": "", "reason": "",
        "effect": "none", "attempts": 1, "at": SINCE, "duration_ms": 12.5, "queued_ms": 0.5,
        "run_ms": 10.0, "downstream_ms": 2.0, "fingerprint": "f" * 32, "arguments": '{"文本":"好"}',
        "arguments_bytes": 14, "arguments_whole": True, "result": '"好"', "result_bytes": 5,
        "result_whole": True, "truncated": False, "degraded": False, "replayed": False,
        "trace_id": "a" * 32, "span_id": "b" * 16, "parent_span_id": "", "metadata_json": "{}",
    }  # fmt: skip
    return CallRecord(**{**values, **changes})  # type: ignore[arg-type]


class Reloader:
    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []
        self.known = [plugin_status("demo"), plugin_status("store")]

    async def reload(self, **asked) -> ReloadReport:
        self.asked.append(asked)
        if asked["if_revision"] not in ("", "rev-1"):
            raise ConflictError("the revision is rev-1", remedy="read status again")
        if asked["name"] not in ("", "demo"):
            raise NotFoundError(f"there is no plugin {asked['name']!r}")
        rejected = Rejection("坏", "第 3 行: 语法错误", "mend it", "/p/坏/plugin.yaml", 3, 7)
        return ReloadReport("rev-1", 2, added=("demo",), rejected=(rejected,), duration_ms=1.5)

    def plugins(self) -> Sequence[PluginStatus]:
        return self.known


def plugin_status(name: str, state: State = State.READY) -> PluginStatus:
    return PluginStatus(
        name=name,
        version="1.0.0",
        origin="folder",
        source=f"/etc/hermesd/plugins/{name}",
        path=f"/etc/hermesd/plugins/{name}",
        standing=Standing(state, SINCE),
        digest=DIGEST,
        tools=(f"{name}.echo_text",),
    )


class Administration:
    def __init__(self) -> None:
        self.done: list[tuple] = []
        self.lines = [Line(str(each)) for each in range(5)]
        self.on_shutdown = None
        self.follow = asyncio.Event()

    async def status(self) -> dict[str, object]:
        return {
            "version": "0.1.0",
            "state": "ready",
            "pid": 7,
            "uptime_s": 1.25,
            "revision": "rev-1",
            "generation": 2,
            "config_digest": "sha256:c",
            "config_files": [Path("/etc/hermesd/hermesd.yaml")],
            "git": {"commit": "abc", "dirty": True},
            "reload": {"last_result": "ok", "at": SINCE, "rejected": []},
            "tools": {"ready": 2},
            "plugins": [plugin_status("demo")],
            "calls": {"inflight": 0, "total": 3},
            "processes": [
                {"name": "hermesd", "pid": 7, "rss_bytes": 2**33, "cpu_percent": 0.5, "fds": 9, "threads": 4}
            ],
            "warnings": [Rejection("agents", "not in this build")],
            "threads": {"main": 1},
            "addresses": ("unix:/run/hermesd/hermesd.sock",),
        }

    async def effective_config(self) -> Sequence[Value]:
        return [Value("server.drain_timeout_s", "30", "default")]

    async def drain(self) -> None:
        self.done.append(("drain",))

    async def resume(self) -> None:
        self.done.append(("resume",))

    async def shutdown(self) -> None:
        self.done.append(("shutdown",))
        if self.on_shutdown is not None:
            self.on_shutdown()

    async def dump_state(self) -> dict[str, object]:
        return {"instances": [], "时间": SINCE}

    async def trust_plugin(self, *asked) -> PluginStatus:
        return self._did("trust", *asked)

    async def untrust_plugin(self, *asked) -> PluginStatus:
        return self._did("untrust", *asked)

    async def grant_plugin(self, *asked) -> PluginStatus:
        return self._did("grant", *asked)

    async def revoke_plugin(self, *asked) -> PluginStatus:
        return self._did("revoke", *asked)

    async def set_plugin(self, *asked) -> PluginStatus:
        return self._did("set_plugin", *asked)

    async def set_tool(self, *asked) -> PluginStatus:
        return self._did("set_tool", *asked)

    async def reset_circuit(self, *asked) -> bool:
        self._did("reset_circuit", *asked)
        return True

    async def rollback_plugin(self, *asked) -> PluginStatus:
        return self._did("rollback", *asked)

    async def plugin_history(self, name: str) -> Sequence[Content]:
        return [Content(f"sha256:{each}", f"1.0.{each}") for each in range(5)] + [Content(DIGEST, "1.0.0")]

    async def read_plugin_log(self, name: str, lines: int, follow: bool) -> AsyncIterator[Line]:
        for each in self.lines[-lines:] if lines else []:
            yield each
        if follow:
            await self.follow.wait()
            yield Line("later")

    def _did(self, *what) -> PluginStatus:
        self.done.append(what)
        return plugin_status("demo")


class Daemon:
    """All doubles, and a real server in front of them."""

    def __init__(self, address: str, **options) -> None:
        self.registry = Registry()
        names = ["demo.echo_text", "demo.wait_long", "demo.talk_much", "store.put_item"]
        self.registry.commit([tool_entry(each) for each in names])
        self.calls = Calls(self.registry)
        self.reloader = Reloader()
        self.administration = Administration()
        self.events = History()
        self.confirmations = Confirmations(SystemClock())
        self.records = Records()
        self.address = address
        self.detached = Detached(self.calls)
        self.outputs = Kept()
        admin = self.administration
        self.identities = Identities(SystemClock())
        backend = Backend(
            self.calls,
            self.registry,
            self.reloader,
            self.events,
            inspection=admin,
            lifecycle=admin,
            decisions=admin,
            confirmations=self.confirmations,
            identities=self.identities,
            agents=admin,
            detached=self.detached,
            outputs=self.outputs,
            records=self.records,
        )
        self.server = RpcServer(backend, addresses=[address], clock=SystemClock(), **options)

    def happen(self, kind: str, **fields: object) -> None:
        self.events.add(lambda seq: Occurrence(seq, SINCE, kind, "demo", "发生", fields))

    async def __aenter__(self) -> Daemon:
        await self.server.start()
        await self.server.set_serving(True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop(1.0)


def echo_arguments(text: str) -> str:
    return json.dumps({"文本": text}, ensure_ascii=False)


__all__ = ["Daemon", "Limits", "call_record", "echo_arguments", "plugin_status", "tool_entry"]
