import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Confirmation(_message.Message):
    __slots__ = ("id", "state", "by", "agent", "tool", "version", "session_id", "request_id", "summary", "arguments_json", "created_at", "expires_at", "decided_by", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: str
    by: str
    agent: str
    tool: str
    version: str
    session_id: str
    request_id: str
    summary: str
    arguments_json: str
    created_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    decided_by: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., by: _Optional[str] = ..., agent: _Optional[str] = ..., tool: _Optional[str] = ..., version: _Optional[str] = ..., session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., summary: _Optional[str] = ..., arguments_json: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., decided_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ListConfirmationsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "state")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    state: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class ListConfirmationsResponse(_message.Message):
    __slots__ = ("confirmations", "next_page_token")
    CONFIRMATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    confirmations: _containers.RepeatedCompositeFieldContainer[Confirmation]
    next_page_token: str
    def __init__(self, confirmations: _Optional[_Iterable[_Union[Confirmation, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ResolveConfirmationRequest(_message.Message):
    __slots__ = ("id", "action", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    action: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., action: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ResolveConfirmationResponse(_message.Message):
    __slots__ = ("confirmation",)
    CONFIRMATION_FIELD_NUMBER: _ClassVar[int]
    confirmation: Confirmation
    def __init__(self, confirmation: _Optional[_Union[Confirmation, _Mapping]] = ...) -> None: ...
