"""Between the model's values and the messages of the API, field by field, without a detour over dicts.

Text that cannot travel (lone surrogates) is replaced only after the fast way failed.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from hermesd.api.v1 import admin_pb2, output_pb2, tool_pb2
from hermesd.errors import Rejection
from hermesd.model.call import Code, Result
from hermesd.model.definition import ToolDefinition
from hermesd.model.handover import definition_tokens
from hermesd.model.status import HistoryEntry, PluginStatus, ReloadReport, Standing
from hermesd.rpc.call_events import CallEvent
from hermesd.rpc.ports import Entry
from hermesd.telemetry.event import Event
from hermesd.telemetry.plugin_log import PluginLogLine

MessageT = TypeVar("MessageT", bound=Message)


def compact(value: object) -> str:
    """JSON text, for people and programs: no needless blanks, Chinese as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_jsonable)


def timestamp(at: datetime) -> Timestamp:
    """A point in time. `at` is aware (UTC)."""
    moment = Timestamp()
    moment.FromDatetime(at)
    return moment


def build(kind: type[MessageT], /, **fields: object) -> MessageT:
    """A message of `fields`; where a text cannot be encoded its lone surrogates become "?"."""
    try:
        return kind(**fields)
    except UnicodeEncodeError:
        return kind(**{name: _encodable(value) for name, value in fields.items()})


def result_message(result: Result) -> tool_pb2.Result:
    """The envelope on the wire."""
    return response_message(result).result


def response_message(result: Result) -> tool_pb2.CallToolResponse:
    """The answer of CallTool."""
    response = tool_pb2.CallToolResponse()
    try:
        _fill(response.result, result)
    except UnicodeEncodeError:
        texts = ("message", "data_json", "detail", "request_id", "session_id", "tool", "version")
        replaced: dict[str, Any] = {name: _encodable(getattr(result, name)) for name in texts}
        _fill(response.result, dataclasses.replace(result, **replaced))
    return response


def _fill(message: tool_pb2.Result, result: Result) -> None:
    # Field by field: a message made of keywords and then copied takes three times as long.
    message.status = "ok" if result.code is Code.OK else "error"
    message.code = result.code.value
    message.message = result.message
    message.data_json = result.data_json
    message.detail_json = result.detail_json
    message.truncated = result.truncated
    message.request_id = result.request_id
    message.session_id = result.session_id
    message.tool = result.tool
    message.version = result.version
    message.generation = result.generation
    message.attempts = result.attempts
    message.duration_ms = result.duration_ms
    message.queued_ms = result.queued_ms
    message.retryable = result.retryable
    message.effect = result.effect
    if result.content_json:
        message.content.extend(_part_message(each) for each in json.loads(result.content_json))


def _part_message(part: Mapping[str, object]) -> output_pb2.ContentPart:
    if part["type"] != "image":
        return build(output_pb2.ContentPart, **part)
    try:
        data = base64.b64decode(str(part["data"]), validate=True)
    except binascii.Error:  # a secret was masked in it
        return output_pb2.ContentPart(type="text", text="[an image is left out: it held a secret's value]")
    return build(output_pb2.ContentPart, **{**part, "data": data})


EventT = TypeVar("EventT", tool_pb2.StreamCallToolResponse, tool_pb2.WatchCallResponse)


def event_message(event: CallEvent, kind: type[EventT]) -> EventT:
    """A progress or log event of a running call."""
    payload = event.payload
    message = kind(seq=event.seq, dropped_logs=event.dropped_logs)
    text = str(payload.get("message") or "")
    if event.kind == "progress":
        total = payload.get("total")
        progress = build(tool_pb2.CallProgress, done=_number(payload.get("done")), message=text)
        if total is not None:
            progress.total = _number(total)
        message.progress.CopyFrom(progress)
    else:
        level = str(payload.get("level") or "info")
        fields = compact(payload.get("fields") or {})
        message.log.CopyFrom(build(tool_pb2.CallLog, level=level, message=text, fields_json=fields))
    return message


