from hermesd.api.v1 import tool_pb2 as _tool_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResetCircuitRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResetCircuitResponse(_message.Message):
    __slots__ = ("tool", "reset")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    tool: _tool_pb2.Tool
    reset: bool
    def __init__(self, tool: _Optional[_Union[_tool_pb2.Tool, _Mapping]] = ..., reset: _Optional[bool] = ...) -> None: ...
