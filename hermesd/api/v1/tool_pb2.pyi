import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from hermesd.api.v1 import output_pb2 as _output_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ToolExample(_message.Message):
    __slots__ = ("user_says", "arguments_json")
    USER_SAYS_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    user_says: str
    arguments_json: str
    def __init__(self, user_says: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class RateLimit(_message.Message):
    __slots__ = ("calls", "per_s")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PER_S_FIELD_NUMBER: _ClassVar[int]
    calls: int
    per_s: float
    def __init__(self, calls: _Optional[int] = ..., per_s: _Optional[float] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "version", "title", "description", "domain", "tags", "when_to_use", "when_not_to_use", "parameter_guide", "examples", "parameters_json", "returns_json", "side_effects", "idempotent", "retryable", "timeout_ms", "timeout_class", "max_concurrency", "depends_on", "enabled", "coerce", "confirm", "rate_limit", "roles", "requires", "deprecated", "state", "reason", "remedy", "since", "source", "plugin", "digest", "tokens", "retry_json", "circuit_breaker_json", "fallback_json")
    class ParameterGuideEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    WHEN_TO_USE_FIELD_NUMBER: _ClassVar[int]
    WHEN_NOT_TO_USE_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_GUIDE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    RETURNS_JSON_FIELD_NUMBER: _ClassVar[int]
    SIDE_EFFECTS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENT_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_CLASS_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    COERCE_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    RATE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_FIELD_NUMBER: _ClassVar[int]
    DEPRECATED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    RETRY_JSON_FIELD_NUMBER: _ClassVar[int]
    CIRCUIT_BREAKER_JSON_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    title: str
    description: str
    domain: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    when_to_use: str
    when_not_to_use: str
    parameter_guide: _containers.ScalarMap[str, str]
    examples: _containers.RepeatedCompositeFieldContainer[ToolExample]
    parameters_json: str
    returns_json: str
    side_effects: str
    idempotent: bool
    retryable: bool
    timeout_ms: int
    timeout_class: str
    max_concurrency: int
    depends_on: _containers.RepeatedScalarFieldContainer[str]
    enabled: bool
    coerce: bool
    confirm: str
    rate_limit: RateLimit
    roles: _containers.RepeatedScalarFieldContainer[str]
    requires: _containers.RepeatedCompositeFieldContainer[ToolRequirement]
    deprecated: ToolDeprecation
    state: str
    reason: str
    remedy: str
    since: _timestamp_pb2.Timestamp
    source: str
    plugin: str
    digest: str
    tokens: int
    retry_json: str
    circuit_breaker_json: str
    fallback_json: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., domain: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., when_to_use: _Optional[str] = ..., when_not_to_use: _Optional[str] = ..., parameter_guide: _Optional[_Mapping[str, str]] = ..., examples: _Optional[_Iterable[_Union[ToolExample, _Mapping]]] = ..., parameters_json: _Optional[str] = ..., returns_json: _Optional[str] = ..., side_effects: _Optional[str] = ..., idempotent: _Optional[bool] = ..., retryable: _Optional[bool] = ..., timeout_ms: _Optional[int] = ..., timeout_class: _Optional[str] = ..., max_concurrency: _Optional[int] = ..., depends_on: _Optional[_Iterable[str]] = ..., enabled: _Optional[bool] = ..., coerce: _Optional[bool] = ..., confirm: _Optional[str] = ..., rate_limit: _Optional[_Union[RateLimit, _Mapping]] = ..., roles: _Optional[_Iterable[str]] = ..., requires: _Optional[_Iterable[_Union[ToolRequirement, _Mapping]]] = ..., deprecated: _Optional[_Union[ToolDeprecation, _Mapping]] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., remedy: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., source: _Optional[str] = ..., plugin: _Optional[str] = ..., digest: _Optional[str] = ..., tokens: _Optional[int] = ..., retry_json: _Optional[str] = ..., circuit_breaker_json: _Optional[str] = ..., fallback_json: _Optional[str] = ...) -> None: ...

class ToolRequirement(_message.Message):
    __slots__ = ("kind", "name", "remedy")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    remedy: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., remedy: _Optional[str] = ...) -> None: ...

class ToolDeprecation(_message.Message):
    __slots__ = ("since", "use", "remove_after")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    USE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_AFTER_FIELD_NUMBER: _ClassVar[int]
    since: str
    use: str
    remove_after: str
    def __init__(self, since: _Optional[str] = ..., use: _Optional[str] = ..., remove_after: _Optional[str] = ...) -> None: ...

class ListToolsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "include_unavailable", "source", "domain", "session_id")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    include_unavailable: bool
    source: str
    domain: str
    session_id: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_unavailable: _Optional[bool] = ..., source: _Optional[str] = ..., domain: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools", "next_page_token", "generation", "tokens")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    next_page_token: str
    generation: int
    tokens: int
    def __init__(self, tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., generation: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class GetToolRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetToolResponse(_message.Message):
    __slots__ = ("tool", "generation")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    tool: Tool
    generation: int
    def __init__(self, tool: _Optional[_Union[Tool, _Mapping]] = ..., generation: _Optional[int] = ...) -> None: ...

class CallToolRequest(_message.Message):
    __slots__ = ("name", "arguments_json", "session_id", "request_id", "timeout_ms", "idempotency_key", "confirmation_token", "detach", "tool_call_id", "append", "context_id", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    CONFIRMATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DETACH_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    arguments_json: str
    session_id: str
    request_id: str
    timeout_ms: int
    idempotency_key: str
    confirmation_token: str
    detach: bool
    tool_call_id: str
    append: bool
    context_id: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., idempotency_key: _Optional[str] = ..., confirmation_token: _Optional[str] = ..., detach: _Optional[bool] = ..., tool_call_id: _Optional[str] = ..., append: _Optional[bool] = ..., context_id: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("status", "code", "message", "data_json", "detail_json", "truncated", "request_id", "session_id", "tool", "version", "generation", "attempts", "duration_ms", "queued_ms", "retryable", "effect", "content")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_JSON_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_MS_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    status: str
    code: str
    message: str
    data_json: str
    detail_json: str
    truncated: bool
    request_id: str
    session_id: str
    tool: str
    version: str
    generation: int
    attempts: int
    duration_ms: float
    queued_ms: float
    retryable: bool
    effect: str
    content: _containers.RepeatedCompositeFieldContainer[_output_pb2.ContentPart]
    def __init__(self, status: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., data_json: _Optional[str] = ..., detail_json: _Optional[str] = ..., truncated: _Optional[bool] = ..., request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., tool: _Optional[str] = ..., version: _Optional[str] = ..., generation: _Optional[int] = ..., attempts: _Optional[int] = ..., duration_ms: _Optional[float] = ..., queued_ms: _Optional[float] = ..., retryable: _Optional[bool] = ..., effect: _Optional[str] = ..., content: _Optional[_Iterable[_Union[_output_pb2.ContentPart, _Mapping]]] = ...) -> None: ...

class CallToolResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: Result
    def __init__(self, result: _Optional[_Union[Result, _Mapping]] = ...) -> None: ...

class StreamCallToolRequest(_message.Message):
    __slots__ = ("call",)
    CALL_FIELD_NUMBER: _ClassVar[int]
    call: CallToolRequest
    def __init__(self, call: _Optional[_Union[CallToolRequest, _Mapping]] = ...) -> None: ...

class CallStarted(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class CallProgress(_message.Message):
    __slots__ = ("done", "total", "message")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    done: float
    total: float
    message: str
    def __init__(self, done: _Optional[float] = ..., total: _Optional[float] = ..., message: _Optional[str] = ...) -> None: ...

class CallLog(_message.Message):
    __slots__ = ("level", "message", "fields_json")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_JSON_FIELD_NUMBER: _ClassVar[int]
    level: str
    message: str
    fields_json: str
    def __init__(self, level: _Optional[str] = ..., message: _Optional[str] = ..., fields_json: _Optional[str] = ...) -> None: ...

class StreamCallToolResponse(_message.Message):
    __slots__ = ("seq", "started", "progress", "log", "result", "dropped_logs")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_LOGS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    started: CallStarted
    progress: CallProgress
    log: CallLog
    result: Result
    dropped_logs: int
    def __init__(self, seq: _Optional[int] = ..., started: _Optional[_Union[CallStarted, _Mapping]] = ..., progress: _Optional[_Union[CallProgress, _Mapping]] = ..., log: _Optional[_Union[CallLog, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., dropped_logs: _Optional[int] = ...) -> None: ...

class CancelCallRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class CancelCallResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchCallRequest(_message.Message):
    __slots__ = ("request_id", "after_seq")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    after_seq: int
    def __init__(self, request_id: _Optional[str] = ..., after_seq: _Optional[int] = ...) -> None: ...

class WatchCallResponse(_message.Message):
    __slots__ = ("seq", "started", "progress", "log", "result", "dropped_logs")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_LOGS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    started: CallStarted
    progress: CallProgress
    log: CallLog
    result: Result
    dropped_logs: int
    def __init__(self, seq: _Optional[int] = ..., started: _Optional[_Union[CallStarted, _Mapping]] = ..., progress: _Optional[_Union[CallProgress, _Mapping]] = ..., log: _Optional[_Union[CallLog, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., dropped_logs: _Optional[int] = ...) -> None: ...

class WatchToolsRequest(_message.Message):
    __slots__ = ("after_seq",)
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    after_seq: int
    def __init__(self, after_seq: _Optional[int] = ...) -> None: ...

class WatchStarted(_message.Message):
    __slots__ = ("generation",)
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    generation: int
    def __init__(self, generation: _Optional[int] = ...) -> None: ...

class ToolChange(_message.Message):
    __slots__ = ("kind", "name", "generation")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    generation: int
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class WatchToolsResponse(_message.Message):
    __slots__ = ("seq", "started", "change")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    started: WatchStarted
    change: ToolChange
    def __init__(self, seq: _Optional[int] = ..., started: _Optional[_Union[WatchStarted, _Mapping]] = ..., change: _Optional[_Union[ToolChange, _Mapping]] = ...) -> None: ...