class ToolMessages:
    """Tools as messages. What a definition says is translated once, for as long as it is served."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ToolDefinition, tool_pb2.Tool]] = {}

    def keep_only(self, names: Mapping[str, object]) -> None:
        """Forget tools that are gone, once there are more of them than a full catalogue's worth."""
        if len(self._known) > 2 * len(names) + 100:
            self._known = {name: each for name, each in self._known.items() if name in names}

    def tokens(self, entries: Iterable[Entry]) -> int:
        """About how many tokens a model pays for being shown all of these."""
        return sum(self._definition(each.definition).tokens for each in entries)

    def message(self, entry: Entry, standing: Standing) -> tool_pb2.Tool:
        """One tool with its present state."""
        tool = tool_pb2.Tool()
        tool.CopyFrom(self._definition(entry.definition))
        tool.state = standing.state.value
        tool.reason = cast("str", _encodable(standing.reason))
        tool.remedy = cast("str", _encodable(standing.remedy))
        tool.since.FromDatetime(standing.since)
        tool.source = entry.source
        tool.plugin = entry.plugin
        return tool

    def _definition(self, definition: ToolDefinition) -> tool_pb2.Tool:
        known = self._known.get(definition.name)
        if known is None or known[0] is not definition:
            known = self._known[definition.name] = (definition, _definition_message(definition))
        return known[1]


def _definition_message(definition: ToolDefinition) -> tool_pb2.Tool:
    tool = build(
        tool_pb2.Tool,
        name=definition.name,
        version=definition.version,
        title=definition.title,
        description=definition.description,
        domain=definition.domain,
        tags=definition.tags,
        when_to_use=definition.when_to_use,
        when_not_to_use=definition.when_not_to_use,
        parameter_guide={str(key): str(value) for key, value in definition.parameter_guide.items()},
        examples=[
            build(tool_pb2.ToolExample, user_says=each.user_says, arguments_json=compact(each.arguments))
            for each in definition.examples
        ],
        parameters_json=compact(definition.parameters),
        returns_json="" if definition.returns is None else compact(definition.returns),
        side_effects=definition.side_effects,
        idempotent=definition.idempotent,
        retryable=definition.retryable,
        timeout_class=definition.timeout_class,
        depends_on=definition.depends_on,
        roles=definition.roles,
        enabled=definition.enabled,
        coerce=definition.coerce,
        confirm=definition.confirmation,
        digest=definition.digest,
        tokens=definition_tokens(definition, definition.parameters),
    )
    if definition.retry is not None:
        tool.retry_json = compact(definition.retry)
    if definition.circuit_breaker is not None:
        tool.circuit_breaker_json = compact(definition.circuit_breaker)
    if definition.fallback is not None:
        tool.fallback_json = compact(definition.fallback.plain())
    for need in definition.requires:
        tool.requires.append(
            build(tool_pb2.ToolRequirement, kind=need.kind, name=need.name, remedy=need.remedy)
        )
    if definition.deprecated is not None:
        tool.deprecated.CopyFrom(build(tool_pb2.ToolDeprecation, **definition.deprecated.as_detail()))
    if definition.timeout_ms is not None:
        tool.timeout_ms = definition.timeout_ms
    if definition.max_concurrency is not None:
        tool.max_concurrency = definition.max_concurrency
    if (rate := definition.rate_limit) is not None:
        tool.rate_limit.CopyFrom(build(tool_pb2.RateLimit, calls=rate.calls, per_s=rate.per_s))
    return tool


def rejection_messages(rejections: Iterable[Rejection]) -> list[admin_pb2.Rejection]:
    return [
        build(
            admin_pb2.Rejection,
            name=each.name,
            file=each.file,
            line=each.line,
            column=each.column,
            reason=each.reason,
            remedy=each.remedy,
        )
        for each in rejections
    ]


