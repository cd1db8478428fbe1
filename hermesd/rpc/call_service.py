"""The part of AdminService that tells of calls: those in flight and those that ended.

An agent comes this far too, where the policy says so. What it is told is asked for as that caller, so that
nothing of anybody else's is ever at hand here.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from hermesd.api.v1 import call_pb2
from hermesd.clock import Clock
from hermesd.errors import InvalidRequestError, NotFoundError
from hermesd.model.call import Caller, Code
from hermesd.model.record import NAMES, CallFilter, CallRecord, ToolStats
from hermesd.rpc import paging
from hermesd.rpc.deadline import own_deadline
from hermesd.rpc.interceptor import Context, caller_of_call
from hermesd.rpc.ports import Records
from hermesd.rpc.translate import build, result_message, timestamp

MAX_FILTER_CHARS = 1000
_TEXTS = ("tool", "agent", "code", "session_id", "plugin", "parent_request_id", "trace_id")
_FIELDS = tuple(each for each in NAMES if each not in ("at", "metadata_json"))


class CallRecords:
    """Translates; the records know what a caller may read."""

    _records: Records
    _clock: Clock
    _room: int

    async def ListCalls(
        self, request: call_pb2.ListCallsRequest, context: Context
    ) -> call_pb2.ListCallsResponse:
        size = paging.page_size(request.page_size)
        caller = caller_of_call.get()
        asked = call_filter(request)
        question = f"calls {caller.owner} {asked!r}"
        token = paging.after(request.page_token, question)
        before = _seq(token) if token else None
        calls = [] if token else [record_message(each) for each in self._records.in_flight(caller, asked)]
        found = await self._records.page(caller, asked, size + 1, before)
        room = self._room
        for seq, record in found[:size]:
            message = record_message(record)
            room -= message.ByteSize()
            if room < 0 and calls:
                break
            calls.append(message)
            before = seq
        more = bool(found) and found[-1][0] != before
        return call_pb2.ListCallsResponse(
            calls=calls, next_page_token=paging.page_token(str(before), question) if more else ""
        )

    async def GetCall(self, request: call_pb2.GetCallRequest, context: Context) -> call_pb2.GetCallResponse:
        record = await self._found(request.request_id, caller_of_call.get())
        return call_pb2.GetCallResponse(call=record_message(record))

    async def GetCallStats(
        self, request: call_pb2.GetCallStatsRequest, context: Context
    ) -> call_pb2.GetCallStatsResponse:
        stats = await self._records.stats(caller_of_call.get(), call_filter(request))
        return build(
            call_pb2.GetCallStatsResponse,
            calls=stats.calls,
            codes=stats.codes,
            p50_ms=stats.p50_ms,
            p95_ms=stats.p95_ms,
            p99_ms=stats.p99_ms,
            tools=[_tool_message(each) for each in stats.tools],
            unused_tools=stats.unused,
            miscalled=[build(call_pb2.MiscalledTool, **dataclasses.asdict(each)) for each in stats.miscalled],
            first=None if stats.first is None else timestamp(stats.first),
        )

    async def ReplayCall(
        self, request: call_pb2.ReplayCallRequest, context: Context
    ) -> call_pb2.ReplayCallResponse:
        if request.HasField("timeout_ms") and request.timeout_ms < 1:
            raise InvalidRequestError(f"timeout_ms must be at least 1, got {request.timeout_ms}")
        caller = caller_of_call.get()
        record = await self._found(request.request_id, caller)
        if not record.code:
            raise InvalidRequestError(
                f"the call {record.request_id} has not ended", remedy="wait for its end, or cancel it"
            )
        result = await self._records.replay(
            record,
            caller,
            arguments_json=request.arguments_json,
            token=request.confirmation_token,
            timeout_ms=request.timeout_ms if request.HasField("timeout_ms") else None,
            deadline=own_deadline(context.time_remaining(), self._clock.monotonic()),
        )
        return call_pb2.ReplayCallResponse(result=result_message(result))

    async def _found(self, request_id: str, caller: Caller) -> CallRecord:
        if not request_id:
            raise InvalidRequestError("request_id is empty", remedy="name the call")
        record = await self._records.find(caller, request_id)
        if record is None:
            raise NotFoundError(
                f"there is no record of a call {request_id[:100]!r}", remedy="list the calls to see their ids"
            )
        return record


def call_filter(request: Any) -> CallFilter:
    """What a request asks for. InvalidRequestError for nonsense."""
    texts = {name: getattr(request, name) for name in _TEXTS if hasattr(request, name)}
    for name, text in texts.items():
        if len(text) > MAX_FILTER_CHARS:
            raise InvalidRequestError(f"{name} is longer than {MAX_FILTER_CHARS} characters")
    code = texts.get("code")
    if code and code not in set(Code):
        raise InvalidRequestError(f"code {code!r} does not exist", remedy=f"one of {', '.join(Code)}")
    return CallFilter(
        **texts,
        since=_moment(request, "since"),
        until=_moment(request, "until"),
        failed=getattr(request, "failed", False),
    )


def record_message(record: CallRecord) -> call_pb2.CallRecord:
    """The record on the wire."""
    message = build(
        call_pb2.CallRecord,
        **{name: getattr(record, name) for name in _FIELDS},
        metadata=record.metadata,
        at=timestamp(record.at),
    )
    message.state = "ended" if record.code else "running" if record.attempts else "queued"
    return message


def _tool_message(stats: ToolStats) -> call_pb2.ToolCallStats:
    values = {each.name: getattr(stats, each.name) for each in dataclasses.fields(stats)}
    return build(call_pb2.ToolCallStats, **{**values, "last": timestamp(stats.last)})


def _seq(token: str) -> int:
    if not token.isdecimal() or len(token) > 18:
        raise InvalidRequestError("the page_token is not one of ours", remedy="start again without it")
    return int(token)


def _moment(request: Any, field: str) -> datetime | None:
    if not request.HasField(field):
        return None
    try:
        moment: datetime = getattr(request, field).ToDatetime(UTC)
    except ValueError as error:
        raise InvalidRequestError(f"{field} is no time: {error}") from None
    return moment
