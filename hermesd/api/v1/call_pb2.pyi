import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from hermesd.api.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CallRecord(_message.Message):
    __slots__ = ("request_id", "parent_request_id", "session_id", "state", "agent", "agent_kind", "caller", "tool", "version", "generation", "source", "plugin", "code", "message", "reason", "effect", "attempts", "at", "duration_ms", "queued_ms", "run_ms", "downstream_ms", "fingerprint", "arguments", "arguments_bytes", "arguments_whole", "result", "result_bytes", "result_whole", "truncated", "degraded", "replayed", "trace_id", "span_id", "parent_span_id", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    AGENT_KIND_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_MS_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAM_MS_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_WHOLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESULT_WHOLE_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    parent_request_id: str
    session_id: str
    state: str
    agent: str
    agent_kind: str
    caller: str
    tool: str
    version: str
    generation: int
    source: str
    plugin: str
    code: str
    message: str
    reason: str
    effect: str
    attempts: int
    at: _timestamp_pb2.Timestamp
    duration_ms: float
    queued_ms: float
    run_ms: float
    downstream_ms: float
    fingerprint: str
    arguments: str
    arguments_bytes: int
    arguments_whole: bool
    result: str
    result_bytes: int
    result_whole: bool
    truncated: bool
    degraded: bool
    replayed: bool
    trace_id: str
    span_id: str
    parent_span_id: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, request_id: _Optional[str] = ..., parent_request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., state: _Optional[str] = ..., agent: _Optional[str] = ..., agent_kind: _Optional[str] = ..., caller: _Optional[str] = ..., tool: _Optional[str] = ..., version: _Optional[str] = ..., generation: _Optional[int] = ..., source: _Optional[str] = ..., plugin: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., effect: _Optional[str] = ..., attempts: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration_ms: _Optional[float] = ..., queued_ms: _Optional[float] = ..., run_ms: _Optional[float] = ..., downstream_ms: _Optional[float] = ..., fingerprint: _Optional[str] = ..., arguments: _Optional[str] = ..., arguments_bytes: _Optional[int] = ..., arguments_whole: _Optional[bool] = ..., result: _Optional[str] = ..., result_bytes: _Optional[int] = ..., result_whole: _Optional[bool] = ..., truncated: _Optional[bool] = ..., degraded: _Optional[bool] = ..., replayed: _Optional[bool] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., parent_span_id: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListCallsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "tool", "agent", "code", "session_id", "plugin", "parent_request_id", "trace_id", "since", "until", "failed")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    PARENT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    tool: str
    agent: str
    code: str
    session_id: str
    plugin: str
    parent_request_id: str
    trace_id: str
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    failed: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., tool: _Optional[str] = ..., agent: _Optional[str] = ..., code: _Optional[str] = ..., session_id: _Optional[str] = ..., plugin: _Optional[str] = ..., parent_request_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., failed: _Optional[bool] = ...) -> None: ...

class ListCallsResponse(_message.Message):
    __slots__ = ("calls", "next_page_token")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[CallRecord]
    next_page_token: str
    def __init__(self, calls: _Optional[_Iterable[_Union[CallRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetCallRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class GetCallResponse(_message.Message):
    __slots__ = ("call",)
    CALL_FIELD_NUMBER: _ClassVar[int]
    call: CallRecord
    def __init__(self, call: _Optional[_Union[CallRecord, _Mapping]] = ...) -> None: ...

class GetCallStatsRequest(_message.Message):
    __slots__ = ("tool", "agent", "session_id", "plugin", "since", "until")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    tool: str
    agent: str
    session_id: str
    plugin: str
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    def __init__(self, tool: _Optional[str] = ..., agent: _Optional[str] = ..., session_id: _Optional[str] = ..., plugin: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ToolCallStats(_message.Message):
    __slots__ = ("tool", "calls", "codes", "p50_ms", "p95_ms", "p99_ms", "queued_p95_ms", "downstream_ms", "attempts", "last")
    class CodesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOOL_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CODES_FIELD_NUMBER: _ClassVar[int]
    P50_MS_FIELD_NUMBER: _ClassVar[int]
    P95_MS_FIELD_NUMBER: _ClassVar[int]
    P99_MS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_P95_MS_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAM_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    tool: str
    calls: int
    codes: _containers.ScalarMap[str, int]
    p50_ms: float
    p95_ms: float
    p99_ms: float
    queued_p95_ms: float
    downstream_ms: float
    attempts: int
    last: _timestamp_pb2.Timestamp
    def __init__(self, tool: _Optional[str] = ..., calls: _Optional[int] = ..., codes: _Optional[_Mapping[str, int]] = ..., p50_ms: _Optional[float] = ..., p95_ms: _Optional[float] = ..., p99_ms: _Optional[float] = ..., queued_p95_ms: _Optional[float] = ..., downstream_ms: _Optional[float] = ..., attempts: _Optional[int] = ..., last: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class MiscalledTool(_message.Message):
    __slots__ = ("tool", "code", "count", "calls", "example")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    tool: str
    code: str
    count: int
    calls: int
    example: str
    def __init__(self, tool: _Optional[str] = ..., code: _Optional[str] = ..., count: _Optional[int] = ..., calls: _Optional[int] = ..., example: _Optional[str] = ...) -> None: ...

class GetCallStatsResponse(_message.Message):
    __slots__ = ("calls", "codes", "p50_ms", "p95_ms", "p99_ms", "tools", "unused_tools", "miscalled", "first")
    class CodesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CODES_FIELD_NUMBER: _ClassVar[int]
    P50_MS_FIELD_NUMBER: _ClassVar[int]
    P95_MS_FIELD_NUMBER: _ClassVar[int]
    P99_MS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    UNUSED_TOOLS_FIELD_NUMBER: _ClassVar[int]
    MISCALLED_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    calls: int
    codes: _containers.ScalarMap[str, int]
    p50_ms: float
    p95_ms: float
    p99_ms: float
    tools: _containers.RepeatedCompositeFieldContainer[ToolCallStats]
    unused_tools: _containers.RepeatedScalarFieldContainer[str]
    miscalled: _containers.RepeatedCompositeFieldContainer[MiscalledTool]
    first: _timestamp_pb2.Timestamp
    def __init__(self, calls: _Optional[int] = ..., codes: _Optional[_Mapping[str, int]] = ..., p50_ms: _Optional[float] = ..., p95_ms: _Optional[float] = ..., p99_ms: _Optional[float] = ..., tools: _Optional[_Iterable[_Union[ToolCallStats, _Mapping]]] = ..., unused_tools: _Optional[_Iterable[str]] = ..., miscalled: _Optional[_Iterable[_Union[MiscalledTool, _Mapping]]] = ..., first: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReplayCallRequest(_message.Message):
    __slots__ = ("request_id", "arguments_json", "confirmation_token", "timeout_ms")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    CONFIRMATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    arguments_json: str
    confirmation_token: str
    timeout_ms: int
    def __init__(self, request_id: _Optional[str] = ..., arguments_json: _Optional[str] = ..., confirmation_token: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ReplayCallResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: _tool_pb2.Result
    def __init__(self, result: _Optional[_Union[_tool_pb2.Result, _Mapping]] = ...) -> None: ...
