from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ContentPart(_message.Message):
    __slots__ = ("type", "text", "data", "mime_type", "uri", "name", "title", "description", "size")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    type: str
    text: str
    data: bytes
    mime_type: str
    uri: str
    name: str
    title: str
    description: str
    size: int
    def __init__(self, type: _Optional[str] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., mime_type: _Optional[str] = ..., uri: _Optional[str] = ..., name: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class ReadCallOutputRequest(_message.Message):
    __slots__ = ("request_id", "offset", "part")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    offset: int
    part: str
    def __init__(self, request_id: _Optional[str] = ..., offset: _Optional[int] = ..., part: _Optional[str] = ...) -> None: ...

class ReadCallOutputResponse(_message.Message):
    __slots__ = ("data", "next_offset", "total")
    DATA_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    data: str
    next_offset: int
    total: int
    def __init__(self, data: _Optional[str] = ..., next_offset: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...
