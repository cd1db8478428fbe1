"""The blocking client."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import grpc

from hermesd.api.v1 import admin_pb2, admin_pb2_grpc, call_pb2, tool_pb2, tool_pb2_grpc
from hermesd.client.address import choose_address
from hermesd.client.error import client_error, is_connection_trouble, was_never_sent
from hermesd.client.request import (
    ATTEMPTS,
    OPTIONS,
    RELOAD_S,
    TIMEOUT_S,
    backoff_s,
    call_request,
    call_timeout_s,
    grant_request,
    replay_request,
    token_metadata,
)
from hermesd.client.result import CallResult


class Client:
    """A connection to a daemon; may be shared by threads.

    `address` is `unix:PATH` or `HOST:PORT`; without one HERMESD_ADDRESS, then the usual places. Every
    RPC but a watch has a deadline (`timeout_s` seconds). Reads are tried again when the connection breaks,
    everything else only when it certainly was not sent. Raises ClientError and its kinds.
    """

    def __init__(
        self, address: str | None = None, *, token: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        choice = choose_address(address, os.environ)
        self.address = str(choice.address)
        self._tried = choice.tried
        self._timeout_s = timeout_s
        self._metadata = token_metadata(token)
        self._channel = grpc.insecure_channel(choice.address.target, options=OPTIONS)
        self._tools: Any = tool_pb2_grpc.ToolServiceStub(self._channel)
        self._admin: Any = admin_pb2_grpc.AdminServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; what still runs on it is cancelled."""
        self._channel.close()

    def call_tool(
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

        Sent at most once: tried again only when no connection was made. Asking again with the same
        `idempotency_key` brings the recorded answer and runs nothing. `timeout_ms` bounds the tool,
        `timeout_s` the RPC.
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
        return CallResult(self._write(self._tools.CallTool, request, deadline))

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
    ) -> Iterator[tool_pb2.StreamCallToolResponse]:
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

    def tools(
        self, *, include_unavailable: bool = False, source: str = "", domain: str = ""
    ) -> Iterator[tool_pb2.Tool]:
        """All tools, page by page."""
        token = ""
        while True:
            page = self.list_tools(
                page_size=1000,
                page_token=token,
                include_unavailable=include_unavailable,
                source=source,
                domain=domain,
            )
            yield from page.tools
            token = page.next_page_token
            if not token:
                return

    def plugins(self, *, state: str = "") -> Iterator[admin_pb2.Plugin]:
        """All plugins, page by page."""
        token = ""
        while True:
            page = self.list_plugins(page_size=1000, page_token=token, state=state)
            yield from page.plugins
            token = page.next_page_token
            if not token:
                return

    def list_tools(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        include_unavailable: bool = False,
        source: str = "",
        domain: str = "",
    ) -> tool_pb2.ListToolsResponse:
        """One page of the tools; `tools` goes through all pages."""
        answer: tool_pb2.ListToolsResponse = self._read(
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

    def get_tool(self, name: str) -> tool_pb2.GetToolResponse:
        """One tool. MissingError when there is none."""
        answer: tool_pb2.GetToolResponse = self._read(
            self._tools.GetTool, tool_pb2.GetToolRequest(name=name), self._timeout_s
        )
        return answer

    def cancel_call(self, request_id: str) -> tool_pb2.CancelCallResponse:
        """Cancel a call in flight. MissingError when there is none with that id."""
        answer: tool_pb2.CancelCallResponse = self._write(
            self._tools.CancelCall, tool_pb2.CancelCallRequest(request_id=request_id), self._timeout_s
        )
        return answer

    def get_status(self) -> admin_pb2.GetStatusResponse:
        """What the daemon is and does now."""
        answer: admin_pb2.GetStatusResponse = self._read(
            self._admin.GetStatus, admin_pb2.GetStatusRequest(), self._timeout_s
        )
        return answer

    def get_config(self) -> admin_pb2.GetConfigResponse:
        """The effective configuration, secrets masked."""
        answer: admin_pb2.GetConfigResponse = self._read(
            self._admin.GetConfig, admin_pb2.GetConfigRequest(), self._timeout_s
        )
        return answer

    def reload(
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
        answer: admin_pb2.ReloadResponse = self._write(
            self._admin.Reload,
            admin_pb2.ReloadRequest(
                name=name, dry_run=dry_run, atomic=atomic, no_wait=no_wait, if_revision=if_revision
            ),
            timeout_s,
        )
        return answer

    def drain(self) -> admin_pb2.DrainResponse:
        """Take no new calls."""
        answer: admin_pb2.DrainResponse = self._write(
            self._admin.Drain, admin_pb2.DrainRequest(), self._timeout_s
        )
        return answer

    def resume(self) -> admin_pb2.ResumeResponse:
        """Take calls again."""
        answer: admin_pb2.ResumeResponse = self._write(
            self._admin.Resume, admin_pb2.ResumeRequest(), self._timeout_s
        )
        return answer

    def shutdown(self) -> admin_pb2.ShutdownResponse:
        """End the daemon; answers at once."""
        answer: admin_pb2.ShutdownResponse = self._write(
            self._admin.Shutdown, admin_pb2.ShutdownRequest(), self._timeout_s
        )
        return answer

    def dump_state(self) -> admin_pb2.DumpStateResponse:
        """Everything that helps to find a fault."""
        answer: admin_pb2.DumpStateResponse = self._read(
            self._admin.DumpState, admin_pb2.DumpStateRequest(), self._timeout_s
        )
        return answer

    def list_plugins(
        self, *, page_size: int = 0, page_token: str = "", state: str = ""
    ) -> admin_pb2.ListPluginsResponse:
        """One page of the plugins; `plugins` goes through all pages."""
        answer: admin_pb2.ListPluginsResponse = self._read(
            self._admin.ListPlugins,
            admin_pb2.ListPluginsRequest(page_size=page_size, page_token=page_token, state=state),
            self._timeout_s,
        )
        return answer

    def get_plugin(self, name: str) -> admin_pb2.GetPluginResponse:
        """One plugin. MissingError when there is none."""
        answer: admin_pb2.GetPluginResponse = self._read(
            self._admin.GetPlugin, admin_pb2.GetPluginRequest(name=name), self._timeout_s
        )
        return answer

    def list_plugin_history(
        self, name: str, *, page_size: int = 0, page_token: str = ""
    ) -> admin_pb2.ListPluginHistoryResponse:
        """Contents that were served, newest first."""
        answer: admin_pb2.ListPluginHistoryResponse = self._read(
            self._admin.ListPluginHistory,
            admin_pb2.ListPluginHistoryRequest(name=name, page_size=page_size, page_token=page_token),
            self._timeout_s,
        )
        return answer

    def set_plugin(self, name: str, *, enabled: bool) -> admin_pb2.SetPluginResponse:
        """Enable or disable a plugin."""
        answer: admin_pb2.SetPluginResponse = self._write(
            self._admin.SetPlugin, admin_pb2.SetPluginRequest(name=name, enabled=enabled), self._timeout_s
        )
        return answer

    def trust_plugin(
        self, name: str, *, digest: str = "", isolation: str = "", follow: bool = False
    ) -> admin_pb2.TrustPluginResponse:
        """Pin a plugin's content as trusted."""
        answer: admin_pb2.TrustPluginResponse = self._write(
            self._admin.TrustPlugin,
            admin_pb2.TrustPluginRequest(
                name=name, digest=digest, isolation=isolation, follow=follow, action="trust"
            ),
            self._timeout_s,
        )
        return answer

    def untrust_plugin(self, name: str) -> admin_pb2.TrustPluginResponse:
        """Take trust back."""
        answer: admin_pb2.TrustPluginResponse = self._write(
            self._admin.TrustPlugin,
            admin_pb2.TrustPluginRequest(name=name, action="untrust"),
            self._timeout_s,
        )
        return answer

    def grant_plugin(self, name: str, permissions: Mapping[str, Any]) -> admin_pb2.GrantPluginResponse:
        """Grant permissions, in the shape of a manifest's."""
        answer: admin_pb2.GrantPluginResponse = self._write(
            self._admin.GrantPlugin, grant_request(name, permissions, "grant"), self._timeout_s
        )
        return answer

    def revoke_plugin(
        self, name: str, permissions: Mapping[str, Any] | None = None
    ) -> admin_pb2.GrantPluginResponse:
        """Take permissions back; None: all of them."""
        answer: admin_pb2.GrantPluginResponse = self._write(
            self._admin.GrantPlugin, grant_request(name, permissions or {}, "revoke"), self._timeout_s
        )
        return answer

    def rollback_plugin(self, name: str, *, digest: str = "") -> admin_pb2.RollbackPluginResponse:
        """Serve an earlier content again."""
        answer: admin_pb2.RollbackPluginResponse = self._write(
            self._admin.RollbackPlugin,
            admin_pb2.RollbackPluginRequest(name=name, digest=digest),
            self._timeout_s,
        )
        return answer

    def set_tool(self, name: str, *, enabled: bool) -> admin_pb2.SetToolResponse:
        """Enable or disable one tool."""
        answer: admin_pb2.SetToolResponse = self._write(
            self._admin.SetTool, admin_pb2.SetToolRequest(name=name, enabled=enabled), self._timeout_s
        )
        return answer

    def calls(
        self,
        *,
        tool: str = "",
        agent: str = "",
        code: str = "",
        session_id: str = "",
        plugin: str = "",
        parent_request_id: str = "",
        trace_id: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        failed: bool = False,
    ) -> Iterator[call_pb2.CallRecord]:
        """All calls that the filter means, page by page: those in flight, then the last one first."""
        token = ""
        while True:
            page = self.list_calls(
                page_size=1000,
                page_token=token,
                tool=tool,
                agent=agent,
                code=code,
                session_id=session_id,
                plugin=plugin,
                parent_request_id=parent_request_id,
                trace_id=trace_id,
                since=since,
                until=until,
                failed=failed,
            )
            yield from page.calls
            token = page.next_page_token
            if not token:
                return

    def list_calls(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        tool: str = "",
        agent: str = "",
        code: str = "",
        session_id: str = "",
        plugin: str = "",
        parent_request_id: str = "",
        trace_id: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        failed: bool = False,
    ) -> call_pb2.ListCallsResponse:
        """One page of the calls; `calls` goes through all pages. `tool` is a glob, the times are aware."""
        answer: call_pb2.ListCallsResponse = self._read(
            self._admin.ListCalls,
            call_pb2.ListCallsRequest(
                page_size=page_size,
                page_token=page_token,
                tool=tool,
                agent=agent,
                code=code,
                session_id=session_id,
                plugin=plugin,
                parent_request_id=parent_request_id,
                trace_id=trace_id,
                since=since,
                until=until,
                failed=failed,
            ),
            self._timeout_s,
        )
        return answer

    def get_call(self, request_id: str) -> call_pb2.GetCallResponse:
        """One call, in flight or ended. MissingError when there is no record of it."""
        answer: call_pb2.GetCallResponse = self._read(
            self._admin.GetCall, call_pb2.GetCallRequest(request_id=request_id), self._timeout_s
        )
        return answer

    def get_call_stats(
        self,
        *,
        tool: str = "",
        agent: str = "",
        session_id: str = "",
        plugin: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> call_pb2.GetCallStatsResponse:
        """How calls went: durations, codes, tools that are unused or mis-called."""
        answer: call_pb2.GetCallStatsResponse = self._read(
            self._admin.GetCallStats,
            call_pb2.GetCallStatsRequest(
                tool=tool, agent=agent, session_id=session_id, plugin=plugin, since=since, until=until
            ),
            self._timeout_s,
        )
        return answer

    def replay_call(
        self,
        request_id: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        confirmation_token: str = "",
        timeout_ms: int | None = None,
        timeout_s: float | None = None,
    ) -> CallResult:
        """Call a recorded call's tool again; `arguments` None: with the recorded ones.

        What may change something answers CONFIRMATION_REQUIRED first, with the token to give.
        """
        request = replay_request(request_id, arguments, confirmation_token, timeout_ms)
        deadline = call_timeout_s(timeout_ms, timeout_s, self._timeout_s)
        return CallResult(self._write(self._admin.ReplayCall, request, deadline))

    def watch_tools(self, *, after_seq: int | None = None) -> Iterator[tool_pb2.WatchToolsResponse]:
        """Changes of the catalogue; the first is `started`. WatchLostError: read again, then watch again."""
        return self._stream(self._tools.WatchTools, tool_pb2.WatchToolsRequest(after_seq=after_seq), None)

    def watch_events(
        self, *, after_seq: int | None = None, recent: int | None = None, follow: bool = True
    ) -> Iterator[admin_pb2.WatchEventsResponse]:
        """The daemon's events; the first is `started`."""
        return self._stream(
            self._admin.WatchEvents,
            admin_pb2.WatchEventsRequest(after_seq=after_seq, recent=recent, no_follow=not follow),
            None,
        )

    def read_plugin_log(
        self, name: str, *, lines: int | None = None, follow: bool = False
    ) -> Iterator[admin_pb2.ReadPluginLogResponse]:
        """The last lines that a plugin logged, then those to come."""
        return self._stream(
            self._admin.ReadPluginLog,
            admin_pb2.ReadPluginLogRequest(name=name, lines=lines, follow=follow),
            None,
        )

    def _read(self, rpc: Callable[..., Any], request: object, timeout_s: float) -> Any:
        """A read changes nothing: it may be sent again whenever the connection was at fault."""
        return self._send(rpc, request, timeout_s, is_connection_trouble)

    def _write(self, rpc: Callable[..., Any], request: object, timeout_s: float) -> Any:
        """What may have an effect is sent once."""
        return self._send(rpc, request, timeout_s, was_never_sent)

    def _send(
        self,
        rpc: Callable[..., Any],
        request: object,
        timeout_s: float,
        is_safe: Callable[[grpc.RpcError], bool],
    ) -> Any:
        attempt = 0
        while True:
            try:
                return rpc(request, timeout=timeout_s, metadata=self._metadata)
            except grpc.RpcError as error:
                attempt += 1
                if attempt == ATTEMPTS or not is_safe(error):
                    raise client_error(error, self._tried) from None
            time.sleep(backoff_s(attempt))

    def _stream(self, rpc: Callable[..., Any], request: object, timeout_s: float | None) -> Iterator[Any]:
        call = rpc(request, timeout=timeout_s, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise client_error(error, self._tried) from None
        finally:
            call.cancel()
