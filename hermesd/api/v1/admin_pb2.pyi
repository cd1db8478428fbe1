import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from hermesd.api.v1 import confirmation_pb2 as _confirmation_pb2
from hermesd.api.v1 import agent_pb2 as _agent_pb2
from hermesd.api.v1 import circuit_pb2 as _circuit_pb2
from hermesd.api.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Rejection(_message.Message):
    __slots__ = ("name", "file", "line", "column", "reason", "remedy")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    name: str
    file: str
    line: int
    column: int
    reason: str
    remedy: str
    def __init__(self, name: _Optional[str] = ..., file: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., reason: _Optional[str] = ..., remedy: _Optional[str] = ...) -> None: ...

class Plugin(_message.Message):
    __slots__ = ("name", "version", "origin", "source", "path", "state", "reason", "remedy", "since", "digest", "found_digest", "isolation", "generation", "tools", "rejections", "warnings", "draining", "stray_threads", "pid", "files", "permissions_json", "granted_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FOUND_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    REJECTIONS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    STRAY_THREADS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    GRANTED_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    origin: str
    source: str
    path: str
    state: str
    reason: str
    remedy: str
    since: _timestamp_pb2.Timestamp
    digest: str
    found_digest: str
    isolation: str
    generation: int
    tools: _containers.RepeatedScalarFieldContainer[str]
    rejections: _containers.RepeatedCompositeFieldContainer[Rejection]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    draining: int
    stray_threads: int
    pid: int
    files: _containers.RepeatedScalarFieldContainer[str]
    permissions_json: str
    granted_json: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., origin: _Optional[str] = ..., source: _Optional[str] = ..., path: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., remedy: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., digest: _Optional[str] = ..., found_digest: _Optional[str] = ..., isolation: _Optional[str] = ..., generation: _Optional[int] = ..., tools: _Optional[_Iterable[str]] = ..., rejections: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ..., draining: _Optional[int] = ..., stray_threads: _Optional[int] = ..., pid: _Optional[int] = ..., files: _Optional[_Iterable[str]] = ..., permissions_json: _Optional[str] = ..., granted_json: _Optional[str] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("version", "state", "pid", "uptime_s", "revision", "generation", "config_digest", "config_files", "git", "reload", "tools", "plugins", "calls", "processes", "warnings", "threads", "addresses", "confirmations", "crowded", "agents_addresses")
    class ToolsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ThreadsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CONFIG_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FILES_FIELD_NUMBER: _ClassVar[int]
    GIT_FIELD_NUMBER: _ClassVar[int]
    RELOAD_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    CONFIRMATIONS_FIELD_NUMBER: _ClassVar[int]
    CROWDED_FIELD_NUMBER: _ClassVar[int]
    AGENTS_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    version: str
    state: str
    pid: int
    uptime_s: float
    revision: str
    generation: int
    config_digest: str
    config_files: _containers.RepeatedScalarFieldContainer[str]
    git: GitState
    reload: ReloadSummary
    tools: _containers.ScalarMap[str, int]
    plugins: _containers.RepeatedCompositeFieldContainer[Plugin]
    calls: CallCounts
    processes: _containers.RepeatedCompositeFieldContainer[Process]
    warnings: _containers.RepeatedCompositeFieldContainer[Rejection]
    threads: _containers.ScalarMap[str, int]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    confirmations: int
    crowded: _containers.RepeatedCompositeFieldContainer[Crowd]
    agents_addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., state: _Optional[str] = ..., pid: _Optional[int] = ..., uptime_s: _Optional[float] = ..., revision: _Optional[str] = ..., generation: _Optional[int] = ..., config_digest: _Optional[str] = ..., config_files: _Optional[_Iterable[str]] = ..., git: _Optional[_Union[GitState, _Mapping]] = ..., reload: _Optional[_Union[ReloadSummary, _Mapping]] = ..., tools: _Optional[_Mapping[str, int]] = ..., plugins: _Optional[_Iterable[_Union[Plugin, _Mapping]]] = ..., calls: _Optional[_Union[CallCounts, _Mapping]] = ..., processes: _Optional[_Iterable[_Union[Process, _Mapping]]] = ..., warnings: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ..., threads: _Optional[_Mapping[str, int]] = ..., addresses: _Optional[_Iterable[str]] = ..., confirmations: _Optional[int] = ..., crowded: _Optional[_Iterable[_Union[Crowd, _Mapping]]] = ..., agents_addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class Crowd(_message.Message):
    __slots__ = ("scope", "name", "running", "places", "waiting")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    scope: str
    name: str
    running: int
    places: int
    waiting: int
    def __init__(self, scope: _Optional[str] = ..., name: _Optional[str] = ..., running: _Optional[int] = ..., places: _Optional[int] = ..., waiting: _Optional[int] = ...) -> None: ...

class GitState(_message.Message):
    __slots__ = ("commit", "dirty")
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    DIRTY_FIELD_NUMBER: _ClassVar[int]
    commit: str
    dirty: bool
    def __init__(self, commit: _Optional[str] = ..., dirty: _Optional[bool] = ...) -> None: ...

class ReloadSummary(_message.Message):
    __slots__ = ("last_result", "at", "rejected")
    LAST_RESULT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    last_result: str
    at: _timestamp_pb2.Timestamp
    rejected: _containers.RepeatedCompositeFieldContainer[Rejection]
    def __init__(self, last_result: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., rejected: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ...) -> None: ...

class CallCounts(_message.Message):
    __slots__ = ("inflight", "total", "waiting")
    INFLIGHT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    inflight: int
    total: int
    waiting: int
    def __init__(self, inflight: _Optional[int] = ..., total: _Optional[int] = ..., waiting: _Optional[int] = ...) -> None: ...

class Process(_message.Message):
    __slots__ = ("name", "pid", "rss_bytes", "cpu_percent", "fds", "threads")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    FDS_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    name: str
    pid: int
    rss_bytes: int
    cpu_percent: float
    fds: int
    threads: int
    def __init__(self, name: _Optional[str] = ..., pid: _Optional[int] = ..., rss_bytes: _Optional[int] = ..., cpu_percent: _Optional[float] = ..., fds: _Optional[int] = ..., threads: _Optional[int] = ...) -> None: ...

class GetConfigRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConfigResponse(_message.Message):
    __slots__ = ("digest", "files", "values")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    files: _containers.RepeatedScalarFieldContainer[str]
    values: _containers.RepeatedCompositeFieldContainer[EffectiveValue]
    def __init__(self, digest: _Optional[str] = ..., files: _Optional[_Iterable[str]] = ..., values: _Optional[_Iterable[_Union[EffectiveValue, _Mapping]]] = ...) -> None: ...

class EffectiveValue(_message.Message):
    __slots__ = ("key", "value_json", "origin")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    key: str
    value_json: str
    origin: str
    def __init__(self, key: _Optional[str] = ..., value_json: _Optional[str] = ..., origin: _Optional[str] = ...) -> None: ...

class ReloadRequest(_message.Message):
    __slots__ = ("name", "dry_run", "atomic", "no_wait", "if_revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    ATOMIC_FIELD_NUMBER: _ClassVar[int]
    NO_WAIT_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    dry_run: bool
    atomic: bool
    no_wait: bool
    if_revision: str
    def __init__(self, name: _Optional[str] = ..., dry_run: _Optional[bool] = ..., atomic: _Optional[bool] = ..., no_wait: _Optional[bool] = ..., if_revision: _Optional[str] = ...) -> None: ...

class ReloadResponse(_message.Message):
    __slots__ = ("revision", "generation", "added", "changed", "removed", "kept", "pending", "rejected", "duration_ms", "notices", "config_digest", "dry_run", "git")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    CONFIG_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    GIT_FIELD_NUMBER: _ClassVar[int]
    revision: str
    generation: int
    added: _containers.RepeatedScalarFieldContainer[str]
    changed: _containers.RepeatedScalarFieldContainer[str]
    removed: _containers.RepeatedScalarFieldContainer[str]
    kept: _containers.RepeatedScalarFieldContainer[str]
    pending: _containers.RepeatedScalarFieldContainer[str]
    rejected: _containers.RepeatedCompositeFieldContainer[Rejection]
    duration_ms: float
    notices: _containers.RepeatedCompositeFieldContainer[Rejection]
    config_digest: str
    dry_run: bool
    git: GitState
    def __init__(self, revision: _Optional[str] = ..., generation: _Optional[int] = ..., added: _Optional[_Iterable[str]] = ..., changed: _Optional[_Iterable[str]] = ..., removed: _Optional[_Iterable[str]] = ..., kept: _Optional[_Iterable[str]] = ..., pending: _Optional[_Iterable[str]] = ..., rejected: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ..., duration_ms: _Optional[float] = ..., notices: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ..., config_digest: _Optional[str] = ..., dry_run: _Optional[bool] = ..., git: _Optional[_Union[GitState, _Mapping]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShutdownResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DumpStateRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DumpStateResponse(_message.Message):
    __slots__ = ("state_json",)
    STATE_JSON_FIELD_NUMBER: _ClassVar[int]
    state_json: str
    def __init__(self, state_json: _Optional[str] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("after_seq", "recent", "no_follow")
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    NO_FOLLOW_FIELD_NUMBER: _ClassVar[int]
    after_seq: int
    recent: int
    no_follow: bool
    def __init__(self, after_seq: _Optional[int] = ..., recent: _Optional[int] = ..., no_follow: _Optional[bool] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "at", "kind", "subject", "message", "fields_json")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_JSON_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: _timestamp_pb2.Timestamp
    kind: str
    subject: str
    message: str
    fields_json: str
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[str] = ..., subject: _Optional[str] = ..., message: _Optional[str] = ..., fields_json: _Optional[str] = ...) -> None: ...

class WatchEventsResponse(_message.Message):
    __slots__ = ("seq", "started", "event")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    started: _tool_pb2.WatchStarted
    event: Event
    def __init__(self, seq: _Optional[int] = ..., started: _Optional[_Union[_tool_pb2.WatchStarted, _Mapping]] = ..., event: _Optional[_Union[Event, _Mapping]] = ...) -> None: ...

class ListPluginsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "state")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    state: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class ListPluginsResponse(_message.Message):
    __slots__ = ("plugins", "next_page_token", "generation")
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    plugins: _containers.RepeatedCompositeFieldContainer[Plugin]
    next_page_token: str
    generation: int
    def __init__(self, plugins: _Optional[_Iterable[_Union[Plugin, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class GetPluginRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetPluginResponse(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: Plugin
    def __init__(self, plugin: _Optional[_Union[Plugin, _Mapping]] = ...) -> None: ...

class ListPluginHistoryRequest(_message.Message):
    __slots__ = ("name", "page_size", "page_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    page_size: int
    page_token: str
    def __init__(self, name: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class PluginContent(_message.Message):
    __slots__ = ("digest", "version", "first_served_at", "last_served_at", "serving")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FIRST_SERVED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_SERVED_AT_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    digest: str
    version: str
    first_served_at: _timestamp_pb2.Timestamp
    last_served_at: _timestamp_pb2.Timestamp
    serving: bool
    def __init__(self, digest: _Optional[str] = ..., version: _Optional[str] = ..., first_served_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_served_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., serving: _Optional[bool] = ...) -> None: ...

class ListPluginHistoryResponse(_message.Message):
    __slots__ = ("contents", "next_page_token")
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    contents: _containers.RepeatedCompositeFieldContainer[PluginContent]
    next_page_token: str
    def __init__(self, contents: _Optional[_Iterable[_Union[PluginContent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SetPluginRequest(_message.Message):
    __slots__ = ("name", "enabled")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    enabled: bool
    def __init__(self, name: _Optional[str] = ..., enabled: _Optional[bool] = ...) -> None: ...

class SetPluginResponse(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: Plugin
    def __init__(self, plugin: _Optional[_Union[Plugin, _Mapping]] = ...) -> None: ...

class TrustPluginRequest(_message.Message):
    __slots__ = ("name", "digest", "isolation", "follow", "action")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    isolation: str
    follow: bool
    action: str
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ..., isolation: _Optional[str] = ..., follow: _Optional[bool] = ..., action: _Optional[str] = ...) -> None: ...

class TrustPluginResponse(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: Plugin
    def __init__(self, plugin: _Optional[_Union[Plugin, _Mapping]] = ...) -> None: ...

class GrantPluginRequest(_message.Message):
    __slots__ = ("name", "permissions_json", "action")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    permissions_json: str
    action: str
    def __init__(self, name: _Optional[str] = ..., permissions_json: _Optional[str] = ..., action: _Optional[str] = ...) -> None: ...

class GrantPluginResponse(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: Plugin
    def __init__(self, plugin: _Optional[_Union[Plugin, _Mapping]] = ...) -> None: ...

class RollbackPluginRequest(_message.Message):
    __slots__ = ("name", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class RollbackPluginResponse(_message.Message):
    __slots__ = ("plugin",)
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    plugin: Plugin
    def __init__(self, plugin: _Optional[_Union[Plugin, _Mapping]] = ...) -> None: ...

class ReadPluginLogRequest(_message.Message):
    __slots__ = ("name", "lines", "follow")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    name: str
    lines: int
    follow: bool
    def __init__(self, name: _Optional[str] = ..., lines: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("at", "plugin", "tool", "request_id", "session_id", "attempt", "level", "message", "fields_json")
    AT_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_JSON_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    plugin: str
    tool: str
    request_id: str
    session_id: str
    attempt: int
    level: str
    message: str
    fields_json: str
    def __init__(self, at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., plugin: _Optional[str] = ..., tool: _Optional[str] = ..., request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., attempt: _Optional[int] = ..., level: _Optional[str] = ..., message: _Optional[str] = ..., fields_json: _Optional[str] = ...) -> None: ...

class ReadPluginLogResponse(_message.Message):
    __slots__ = ("seq", "started", "line")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    started: _tool_pb2.WatchStarted
    line: LogLine
    def __init__(self, seq: _Optional[int] = ..., started: _Optional[_Union[_tool_pb2.WatchStarted, _Mapping]] = ..., line: _Optional[_Union[LogLine, _Mapping]] = ...) -> None: ...

class SetToolRequest(_message.Message):
    __slots__ = ("name", "enabled")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    enabled: bool
    def __init__(self, name: _Optional[str] = ..., enabled: _Optional[bool] = ...) -> None: ...

class SetToolResponse(_message.Message):
    __slots__ = ("tool",)
    TOOL_FIELD_NUMBER: _ClassVar[int]
    tool: _tool_pb2.Tool
    def __init__(self, tool: _Optional[_Union[_tool_pb2.Tool, _Mapping]] = ...) -> None: ...
