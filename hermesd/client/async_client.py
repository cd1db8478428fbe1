"""The asynchronous client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import grpc

from hermesd.api.v1 import (
    admin_pb2_grpc,
    agent_pb2,
    agent_pb2_grpc,
    output_pb2,
    tool_pb2,
    tool_pb2_grpc,
)
from hermesd.client.address import choose_address
from hermesd.client.async_administration import AsyncAdministration
from hermesd.client.error import (
    BusyError,
    ConnectionLostError,
    UnreachableError,
    client_error,
    is_connection_trouble,
    was_never_sent,
)
from hermesd.client.request import (
    ATTEMPTS,
    OPTIONS,
    TIMEOUT_S,
    WATCH_ATTEMPTS,
    backoff_s,
    call_request,
    call_timeout_s,
    token_metadata,
)
from hermesd.client.result import CallResult
from hermesd.client.tls import Tls, check_private


class AsyncClient(AsyncAdministration):
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
        self._admin = admin_pb2_grpc.AdminServiceStub(self._channel)
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
        detach: bool = False,
    ) -> CallResult:
        """Call a tool. Its failure is a result; `raise_for_error()` makes it an error.

        Sent at most once: tried again only when no connection was made. With an `idempotency_key` it is sent
        again when the connection broke, as the same key brings the recorded answer and runs nothing.
        `timeout_ms` bounds the tool, `timeout_s` the RPC. `confirmation_token`: what CONFIRMATION_REQUIRED
        gave for this very call. `detach`: answered at once; `watch_call` gives the result.
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
            detach=detach,
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

    def watch_call(
        self, request_id: str, *, after_seq: int | None = None
    ) -> AsyncIterator[tool_pb2.WatchCallResponse]:
        """A detached call's progress and log lines: `started` first, `result` last, also when it has ended.

        MissingError when there is none with that id, or it has expired.
        """
        request = tool_pb2.WatchCallRequest(request_id=request_id, after_seq=after_seq)
        return self._stream(self._tools.WatchCall, request, None)

    async def wait_for_call(self, request_id: str) -> CallResult:
        """The result of a detached call, when it has ended. MissingError.

        A connection that breaks meanwhile is made anew; a daemon that restarts says what became of the call.
        """
        attempt = 0
        result: CallResult | None = None
        while True:
            try:
                async for event in self.watch_call(request_id):
                    attempt = 0
                    if event.HasField("result"):
                        result = CallResult(tool_pb2.CallToolResponse(result=event.result))
            except (UnreachableError, ConnectionLostError, BusyError):
                attempt += 1
                if attempt == WATCH_ATTEMPTS:
                    raise
            if result is not None:
                return result
            await self._pause(attempt)

    async def read_call_output(
        self, request_id: str, *, offset: int = 0, part: str = ""
    ) -> output_pb2.ReadCallOutputResponse:
        """One page of a result that was cut; `call_output` goes through all pages.

        `part`: data or content. MissingError when there is none, or it has expired.
        """
        answer: output_pb2.ReadCallOutputResponse = await self._read(
            self._tools.ReadCallOutput,
            output_pb2.ReadCallOutputRequest(request_id=request_id, offset=offset, part=part),
            self._timeout_s,
        )
        return answer

    async def call_output(self, request_id: str, *, part: str = "") -> str:
        """The whole JSON text of a result that was cut, or of a detached call. MissingError."""
        pages = []
        offset = 0
        while True:
            page = await self.read_call_output(request_id, offset=offset, part=part)
            pages.append(page.data)
            offset = page.next_offset
            if offset >= page.total:
                return "".join(pages)

    async def who_am_i(self) -> agent_pb2.WhoAmIResponse:
        """Who the daemon takes this client for, and what that may do."""
        answer: agent_pb2.WhoAmIResponse = await self._read(
            self._agent.WhoAmI, agent_pb2.WhoAmIRequest(), self._timeout_s
        )
        return answer

    def watch_tools(self, *, after_seq: int | None = None) -> AsyncIterator[tool_pb2.WatchToolsResponse]:
        """Changes of the catalogue; the first is `started`. WatchLostError: read again, then watch again."""
        return self._stream(self._tools.WatchTools, tool_pb2.WatchToolsRequest(after_seq=after_seq), None)

    async def _read(self, rpc: Callable[..., Awaitable[Any]], request: object, timeout_s: float) -> Any:
        """What changes nothing, or nothing more, may be sent again whenever the connection was at fault."""
        return await self._send(rpc, request, timeout_s, is_connection_trouble)

    async def _write(self, rpc: Callable[..., Awaitable[Any]], request: object, timeout_s: float) -> Any:
        """What may have an effect is sent once."""
        return await self._send(rpc, request, timeout_s, was_never_sent)

    async def _pause(self, attempt: int) -> None:
        await asyncio.sleep(backoff_s(min(attempt, 5)))

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
            await self._pause(attempt)

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
