"""A real server over a real dispatcher and fake runtimes, and agents to ask it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc

from hermesd.access.identity import Agent, Identities
from hermesd.api.v1 import admin_pb2_grpc, agent_pb2_grpc, tool_pb2, tool_pb2_grpc
from hermesd.clock import SystemClock
from hermesd.config.load import load_configuration
from hermesd.daemon.recording import Recording
from hermesd.model.call import Caller, Code, Outcome, Result
from hermesd.rpc.server import Backend, RpcServer
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.confirmation import Confirmations
from hermesd.serving.course import Course
from hermesd.serving.detached import DetachedCalls
from hermesd.serving.output import Outputs
from hermesd.store.layout import DataDir
from hermesd.store.output import OutputStore
from hermesd.telemetry.event import EventLog
from tests.core_doubles import Served, raw_tool
from tests.rpc_doubles import Administration, History, Reloader
from tests.rpc_wire import error_info

#: Fields that differ between two runs of the same thing.
VOLATILE = (
    *("request_id", "parent_request_id", "trace_id", "span_id", "parent_span_id", "fingerprint"),
    *("duration_ms", "queued_ms", "run_ms", "downstream_ms", "queued_p95_ms", "p50_ms", "p95_ms", "p99_ms"),
    *("generation", "since", "seq", "at", "first", "last"),
)
#: More than a caller gets: the whole is kept for it.
MUCH = json.dumps("word " * 5000)


class World:
    """One daemon's core at a socket of its own. `denials` notes what was audited."""

    def __init__(self, path: Path, tools: Iterable[Mapping[str, object]]) -> None:
        self.path = path
        layout = DataDir(path / "data")
        layout.prepare()
        outputs = Outputs(OutputStore(layout.output, SystemClock()))
        self.outputs, self.layout = outputs, layout
        self.served = Served(outputs=outputs)
        self.records = self._recorded(layout)
        self.release = asyncio.Event()
        self.identities = Identities(SystemClock())
        self.denials: list[tuple[str, str, str]] = []
        self.tasks = asyncio.TaskGroup()
        self.offer(tools)
        backend = Backend(
            calls=self.served.dispatcher,
            registry=self.served.registry,
            reload=Reloader(),
            events=History(),
            inspection=Administration(),
            lifecycle=Administration(),
            decisions=Administration(),
            identities=self.identities,
            confirmations=Confirmations(SystemClock()),
            agents=Administration(),  # type: ignore[arg-type] # nobody gets as far
            detached=DetachedCalls(self.served.dispatcher, self.served.registry, outputs, self.tasks),
            outputs=outputs,
            records=self.records,
        )
        self.server = RpcServer(
            backend,
            addresses=[f"unix:{path}/o"],
            agents=[f"unix:{path}/a"],
            clock=SystemClock(),
            denied=self._note,
        )

    def _recorded(self, layout: DataDir) -> Recording:
        configuration = load_configuration(None, environ={}, overrides={})
        served, clock = self.served, SystemClock()
        records = Recording(
            layout,
            layout.logs,
            configuration=lambda: configuration,
            events=EventLog(clock),
            clock=clock,
            dropped=lambda count: None,
        )
        records.serve(served.dispatcher, served.registry, served.flights)
        hear = served.told.finished

        def finished(course: Course, result: Result) -> None:
            hear(course, result)
            records.take(course, result)

        served.told.finished = finished  # type: ignore[method-assign]
        return records

    def _note(self, caller: Caller | None, action: str, subject: str, reason: str) -> None:
        self.denials.append((caller.name if caller else "", action, subject))

    def offer(self, tools: Iterable[Mapping[str, object]]) -> None:
        """Have exactly these tools."""
        by_plugin: dict[str, list[Mapping[str, object]]] = {}
        for each in tools:
            by_plugin.setdefault(str(each["name"]).partition(".")[0], []).append(each)
        slices = self.served.registry.catalogue.slices
        if gone := set(slices) - set(by_plugin):
            self.served.registry.commit(dict.fromkeys(gone))
        for each in by_plugin.values():
            self.served.offer(*each, handler=self._run, calls=("*",))

    async def _run(self, invocation: Invocation) -> Outcome:
        if invocation.tool.endswith(".wait_long"):
            await self.release.wait()
        if invocation.tool.endswith(".say_much"):
            return Outcome(Code.OK, MUCH)
        if invocation.tool.endswith(".call_other"):
            return await invocation.call(str(invocation.arguments.get("tool")), {})
        return Outcome(Code.OK, '"ran"')

    def agents(self, *agents: Agent) -> None:
        self.identities.replace({}, {each.name: each for each in agents})
        self.server.rights_changed()

    async def __aenter__(self) -> World:
        await self.tasks.__aenter__()
        await self.outputs.open()
        await self.server.start()
        await self.server.set_serving(True)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release.set()
        await self.server.stop(1.0)
        await self.tasks.__aexit__(None, None, None)
        await asyncio.to_thread(self.records.close, 5.0)


class Asker:
    """Whoever shows `token` at one of a world's doors."""

    def __init__(self, world: World, token: str | None, door: str = "a") -> None:
        self.metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self.channel = grpc.aio.insecure_channel(f"unix:{world.path}/{door}")
        self.tools: Any = tool_pb2_grpc.ToolServiceStub(self.channel)
        self.admin: Any = admin_pb2_grpc.AdminServiceStub(self.channel)
        self.agent: Any = agent_pb2_grpc.AgentServiceStub(self.channel)

    async def __aenter__(self) -> Asker:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    async def ask(self, rpc: Any, request: Any) -> str:
        """The answer as a text that two worlds can be compared by: an error is one too."""
        try:
            return plain(await rpc(request, metadata=self.metadata, timeout=10))
        except grpc.aio.AioRpcError as error:
            return told(error)

    async def first(self, request: Any, **options: Any) -> Any:
        """The first event of a watch, and no more."""
        watch = self.tools.WatchCall(request, **options)
        event = await watch.read()
        watch.cancel()
        return event

    async def stream(self, name: str) -> str:
        request = tool_pb2.StreamCallToolRequest(call=tool_pb2.CallToolRequest(name=name))
        try:
            events = [
                plain(each)
                async for each in self.tools.StreamCallTool(request, metadata=self.metadata, timeout=10)
            ]
        except grpc.aio.AioRpcError as error:
            return told(error)
        return "\n".join(events)


def told(error: grpc.aio.AioRpcError) -> str:
    """All that a caller can read of an error, its ErrorInfo too."""
    info = error_info(error)
    return f"{error.code().name}: {error.details()} {info.reason} {dict(info.metadata)}"


def plain(message: Any) -> str:
    """A message without what no two runs have in common."""
    copy = type(message)()
    copy.CopyFrom(message)
    _strip(copy)
    return str(copy)


def _strip(message: Any) -> None:
    for field, value in message.ListFields():
        if field.name in VOLATILE:
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if field.is_repeated else [value]:
                _strip(each)


def tool(name: str, **more: Any) -> dict[str, object]:
    return raw_tool(name, **more)