def plugin_message(plugin: PluginStatus) -> admin_pb2.Plugin:
    return build(
        admin_pb2.Plugin,
        name=plugin.name,
        version=plugin.version,
        origin=plugin.origin,
        source=plugin.source,
        path=plugin.path,
        state=plugin.standing.state.value,
        reason=plugin.standing.reason,
        remedy=plugin.standing.remedy,
        since=timestamp(plugin.standing.since),
        digest=plugin.digest,
        found_digest=plugin.found_digest,
        isolation=plugin.isolation,
        generation=plugin.generation,
        tools=plugin.tools,
        rejections=rejection_messages(plugin.rejections),
        warnings=plugin.warnings,
        draining=plugin.draining,
        stray_threads=plugin.stray_threads,
        pid=plugin.pid,
        files=plugin.files,
        permissions_json=plugin.permissions_json,
        granted_json=plugin.granted_json,
    )


def reload_message(report: ReloadReport, git: object) -> admin_pb2.ReloadResponse:
    """The answer of a reload; `git` is {commit, dirty} or None."""
    message = build(
        admin_pb2.ReloadResponse,
        revision=report.revision,
        generation=report.generation,
        added=report.added,
        changed=report.changed,
        removed=report.removed,
        kept=report.kept,
        pending=report.pending,
        rejected=rejection_messages(report.rejected),
        notices=rejection_messages(report.notices),
        duration_ms=report.duration_ms,
        config_digest=report.config_digest,
        dry_run=report.dry_run,
    )
    if git is not None:
        message.git.CopyFrom(_parsed(git, admin_pb2.GitState()))
    return message


def status_message(status: Mapping[str, object]) -> admin_pb2.GetStatusResponse:
    """The daemon's status. A key that the API does not have is a fault of ours: ValueError names it."""
    rest = dict(status)
    plugins = cast("list[PluginStatus]", rest.pop("plugins", []))
    present = {key: value for key, value in rest.items() if value is not None}
    message = _parsed(present, admin_pb2.GetStatusResponse())
    message.plugins.extend(plugin_message(each) for each in plugins)
    return message


def watch_event_message(event: Event) -> admin_pb2.WatchEventsResponse:
    message = build(
        admin_pb2.Event,
        seq=event.seq,
        at=timestamp(event.at),
        kind=event.kind,
        subject=event.subject,
        message=event.message,
        fields_json=compact(event.fields),
    )
    return admin_pb2.WatchEventsResponse(seq=event.seq, event=message)


def content_message(entry: HistoryEntry, serving: str) -> admin_pb2.PluginContent:
    return build(
        admin_pb2.PluginContent,
        digest=entry.digest,
        version=entry.version,
        first_served_at=timestamp(entry.first_served),
        last_served_at=timestamp(entry.last_served),
        serving=entry.digest == serving,
    )


def log_line_message(seq: int, line: PluginLogLine) -> admin_pb2.ReadPluginLogResponse:
    message = build(
        admin_pb2.LogLine,
        at=timestamp(line.at),
        plugin=line.plugin,
        tool=line.tool,
        request_id=line.request_id,
        session_id=line.session_id,
        attempt=line.attempt,
        level=line.level,
        message=line.message,
        fields_json=compact(line.fields),
    )
    return admin_pb2.ReadPluginLogResponse(seq=seq, line=message)


def _parsed(value: object, into: MessageT) -> MessageT:
    from google.protobuf.json_format import ParseDict, ParseError  # noqa: PLC0415 - 3 MB, for the status alone

    try:
        # Names of files may be no UTF-8: a text that cannot travel must not cost the whole answer.
        text = compact(value).encode("utf-8", "replace")
        return ParseDict(json.loads(text), into)
    except ParseError as error:
        raise ValueError(f"the daemon's own answer does not fit the API: {error}") from error


def _number(value: object) -> float:
    """The number that a plugin told; 0 for what is none, or for one that no float can hold."""
    try:
        number = float(value) if isinstance(value, int | float) else 0.0
    except OverflowError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def _encodable(value: object) -> object:
    """`value` with lone surrogates replaced, in texts and lists and maps of texts."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    return value


def _jsonable(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)
