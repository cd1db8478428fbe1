"""AdminService: the operator's side. The interceptor has refused whoever the policy does not let in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from hermesd.api.v1 import admin_pb2, admin_pb2_grpc, agent_pb2, circuit_pb2, confirmation_pb2, tool_pb2
from hermesd.clock import Clock
from hermesd.config.effective import dotted
from hermesd.config.permission import permission_faults
from hermesd.errors import InvalidRequestError, NotFoundError
from hermesd.model.name import nearest
from hermesd.model.status import PluginStatus, State
from hermesd.rpc import paging
from hermesd.rpc.agent_service import AgentDesk
from hermesd.rpc.call_service import CallRecords
from hermesd.rpc.closing import OpenStreams
from hermesd.rpc.confirmation import list_confirmations, resolve_confirmation
from hermesd.rpc.interceptor import Context, caller_of_call
from hermesd.rpc.ports import (
    Agents,
    Confirmations,
    Decisions,
    Events,
    Inspection,
    Lifecycle,
    Records,
    Registry,
    Reload,
)
from hermesd.rpc.tool_service import ToolService, begin_after
from hermesd.rpc.translate import (
    compact,
    content_message,
    log_line_message,
    plugin_message,
    reload_message,
    status_message,
    watch_event_message,
)

MAX_RECENT = 1000
DEFAULT_LINES = 100
MAX_LINES = 10_000
ISOLATIONS = ("", "inprocess", "process")


class AdminService(CallRecords, admin_pb2_grpc.AdminServiceServicer):  # type: ignore[misc] # generated, untyped
    """Translates; the daemon behind the ports does the work."""

    def __init__(
        self,
        *,
        inspection: Inspection,
        lifecycle: Lifecycle,
        decisions: Decisions,
        confirmations: Confirmations,
        reload: Reload,
        registry: Registry,
        events: Events,
        records: Records,
        clock: Clock,
        tools: ToolService,
        agents: Agents,
        streams: OpenStreams,
        max_message_bytes: int,
    ) -> None:
        self._inspection = inspection
        self._lifecycle = lifecycle
        self._decisions = decisions
        self._confirmations = confirmations
        self._reload = reload
        self._registry = registry
        self._events = events
        self._records = records
        self._clock = clock
        self._tools = tools
        self._streams = streams
        #: For the items of one page.
        self._room = max_message_bytes // 2
        self._agents = AgentDesk(agents, self._room)

    async def GetStatus(
        self, request: admin_pb2.GetStatusRequest, context: Context
    ) -> admin_pb2.GetStatusResponse:
        return status_message(await self._inspection.status())

    async def GetConfig(
        self, request: admin_pb2.GetConfigRequest, context: Context
    ) -> admin_pb2.GetConfigResponse:
        status = await self._inspection.status()
        values = await self._inspection.effective_config()
        return admin_pb2.GetConfigResponse(
            digest=str(status.get("config_digest") or ""),
            files=[str(each) for each in cast("Sequence[object]", status.get("config_files") or ())],
            values=[
                admin_pb2.EffectiveValue(key=each.key, value_json=each.value_json, origin=each.origin)
                for each in values
            ],
        )

    async def Reload(self, request: admin_pb2.ReloadRequest, context: Context) -> admin_pb2.ReloadResponse:
        report = await self._reload.reload(
            name=request.name,
            dry_run=request.dry_run,
            atomic=request.atomic,
            no_wait=request.no_wait,
            if_revision=request.if_revision,
            cause="rpc",
        )
        status = await self._inspection.status()
        return reload_message(report, status.get("git"))

    async def Drain(self, request: admin_pb2.DrainRequest, context: Context) -> admin_pb2.DrainResponse:
        await self._lifecycle.drain()
        return admin_pb2.DrainResponse()

    async def Resume(self, request: admin_pb2.ResumeRequest, context: Context) -> admin_pb2.ResumeResponse:
        await self._lifecycle.resume()
        return admin_pb2.ResumeResponse()

    async def Shutdown(
        self, request: admin_pb2.ShutdownRequest, context: Context
    ) -> admin_pb2.ShutdownResponse:
        await self._lifecycle.shutdown()
        return admin_pb2.ShutdownResponse()

    async def DumpState(
        self, request: admin_pb2.DumpStateRequest, context: Context
    ) -> admin_pb2.DumpStateResponse:
        return admin_pb2.DumpStateResponse(state_json=compact(await self._inspection.dump_state()))

    async def WatchEvents(self, request: admin_pb2.WatchEventsRequest, context: Context) -> None:
        begin = self._begin(request)
        last = self._events.last_seq
        events = self._events.watch(begin)
        started = tool_pb2.WatchStarted(generation=self._registry.catalogue.generation)
        await context.write(admin_pb2.WatchEventsResponse(seq=begin, started=started))
        if request.no_follow and begin >= last:
            return
        async for event in self._streams.each(events, caller_of_call.get()):
            await context.write(watch_event_message(event))
            if request.no_follow and event.seq >= last:
                return

    def _begin(self, request: admin_pb2.WatchEventsRequest) -> int:
        if not request.HasField("recent"):
            return begin_after(request, self._events.last_seq)
        if request.HasField("after_seq"):
            raise InvalidRequestError("after_seq and recent exclude each other", remedy="give one of them")
        if not 0 <= request.recent <= MAX_RECENT:
            raise InvalidRequestError(f"recent must be 0 to {MAX_RECENT}, got {request.recent}")
        kept = self._events.recent(request.recent)
        return kept[0].seq - 1 if kept else self._events.last_seq

    async def ListPlugins(
        self, request: admin_pb2.ListPluginsRequest, context: Context
    ) -> admin_pb2.ListPluginsResponse:
        size = paging.page_size(request.page_size)
        if request.state and request.state not in set(State):
            raise InvalidRequestError(
                f"state {request.state!r} does not exist", remedy=f"one of {', '.join(State)}"
            )
        question = f"plugins {request.state}"
        last = paging.after(request.page_token, question)
        known = self._plugins()
        names = [name for name in sorted(known) if request.state in ("", known[name].standing.state)]
        page, more = paging.slice_names(names, size, last)
        plugins = paging.fitting(page, lambda name: plugin_message(known[name]), self._room)
        more = more or len(plugins) < len(page)
        return admin_pb2.ListPluginsResponse(
            plugins=plugins,
            next_page_token=paging.page_token(page[len(plugins) - 1], question) if more else "",
            generation=self._registry.catalogue.generation,
        )

    async def GetPlugin(
        self, request: admin_pb2.GetPluginRequest, context: Context
    ) -> admin_pb2.GetPluginResponse:
        return admin_pb2.GetPluginResponse(plugin=plugin_message(self._plugin(request.name)))

    async def ListPluginHistory(
        self, request: admin_pb2.ListPluginHistoryRequest, context: Context
    ) -> admin_pb2.ListPluginHistoryResponse:
        size = paging.page_size(request.page_size)
        serving = self._plugin(request.name).digest
        question = f"history {request.name}"
        last = paging.after(request.page_token, question)
        entries = await self._decisions.plugin_history(request.name)
        start = 0
        if last:
            digests = [each.digest for each in entries]
            if last not in digests:
                raise InvalidRequestError("the page_token's content is no longer kept", remedy="start again")
            start = digests.index(last) + 1
        page = entries[start : start + size]
        more = start + size < len(entries)
        return admin_pb2.ListPluginHistoryResponse(
            contents=[content_message(each, serving) for each in page],
            next_page_token=paging.page_token(page[-1].digest, question) if more else "",
        )

    async def SetPlugin(
        self, request: admin_pb2.SetPluginRequest, context: Context
    ) -> admin_pb2.SetPluginResponse:
        enabled = _required_enabled(request)
        name = _required_name(request.name)
        plugin = await self._decisions.set_plugin(name, enabled, caller_of_call.get())
        return admin_pb2.SetPluginResponse(plugin=plugin_message(plugin))

    async def TrustPlugin(
        self, request: admin_pb2.TrustPluginRequest, context: Context
    ) -> admin_pb2.TrustPluginResponse:
        name = _required_name(request.name)
        caller = caller_of_call.get()
        if _action(request.action, "trust", "untrust") == "untrust":
            if request.digest or request.isolation or request.follow:
                raise InvalidRequestError("untrust takes nothing but the name")
            plugin = await self._decisions.untrust_plugin(name, caller)
        else:
            if request.isolation not in ISOLATIONS:
                raise InvalidRequestError(
                    f"isolation {request.isolation!r} does not exist", remedy="inprocess or process"
                )
            plugin = await self._decisions.trust_plugin(
                name, request.digest, request.isolation, request.follow, caller
            )
        return admin_pb2.TrustPluginResponse(plugin=plugin_message(plugin))

    async def GrantPlugin(
        self, request: admin_pb2.GrantPluginRequest, context: Context
    ) -> admin_pb2.GrantPluginResponse:
        name = _required_name(request.name)
        caller = caller_of_call.get()
        permissions = _permissions(request.permissions_json)
        if _action(request.action, "grant", "revoke") == "revoke":
            plugin = await self._decisions.revoke_plugin(name, permissions, caller)
        elif permissions:
            plugin = await self._decisions.grant_plugin(name, permissions, caller)
        else:
            raise InvalidRequestError("permissions_json is empty", remedy="name what to grant")
        return admin_pb2.GrantPluginResponse(plugin=plugin_message(plugin))

    async def RollbackPlugin(
        self, request: admin_pb2.RollbackPluginRequest, context: Context
    ) -> admin_pb2.RollbackPluginResponse:
        name = _required_name(request.name)
        plugin = await self._decisions.rollback_plugin(name, request.digest, caller_of_call.get())
        return admin_pb2.RollbackPluginResponse(plugin=plugin_message(plugin))

    async def ReadPluginLog(self, request: admin_pb2.ReadPluginLogRequest, context: Context) -> None:
        name = self._plugin(request.name).name
        count = request.lines if request.HasField("lines") else DEFAULT_LINES
        if not 0 <= count <= MAX_LINES:
            raise InvalidRequestError(f"lines must be 0 to {MAX_LINES}, got {count}")
        lines = self._inspection.read_plugin_log(name, count, request.follow)
        started = tool_pb2.WatchStarted(generation=self._registry.catalogue.generation)
        await context.write(admin_pb2.ReadPluginLogResponse(seq=0, started=started))
        seq = 0
        async for line in self._streams.each(lines, caller_of_call.get()):
            seq += 1
            await context.write(log_line_message(seq, line))

    async def SetTool(self, request: admin_pb2.SetToolRequest, context: Context) -> admin_pb2.SetToolResponse:
        enabled = _required_enabled(request)
        name = _required_name(request.name)
        await self._decisions.set_tool(name, enabled, caller_of_call.get())
        return admin_pb2.SetToolResponse(tool=self._tools.tool_message(name))

    async def ListConfirmations(
        self, request: confirmation_pb2.ListConfirmationsRequest, context: Context
    ) -> confirmation_pb2.ListConfirmationsResponse:
        return list_confirmations(request, self._confirmations, self._room)

    async def ResolveConfirmation(
        self, request: confirmation_pb2.ResolveConfirmationRequest, context: Context
    ) -> confirmation_pb2.ResolveConfirmationResponse:
        return resolve_confirmation(request, self._confirmations, caller_of_call.get())

    async def ListAgents(
        self, request: agent_pb2.ListAgentsRequest, context: Context
    ) -> agent_pb2.ListAgentsResponse:
        return self._agents.list(request)

    async def AddAgent(
        self, request: agent_pb2.AddAgentRequest, context: Context
    ) -> agent_pb2.AddAgentResponse:
        return await self._agents.add(request)

    async def RotateAgent(
        self, request: agent_pb2.RotateAgentRequest, context: Context
    ) -> agent_pb2.RotateAgentResponse:
        return await self._agents.rotate(request)

    async def RevokeAgent(
        self, request: agent_pb2.RevokeAgentRequest, context: Context
    ) -> agent_pb2.RevokeAgentResponse:
        return await self._agents.revoke(request)

    async def ResetCircuit(
        self, request: circuit_pb2.ResetCircuitRequest, context: Context
    ) -> circuit_pb2.ResetCircuitResponse:
        name = _required_name(request.name)
        reset = await self._decisions.reset_circuit(name, caller_of_call.get())
        return circuit_pb2.ResetCircuitResponse(tool=self._tools.tool_message(name), reset=reset)

    def _plugins(self) -> dict[str, PluginStatus]:
        return {each.name: each for each in self._reload.plugins()}

    def _plugin(self, name: str) -> PluginStatus:
        known = self._plugins()
        found = known.get(_required_name(name))
        if found is None:
            near = nearest(name, known)
            remedy = f"did you mean {', '.join(near)}?" if near else "list the plugins to see their names"
            raise NotFoundError(f"there is no plugin {name!r}", remedy=remedy)
        return found


def _required_name(name: str) -> str:
    if not name:
        raise InvalidRequestError("name is empty", remedy="name what is meant")
    return name


def _required_enabled(request: admin_pb2.SetPluginRequest | admin_pb2.SetToolRequest) -> bool:
    if not request.HasField("enabled"):
        raise InvalidRequestError("enabled is missing", remedy="say true or false")
    return request.enabled


def _action(asked: str, default: str, other: str) -> str:
    if asked not in ("", default, other):
        raise InvalidRequestError(f"action {asked!r} does not exist", remedy=f"{default} or {other}")
    return asked or default


def _permissions(text: str) -> Mapping[str, object]:
    """The permissions that a request names. InvalidRequestError when it is no object of known ones."""
    remedy = "give a JSON object in the shape of a manifest's permissions"
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"permissions_json is no JSON: {error}", remedy=remedy) from None
    if not isinstance(value, dict):
        raise InvalidRequestError("permissions_json is no JSON object", remedy=remedy)
    for path, problem, advice in permission_faults(value):
        raise InvalidRequestError(f"{dotted(('permissions', *path))}: {problem}", remedy=advice)
    return {key: each for key, each in value.items() if each is not None}
