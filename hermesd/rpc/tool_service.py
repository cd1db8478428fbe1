"""ToolService: list, look up, call, cancel and watch tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from hermesd.access.policy import decide
from hermesd.api.v1 import output_pb2, tool_pb2, tool_pb2_grpc
from hermesd.clock import Clock, IdMaker
from hermesd.errors import FellBehindError, InvalidRequestError, NotFoundError
from hermesd.model.call import Caller, CallRequest, Code, Result
from hermesd.model.name import MAX_LENGTH, nearest
from hermesd.model.status import CALLABLE_STATES
from hermesd.rpc import paging
from hermesd.rpc.call_events import CallEvent, CallEvents
from hermesd.rpc.closing import OpenStreams
from hermesd.rpc.deadline import own_deadline
from hermesd.rpc.fault import UnsupportedError
from hermesd.rpc.interceptor import Context, Denied, caller_of_call
from hermesd.rpc.ports import Calls, Detached, Entry, Outputs, Registry, ToolChange
from hermesd.rpc.trace import trace_context
from hermesd.rpc.translate import (
    ToolMessages,
    event_message,
    response_message,
    result_message,
)
from hermesd.serving.journal import JournalEvent

MAX_REQUEST_ID = 128
MAX_SESSION_ID = 128
MAX_IDEMPOTENCY_KEY = 255
MAX_METADATA = 32
MAX_METADATA_CHARS = 1024
#: Room for everything of an answer that is not its data.
ENVELOPE_BYTES = 64 * 1024

#: Fields of a call whose feature this build lacks.
UNSUPPORTED = ("tool_call_id", "append", "context_id")


class ToolService(tool_pb2_grpc.ToolServiceServicer):  # type: ignore[misc] # generated, untyped
    """Translates; the dispatcher decides. `max_message_bytes` bounds one answer."""

    def __init__(
        self,
        calls: Calls,
        registry: Registry,
        streams: OpenStreams,
        clock: Clock,
        max_message_bytes: int,
        *,
        detached: Detached,
        outputs: Outputs,
        denied: Denied = lambda *told: None,
    ) -> None:
        self._calls = calls
        self._detached = detached
        self._outputs = outputs
        self._registry = registry
        self._streams = streams
        self._clock = clock
        self._ids = IdMaker(clock)
        self._max_data_bytes = max_message_bytes - ENVELOPE_BYTES
        self._messages = ToolMessages()
        self._denied = denied

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
        caller = caller_of_call.get()
        names = [
            name
            for name, entry in catalogue.tools.items()
            if self._asked_for(entry, request) and decide(caller, "see", entry.definition).visible
        ]
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
        entry, caller = catalogue.find(request.name), caller_of_call.get()
        seeing = None if entry is None else decide(caller, "see", entry.definition)
        if entry is None or seeing is None or not seeing.visible:
            if seeing is not None:
                self._denied(caller, "see", request.name, seeing.reason)
            tools = catalogue.tools.items()
            seen = [name for name, each in tools if decide(caller, "see", each.definition).visible]
            raise not_found_tool(request.name, seen)
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
        call = self._call_request(request, context)
        result = await (self._detached.start(call) if call.detach else self._calls.call(call))
        return response_message(self._bounded(result))

    async def StreamCallTool(self, request: tool_pb2.StreamCallToolRequest, context: Context) -> None:
        call = self._call_request(request.call, context)
        if call.detach:
            raise InvalidRequestError(
                "a detached call has no stream of its own", remedy="use CallTool, then WatchCall"
            )
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
            await context.write(event_message(event, tool_pb2.StreamCallToolResponse))
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

    async def WatchCall(self, request: tool_pb2.WatchCallRequest, context: Context) -> None:
        after_seq = request.after_seq if request.HasField("after_seq") else None
        caller = caller_of_call.get()
        events = await self._detached.watch(_call_id(request.request_id), caller, after_seq)
        async for each in self._streams.each(events):
            await context.write(self._watch_message(each))

    def _watch_message(self, event: JournalEvent) -> tool_pb2.WatchCallResponse:
        if event.kind == "started":
            started = tool_pb2.CallStarted(request_id=str(event.payload["request_id"]))
            return tool_pb2.WatchCallResponse(seq=event.seq, started=started)
        if event.result is None:
            said = CallEvent(event.seq, event.kind, event.payload, event.dropped_logs)
            return event_message(said, tool_pb2.WatchCallResponse)
        result = result_message(self._bounded(event.result))
        return tool_pb2.WatchCallResponse(seq=event.seq, result=result, dropped_logs=event.dropped_logs)

    async def ReadCallOutput(
        self, request: output_pb2.ReadCallOutputRequest, context: Context
    ) -> output_pb2.ReadCallOutputResponse:
        caller = caller_of_call.get()
        data, next_offset, total = await self._outputs.page(
            caller, _call_id(request.request_id), request.part, request.offset
        )
        return output_pb2.ReadCallOutputResponse(data=data, next_offset=next_offset, total=total)

    async def WatchTools(self, request: tool_pb2.WatchToolsRequest, context: Context) -> None:
        begin = begin_after(request, self._registry.last_seq)
        changes = self._registry.watch(begin)
        generation = self._registry.catalogue.generation
        started = tool_pb2.WatchStarted(generation=generation)
        await context.write(tool_pb2.WatchToolsResponse(seq=begin, started=started))
        caller = caller_of_call.get()
        async for each in self._streams.each(changes, caller):
            kind = seen_change(caller, each)
            if not kind:
                continue
            change = tool_pb2.ToolChange(kind=kind, name=each.name, generation=each.generation)
            await context.write(tool_pb2.WatchToolsResponse(seq=each.seq, change=change))

    def _call_request(self, request: tool_pb2.CallToolRequest, context: Context) -> CallRequest:
        """The call that is asked for. Raises InvalidRequestError or UnsupportedError."""
        # What was given and nothing else: to ask for each field would take most of the time.
        given = {field.name: value for field, value in request.ListFields()}
        _check_call(given)
        metadata = dict(given["metadata"]) if "metadata" in given else _NONE
        traceparent, tracestate = trace_context(context, metadata)
        return CallRequest(
            tool=given["name"],
            arguments_json=given.get("arguments_json", "{}"),
            request_id=given.get("request_id") or self._ids.new(),
            caller=caller_of_call.get(),
            session_id=given.get("session_id", ""),
            timeout_ms=given.get("timeout_ms"),
            deadline=own_deadline(context.time_remaining(), self._clock.monotonic()),
            metadata=metadata,
            traceparent=traceparent,
            tracestate=tracestate,
            idempotency_key=given.get("idempotency_key", ""),
            confirmation_token=given.get("confirmation_token", ""),
            detach=given.get("detach", False),
        )

    def _bounded(self, result: Result) -> Result:
        """The result, or INVALID_RESULT when its data would not fit into one message."""
        text, content = result.data_json, result.content_json
        limit = self._max_data_bytes
        if (len(text) + len(content)) * 4 <= limit:
            return result
        size = len(text.encode("utf-8", "replace")) + len(content.encode("utf-8", "replace"))
        if size <= limit:
            return result
        reason = {"reason": "too_large", "remedy": "ask for less, or have the tool write a file and name it"}
        return replace(
            result,
            code=Code.INVALID_RESULT,
            message=f"the result has {size} bytes, more than the {limit} that one answer can carry",
            data_json="null",
            content_json="",
            retryable=False,
            detail={**result.detail, **reason},
        )


@dataclass(frozen=True, slots=True)
class _Then:
    """A tool as one side of a change has it."""

    name: str
    roles: Sequence[str]


def seen_change(caller: Caller, change: ToolChange) -> str:
    """What kind of change it is to this caller; "" when it may not know of it.

    A tool that begins to exist for a caller is added, whatever it was to others.
    """

    def sees(roles: Sequence[str] | None) -> bool:
        return roles is not None and decide(caller, "see", _Then(change.name, roles)).visible

    before, now = sees(change.roles_before), sees(change.roles)
    if before and now:
        return change.kind
    return "added" if now else "removed" if before else ""


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


_TEXTS = (
    ("request_id", MAX_REQUEST_ID),
    ("session_id", MAX_SESSION_ID),
    ("idempotency_key", MAX_IDEMPOTENCY_KEY),
)


def _check_call(given: Mapping[str, Any]) -> None:
    """Refuse a request that cannot be a call. The arguments are the dispatcher's to judge."""
    _check_name(given.get("name", ""))
    if len(given) == 1 or given.keys() == {"name", "arguments_json"}:
        return
    for field in UNSUPPORTED:
        if field in given:
            raise _unsupported(field)
    for field, most in _TEXTS:
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


def _call_id(request_id: str) -> str:
    if not request_id:
        raise InvalidRequestError("request_id is empty", remedy="name the call")
    return request_id


def _unsupported(field: str) -> UnsupportedError:
    return UnsupportedError(
        f"this build does not have {field}", remedy=f"leave {field} out, or use a build that has it"
    )
