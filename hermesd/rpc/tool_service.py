"""ToolService: list, look up, call, cancel and watch tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hermesd.api.v1 import tool_pb2, tool_pb2_grpc
from hermesd.clock import Clock, uuid7
from hermesd.errors import FellBehindError, InvalidRequestError, NotFoundError
from hermesd.model.call import CallRequest, Code, Result
from hermesd.model.name import MAX_LENGTH, nearest
from hermesd.rpc import paging
from hermesd.rpc.call_events import CallEvents
from hermesd.rpc.closing import OpenStreams
from hermesd.rpc.deadline import own_deadline
from hermesd.rpc.fault import UnsupportedError
from hermesd.rpc.interceptor import Context, caller_of_call
from hermesd.rpc.ports import Calls, Entry, Registry
from hermesd.rpc.translate import (
    CALLABLE_STATES,
    ToolMessages,
    event_message,
    response_message,
    result_message,
)

MAX_REQUEST_ID = 128
MAX_SESSION_ID = 128
MAX_METADATA = 32
MAX_METADATA_CHARS = 1024
#: Room for everything of an answer that is not its data.
ENVELOPE_BYTES = 64 * 1024

#: Fields of a call whose feature this build lacks.
UNSUPPORTED = ("idempotency_key", "confirmation_token", "detach", "tool_call_id", "append", "context_id")


class ToolService(tool_pb2_grpc.ToolServiceServicer):  # type: ignore[misc] # generated, untyped
    """Translates; the dispatcher decides. `max_message_bytes` bounds one answer."""

    def __init__(
        self, calls: Calls, registry: Registry, streams: OpenStreams, clock: Clock, max_message_bytes: int
    ) -> None:
        self._calls = calls
        self._registry = registry
        self._streams = streams
        self._clock = clock
        self._max_data_bytes = max_message_bytes - ENVELOPE_BYTES
        self._messages = ToolMessages()

    async def ListTools(
        self, request: tool_pb2.ListToolsRequest, context: Context
    ) -> tool_pb2.ListToolsResponse:
        if request.session_id:
            raise _unsupported("session_id")
        size = paging.page_size(request.page_size)
        question = f"tools {request.include_unavailable} {request.source!r} {request.domain!r}"
        last = paging.after(request.page_token, question)
        catalogue = self._registry.catalogue
        self._messages.keep_only(catalogue.tools)
        names = [name for name, entry in catalogue.tools.items() if self._asked_for(entry, request)]
        page, more = paging.slice_names(names, size, last)
        room = self._max_data_bytes // 2
        tools = paging.fitting(page, lambda name: self._message(catalogue.tools[name]), room)
        more = more or len(tools) < len(page)
        return tool_pb2.ListToolsResponse(
            tools=tools,
            next_page_token=paging.page_token(page[len(tools) - 1], question) if more else "",
            generation=catalogue.generation,
            tokens=self._messages.tokens(catalogue.tools[name] for name in names),
        )

    async def GetTool(self, request: tool_pb2.GetToolRequest, context: Context) -> tool_pb2.GetToolResponse:
        catalogue = self._registry.catalogue
        entry = catalogue.find(request.name)
        if entry is None:
            raise not_found_tool(request.name, catalogue.tools)
        return tool_pb2.GetToolResponse(tool=self._message(entry), generation=catalogue.generation)

    def tool_message(self, name: str) -> tool_pb2.Tool | None:
        """The tool as it stands now, or None."""
        entry = self._registry.catalogue.find(name)
        return None if entry is None else self._message(entry)

    def _message(self, entry: Entry) -> tool_pb2.Tool:
        return self._messages.message(entry, self._registry.standing(entry))

    def _asked_for(self, entry: Entry, request: tool_pb2.ListToolsRequest) -> bool:
        if request.source and entry.source != request.source:
            return False
        if request.domain and entry.definition.domain != request.domain:
            return False
        return request.include_unavailable or self._registry.standing(entry).state in CALLABLE_STATES

    async def CallTool(
        self, request: tool_pb2.CallToolRequest, context: Context
    ) -> tool_pb2.CallToolResponse:
        result = await self._calls.call(self._call_request(request, context))
        return response_message(self._bounded(result))

    async def StreamCallTool(self, request: tool_pb2.StreamCallToolRequest, context: Context) -> None:
        call = self._call_request(request.call, context)
        events: CallEvents[Result] = CallEvents()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run(call, events), name=f"call {call.request_id}")
            await asyncio.sleep(0)  # a call that is refused at once is an error, not a stream
            refused = events.failure
            if refused is None:
                await self._relay(call, events, context)
                refused = events.failure
        if refused is not None:
            raise refused

    async def _run(self, call: CallRequest, events: CallEvents[Result]) -> None:
        try:
            events.finish(await self._calls.call(call, events.emit))
        except Exception as error:  # noqa: BLE001 - handed to the reader, which raises it
            events.fail(error)

    async def _relay(self, call: CallRequest, events: CallEvents[Result], context: Context) -> None:
        started = tool_pb2.CallStarted(request_id=call.request_id)
        await context.write(tool_pb2.StreamCallToolResponse(seq=1, started=started))
        while (event := await events.next()) is not None:
            await context.write(event_message(event))
        if events.failure is None:
            seq, result, dropped = events.end()
            message = result_message(self._bounded(result))
            await context.write(
                tool_pb2.StreamCallToolResponse(seq=seq, result=message, dropped_logs=dropped)
            )

    async def CancelCall(
        self, request: tool_pb2.CancelCallRequest, context: Context
    ) -> tool_pb2.CancelCallResponse:
        if not request.request_id:
            raise InvalidRequestError("request_id is empty", remedy="name the call to cancel")
        if not self._calls.cancel(request.request_id, caller_of_call.get()):
            raise NotFoundError(f"there is no call {request.request_id!r} in flight")
        return tool_pb2.CancelCallResponse()

    async def WatchTools(self, request: tool_pb2.WatchToolsRequest, context: Context) -> None:
        begin = begin_after(request, self._registry.last_seq)
        changes = self._registry.watch(begin)
        generation = self._registry.catalogue.generation
        started = tool_pb2.WatchStarted(generation=generation)
        await context.write(tool_pb2.WatchToolsResponse(seq=begin, started=started))
        async for each in self._streams.each(changes):
            change = tool_pb2.ToolChange(kind=each.kind, name=each.name, generation=each.generation)
            await context.write(tool_pb2.WatchToolsResponse(seq=each.seq, change=change))

    def _call_request(self, request: tool_pb2.CallToolRequest, context: Context) -> CallRequest:
        """The call that is asked for. Raises InvalidRequestError or UnsupportedError."""
        # What was given and nothing else: to ask for each field would take most of the time.
        given = {field.name: value for field, value in request.ListFields()}
        _check_call(given)
        return CallRequest(
            tool=given["name"],
            arguments_json=given.get("arguments_json", "{}"),
            request_id=given.get("request_id") or uuid7(self._clock),
            caller=caller_of_call.get(),
            session_id=given.get("session_id", ""),
            timeout_ms=given.get("timeout_ms"),
            deadline=own_deadline(context.time_remaining(), self._clock.monotonic()),
            metadata=dict(given["metadata"]) if "metadata" in given else _NONE,
        )

    def _bounded(self, result: Result) -> Result:
        """The result, or INVALID_RESULT when its data would not fit into one message."""
        text = result.data_json
        limit = self._max_data_bytes
        if len(text) * 4 <= limit:
            return result
        size = len(text.encode("utf-8", "replace"))
        if size <= limit:
            return result
        reason = {"reason": "too_large", "remedy": "ask for less, or have the tool write a file and name it"}
        return replace(
            result,
            code=Code.INVALID_RESULT,
            message=f"the result has {size} bytes, more than the {limit} that one answer can carry",
            data_json="null",
            retryable=False,
            detail={**result.detail, **reason},
        )


def begin_after(request: object, last_seq: int) -> int:
    """After which event a watch begins. OUT_OF_RANGE for one that has not happened yet."""
    if not request.HasField("after_seq"):  # type: ignore[attr-defined] # any of the watch requests
        return last_seq
    asked: int = request.after_seq  # type: ignore[attr-defined]
    if asked < 0:
        raise InvalidRequestError(f"after_seq {asked} is negative")
    if asked > last_seq:
        raise FellBehindError(
            f"after_seq {asked} has not happened yet; the daemon was restarted since",
            remedy="read the present state again and watch from now on",
        )
    return asked


def not_found_tool(name: str, known: object) -> NotFoundError:
    """No such tool; the nearest names are in the remedy."""
    near = nearest(name, known)  # type: ignore[arg-type] # any iterable of names
    remedy = f"did you mean {', '.join(near)}?" if near else "list the tools to see their names"
    return NotFoundError(f"there is no tool {name!r}", remedy=remedy)


_NONE: Mapping[str, str] = MappingProxyType({})


def _check_call(given: Mapping[str, Any]) -> None:
    """Refuse a request that cannot be a call. The arguments are the dispatcher's to judge."""
    _check_name(given.get("name", ""))
    if len(given) == 1 or given.keys() == {"name", "arguments_json"}:
        return
    for field in UNSUPPORTED:
        if field in given:
            raise _unsupported(field)
    for field, most in (("request_id", MAX_REQUEST_ID), ("session_id", MAX_SESSION_ID)):
        text = given.get(field, "")
        if len(text) > most or not text.isprintable():
            raise InvalidRequestError(f"{field} must be at most {most} printable characters")
    if given.get("timeout_ms", 1) < 1:
        raise InvalidRequestError(f"timeout_ms must be at least 1, got {given['timeout_ms']}")
    metadata = given.get("metadata", _NONE)
    if len(metadata) > MAX_METADATA:
        raise InvalidRequestError(f"metadata has {len(metadata)} entries, more than {MAX_METADATA}")
    for key, value in metadata.items():
        if len(key) + len(value) > MAX_METADATA_CHARS:
            raise InvalidRequestError(f"metadata {key[:50]!r} is longer than {MAX_METADATA_CHARS} characters")


def _check_name(name: str) -> None:
    if not name:
        raise InvalidRequestError("name is empty", remedy="name the tool to call")
    if len(name) > MAX_LENGTH:
        raise InvalidRequestError(f"name is longer than {MAX_LENGTH} characters")


def _unsupported(field: str) -> UnsupportedError:
    return UnsupportedError(
        f"this build does not have {field}", remedy=f"leave {field} out, or use a build that has it"
    )
