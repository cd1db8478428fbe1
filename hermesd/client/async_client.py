"""The asynchronous client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import grpc

from hermesd.api.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    agent_pb2,
    agent_pb2_grpc,
    circuit_pb2,
    confirmation_pb2,
    tool_pb2,
    tool_pb2_grpc,
)
from hermesd.client.address import choose_address
from hermesd.client.error import client_error, is_connection_trouble, was_never_sent
from hermesd.client.request import (
    ATTEMPTS,
    OPTIONS,
    RELOAD_S,
    TIMEOUT_S,
    add_agent_request,
    backoff_s,
    call_request,
    call_timeout_s,
    grant_request,
    token_metadata,
)
from hermesd.client.result import CallResult
from hermesd.client.tls import Tls, check_private


class AsyncClient:
    """A connection to a daemon; use it on one event loop.

    `address` is `unix:PATH` or `HOST:PORT`; without one HERMESD_ADDRESS, then the usual places. `token` says
    which agent calls, and never crosses a network in the clear; `tls` encrypts. Every RPC but a watch has a
    deadline (`timeout_s` seconds). Reads are tried again when the connection breaks, everything else only
    when it certainly was not sent. Raises ClientError and its kinds.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        tls: Tls | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        choice = choose_address(address, os.environ)
        self.address = str(choice.address)
        self._tried = choice.tried
        self._timeout_s = timeout_s
        check_private(choice.address, token, tls)
        self._metadata = token_metadata(token)
        self._channel = (
            grpc.aio.insecure_channel(choice.address.target, options=OPTIONS)
            if tls is None
            else grpc.aio.secure_channel(choice.address.target, tls.credentials(), options=OPTIONS)
        )
        self._tools: Any = tool_pb2_grpc.ToolServiceStub(self._channel)
        self._admin: Any = admin_pb2_grpc.AdminServiceStub(self._channel)
        self._agent: Any = agent_pb2_grpc.AgentServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connection; what still runs on it is cancelled."""
        await self._channel.close()

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        session_id: str = "",
        request_id: str = "",
        timeout_ms: int | None = None,
        timeout_s: float | None = None,
        idempotency_key: str = "",
        confirmation_token: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> CallResult:
        """Call a tool. Its failure is a result; `raise_for_error()` makes it an error.

        Sent at most once: tried again only when no connection was made. With an `idempotency_key` it is sent
        again when the connection broke, as the same key brings the recorded answer and runs nothing.
        `timeout_ms` bounds the tool, `timeout_s` the RPC. `confirmation_token`: what CONFIRMATION_REQUIRED
        gave for this very call.
        """
        request = call_request(
            name,
            arguments,
            session_id=session_id,
            request_id=request_id,
            timeout_ms=timeout_ms,
            idempotency_key=idempotency_key,
            confirmation_token=confirmation_token,
            metadata=metadata,
        )
        deadline = call_timeout_s(timeout_ms, timeout_s, self._timeout_s)
        send = self._read if idempotency_key else self._write
        return CallResult(await send(self._tools.CallTool, request, deadline))

    def stream_call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        session_id: str = "",
        request_id: str = "",
        timeout_ms: int | None = None,
        timeout_s: float | None = None,
        idempotency_key: str = "",
        confirmation_token: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> AsyncIterator[tool_pb2.StreamCallToolResponse]:
        """Call a tool and see its progress and log lines: `started` first, `result` last.

        Closing the iterator cancels the call.
        """
        call = call_request(
            name,
            arguments,
            session_id=session_id,
            request_id=request_id,
            timeout_ms=timeout_ms,
            idempotency_key=idempotency_key,
            confirmation_token=confirmation_token,
            metadata=metadata,
        )
        deadline = call_timeout_s(timeout_ms, timeout_s, self._timeout_s)
        return self._stream(self._tools.StreamCallTool, tool_pb2.StreamCallToolRequest(call=call), deadline)

    async def tools(
        self, *, include_unavailable: bool = False, source: str = "", domain: str = ""
    ) -> AsyncIterator[tool_pb2.Tool]:
        """All tools, page by page."""
        token = ""
        while True:
            page = await self.list_tools(
                page_size=1000,
                page_token=token,
                include_unavailable=include_unavailable,
                source=source,
                domain=domain,
            )
            for tool in page.tools:
                yield tool
            token = page.next_page_token
            if not token:
                return

    async def plugins(self, *, state: str = "") -> AsyncIterator[admin_pb2.Plugin]:
        """All plugins, page by page."""
        token = ""
        while True:
            page = await self.list_plugins(page_size=1000, page_token=token, state=state)
            for plugin in page.plugins:
                yield plugin
            token = page.next_page_token
            if not token:
                return

    async def agents(self) -> AsyncIterator[agent_pb2.Agent]:
        """All agents, page by page."""
        token = ""
        while True:
            page = await self.list_agents(page_size=1000, page_token=token)
            for agent in page.agents:
                yield agent
            token = page.next_page_token
            if not token:
                return

    async def list_tools(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        include_unavailable: bool = False,
        source: str = "",
        domain: str = "",
    ) -> tool_pb2.ListToolsResponse:
        """One page of the tools; `tools` goes through all pages."""
        answer: tool_pb2.ListToolsResponse = await self._read(
            self._tools.ListTools,
            tool_pb2.ListToolsRequest(
                page_size=page_size,
                page_token=page_token,
                include_unavailable=include_unavailable,
                source=source,
                domain=domain,
            ),
            self._timeout_s,
        )
        return answer

    async def get_tool(self, name: str) -> tool_pb2.GetToolResponse:
        """One tool. MissingError when there is none."""
        answer: tool_pb2.GetToolResponse = await self._read(
            self._tools.GetTool, tool_pb2.GetToolRequest(name=name), self._timeout_s
        )
        return answer

    async def cancel_call(self, request_id: str) -> tool_pb2.CancelCallResponse:
        """Cancel a call in flight. MissingError when there is none with that id."""
        answer: tool_pb2.CancelCallResponse = await self._write(
            self._tools.CancelCall, tool_pb2.CancelCallRequest(request_id=request_id), self._timeout_s
        )
        return answer

    async def get_status(self) -> admin_pb2.GetStatusResponse:
        """What the daemon is and does now."""
        answer: admin_pb2.GetStatusResponse = await self._read(
            self._admin.GetStatus, admin_pb2.GetStatusRequest(), self._timeout_s
        )
        return answer

    async def get_config(self) -> admin_pb2.GetConfigResponse:
        """The effective configuration, secrets masked."""
        answer: admin_pb2.GetConfigResponse = await self._read(
            self._admin.GetConfig, admin_pb2.GetConfigRequest(), self._timeout_s
        )
        return answer

    async def reload(
        self,
        name: str = "",
        *,
        dry_run: bool = False,
        atomic: bool = False,
        no_wait: bool = False,
        if_revision: str = "",
        timeout_s: float = RELOAD_S,
    ) -> admin_pb2.ReloadResponse:
        """Read configuration and plugins again; rejections are in the answer. RaceLostError: old revision."""
        answer: admin_pb2.ReloadResponse = await self._write(
            self._admin.Reload,
            admin_pb2.ReloadRequest(
                name=name, dry_run=dry_run, atomic=atomic, no_wait=no_wait, if_revision=if_revision
            ),
            timeout_s,
        )
        return answer

    async def drain(self) -> admin_pb2.DrainResponse:
        """Take no new calls."""
        answer: admin_pb2.DrainResponse = await self._write(
            self._admin.Drain, admin_pb2.DrainRequest(), self._timeout_s
        )
        return answer

    async def resume(self) -> admin_pb2.ResumeResponse:
        """Take calls again."""
        answer: admin_pb2.ResumeResponse = await self._write(
            self._admin.Resume, admin_pb2.ResumeRequest(), self._timeout_s
        )
        return answer

    async def shutdown(self) -> admin_pb2.ShutdownResponse:
        """End the daemon; answers at once."""
        answer: admin_pb2.ShutdownResponse = await self._write(
            self._admin.Shutdown, admin_pb2.ShutdownRequest(), self._timeout_s
        )
        return answer

    async def dump_state(self) -> admin_pb2.DumpStateResponse:
        """Everything that helps to find a fault."""
        answer: admin_pb2.DumpStateResponse = await self._read(
            self._admin.DumpState, admin_pb2.DumpStateRequest(), self._timeout_s
        )
        return answer

    async def list_plugins(
        self, *, page_size: int = 0, page_token: str = "", state: str = ""
    ) -> admin_pb2.ListPluginsResponse:
        """One page of the plugins; `plugins` goes through all pages."""
        answer: admin_pb2.ListPluginsResponse = await self._read(
            self._admin.ListPlugins,
            admin_pb2.ListPluginsRequest(page_size=page_size, page_token=page_token, state=state),
            self._timeout_s,
        )
        return answer

    async def get_plugin(self, name: str) -> admin_pb2.GetPluginResponse:
        """One plugin. MissingError when there is none."""
        answer: admin_pb2.GetPluginResponse = await self._read(
            self._admin.GetPlugin, admin_pb2.GetPluginRequest(name=name), self._timeout_s
        )
        return answer

    async def list_plugin_history(
        self, name: str, *, page_size: int = 0, page_token: str = ""
    ) -> admin_pb2.ListPluginHistoryResponse:
        """Contents that were served, newest first."""
        answer: admin_pb2.ListPluginHistoryResponse = await self._read(
            self._admin.ListPluginHistory,
            admin_pb2.ListPluginHistoryRequest(name=name, page_size=page_size, page_token=page_token),
            self._timeout_s,
        )
        return answer

    async def set_plugin(self, name: str, *, enabled: bool) -> admin_pb2.SetPluginResponse:
        """Enable or disable a plugin."""
        answer: admin_pb2.SetPluginResponse = await self._write(
            self._admin.SetPlugin, admin_pb2.SetPluginRequest(name=name, enabled=enabled), self._timeout_s
        )
        return answer

    async def trust_plugin(
        self, name: str, *, digest: str = "", isolation: str = "", follow: bool = False
    ) -> admin_pb2.TrustPluginResponse:
        """Pin a plugin's content as trusted."""
        answer: admin_pb2.TrustPluginResponse = await self._write(
            self._admin.TrustPlugin,
            admin_pb2.TrustPluginRequest(
                name=name, digest=digest, isolation=isolation, follow=follow, action="trust"
            ),
            self._timeout_s,
        )
        return answer

    async def untrust_plugin(self, name: str) -> admin_pb2.TrustPluginResponse:
        """Take trust back."""
        answer: admin_pb2.TrustPluginResponse = await self._write(
            self._admin.TrustPlugin,
            admin_pb2.TrustPluginRequest(name=name, action="untrust"),
            self._timeout_s,
        )
        return answer

    async def grant_plugin(self, name: str, permissions: Mapping[str, Any]) -> admin_pb2.GrantPluginResponse:
        """Grant permissions, in the shape of a manifest's."""
        answer: admin_pb2.GrantPluginResponse = await self._write(
            self._admin.GrantPlugin, grant_request(name, permissions, "grant"), self._timeout_s
        )
        return answer

    async def revoke_plugin(
        self, name: str, permissions: Mapping[str, Any] | None = None
    ) -> admin_pb2.GrantPluginResponse:
        """Take permissions back; None: all of them."""
        answer: admin_pb2.GrantPluginResponse = await self._write(
            self._admin.GrantPlugin, grant_request(name, permissions or {}, "revoke"), self._timeout_s
        )
        return answer

    async def rollback_plugin(self, name: str, *, digest: str = "") -> admin_pb2.RollbackPluginResponse:
        """Serve an earlier content again."""
        answer: admin_pb2.RollbackPluginResponse = await self._write(
            self._admin.RollbackPlugin,
            admin_pb2.RollbackPluginRequest(name=name, digest=digest),
            self._timeout_s,
        )
        return answer

    async def set_tool(self, name: str, *, enabled: bool) -> admin_pb2.SetToolResponse:
        """Enable or disable one tool."""
        answer: admin_pb2.SetToolResponse = await self._write(
            self._admin.SetTool, admin_pb2.SetToolRequest(name=name, enabled=enabled), self._timeout_s
        )
        return answer

    async def who_am_i(self) -> agent_pb2.WhoAmIResponse:
        """Who the daemon takes this client for, and what that may do."""
        answer: agent_pb2.WhoAmIResponse = await self._read(
            self._agent.WhoAmI, agent_pb2.WhoAmIRequest(), self._timeout_s
        )
        return answer

    async def list_agents(self, *, page_size: int = 0, page_token: str = "") -> agent_pb2.ListAgentsResponse:
        """One page of the agents; `agents` goes through all pages."""
        answer: agent_pb2.ListAgentsResponse = await self._read(
            self._admin.ListAgents,
            agent_pb2.ListAgentsRequest(page_size=page_size, page_token=page_token),
            self._timeout_s,
        )
        return answer

    async def add_agent(
        self,
        name: str,
        *,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        roles: Sequence[str] = (),
        ceiling: str = "",
        self_confirm: bool = False,
        expires: datetime | None = None,
    ) -> agent_pb2.AddAgentResponse:
        """Make an agent; its token is in the answer and nowhere else. `expires` is aware."""
        request = add_agent_request(
            name,
            allow=allow,
            deny=deny,
            roles=roles,
            ceiling=ceiling,
            self_confirm=self_confirm,
            expires=expires,
        )
        answer: agent_pb2.AddAgentResponse = await self._write(self._admin.AddAgent, request, self._timeout_s)
        return answer

    async def rotate_agent(self, name: str) -> agent_pb2.RotateAgentResponse:
        """Give an agent a new token; the old one is refused from now on."""
        answer: agent_pb2.RotateAgentResponse = await self._write(
            self._admin.RotateAgent, agent_pb2.RotateAgentRequest(name=name), self._timeout_s
        )
        return answer

    async def revoke_agent(self, name: str) -> agent_pb2.RevokeAgentResponse:
        """Remove an agent; what it has open ends."""
        answer: agent_pb2.RevokeAgentResponse = await self._write(
            self._admin.RevokeAgent, agent_pb2.RevokeAgentRequest(name=name), self._timeout_s
        )
        return answer

    async def list_confirmations(
        self, *, page_size: int = 0, page_token: str = "", state: str = ""
    ) -> confirmation_pb2.ListConfirmationsResponse:
        """One page of the calls that wait for somebody's agreement or have it, the oldest first."""
        answer: confirmation_pb2.ListConfirmationsResponse = await self._read(
            self._admin.ListConfirmations,
            confirmation_pb2.ListConfirmationsRequest(
                page_size=page_size, page_token=page_token, state=state
            ),
            self._timeout_s,
        )
        return answer

    async def approve_confirmation(
        self, confirmation: str, *, reason: str = ""
    ) -> confirmation_pb2.ResolveConfirmationResponse:
        """Let a call run that waits for the operator; its id, or its token. MissingError: there is none."""
        answer: confirmation_pb2.ResolveConfirmationResponse = await self._write(
            self._admin.ResolveConfirmation,
            confirmation_pb2.ResolveConfirmationRequest(id=confirmation, action="approve", reason=reason),
            self._timeout_s,
        )
        return answer

    async def deny_confirmation(
        self, confirmation: str, *, reason: str = ""
    ) -> confirmation_pb2.ResolveConfirmationResponse:
        """Refuse a call that waits; its caller is told `reason`. MissingError: there is none."""
        answer: confirmation_pb2.ResolveConfirmationResponse = await self._write(
            self._admin.ResolveConfirmation,
            confirmation_pb2.ResolveConfirmationRequest(id=confirmation, action="deny", reason=reason),
            self._timeout_s,
        )
        return answer

    async def reset_circuit(self, name: str) -> circuit_pb2.ResetCircuitResponse:
        """Let a tool be called at once that is held back because it could not be reached."""
        answer: circuit_pb2.ResetCircuitResponse = await self._write(
            self._admin.ResetCircuit, circuit_pb2.ResetCircuitRequest(name=name), self._timeout_s
        )
        return answer

    def watch_tools(self, *, after_seq: int | None = None) -> AsyncIterator[tool_pb2.WatchToolsResponse]:
        """Changes of the catalogue; the first is `started`. WatchLostError: read again, then watch again."""
        return self._stream(self._tools.WatchTools, tool_pb2.WatchToolsRequest(after_seq=after_seq), None)

    def watch_events(
        self, *, after_seq: int | None = None, recent: int | None = None, follow: bool = True
    ) -> AsyncIterator[admin_pb2.WatchEventsResponse]:
        """The daemon's events; the first is `started`."""
        return self._stream(
            self._admin.WatchEvents,
            admin_pb2.WatchEventsRequest(after_seq=after_seq, recent=recent, no_follow=not follow),
            None,
        )

    def read_plugin_log(
        self, name: str, *, lines: int | None = None, follow: bool = False
    ) -> AsyncIterator[admin_pb2.ReadPluginLogResponse]:
        """The last lines that a plugin logged, then those to come."""
        return self._stream(
            self._admin.ReadPluginLog,
            admin_pb2.ReadPluginLogRequest(name=name, lines=lines, follow=follow),
            None,
        )

    async def _read(self, rpc: Callable[..., Awaitable[Any]], request: object, timeout_s: float) -> Any:
        """What changes nothing, or nothing more, may be sent again whenever the connection was at fault."""
        return await self._send(rpc, request, timeout_s, is_connection_trouble)

    async def _write(self, rpc: Callable[..., Awaitable[Any]], request: object, timeout_s: float) -> Any:
        """What may have an effect is sent once."""
        return await self._send(rpc, request, timeout_s, was_never_sent)

    async def _send(
        self,
        rpc: Callable[..., Awaitable[Any]],
        request: object,
        timeout_s: float,
        is_safe: Callable[[grpc.RpcError], bool],
    ) -> Any:
        attempt = 0
        while True:
            try:
                return await rpc(request, timeout=timeout_s, metadata=self._metadata)
            except grpc.aio.AioRpcError as error:
                attempt += 1
                if attempt == ATTEMPTS or not is_safe(error):
                    raise client_error(error, self._tried) from None
            await asyncio.sleep(backoff_s(attempt))

    async def _stream(
        self, rpc: Callable[..., Any], request: object, timeout_s: float | None
    ) -> AsyncIterator[Any]:
        call = rpc(request, timeout=timeout_s, metadata=self._metadata)
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            raise client_error(error, self._tried) from None
        finally:
            call.cancel()
