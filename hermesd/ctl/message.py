"""Responses as JSON: the proto's own field names, numbers as numbers, defaults spelt out.

protobuf's own JSON writes 64-bit integers as strings, for the sake of JavaScript; scripts and `jq` want
numbers.
"""

from __future__ import annotations

import base64
import math
from datetime import UTC, datetime
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def message_json(message: Message) -> dict[str, object]:
    """`message` as JSON-able data.

    Scalars, lists and maps are always there, also when they hold their default; messages, `optional` fields
    and members of a oneof only when they are set. Timestamps are RFC 3339 in UTC, bytes are base64.
    """
    document: dict[str, object] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        document[field.name] = _field(field, getattr(message, field.name))
    return document


def time_text(stamp: Any) -> str:
    """A Timestamp as RFC 3339 in UTC, microseconds kept; "" for one that is not set."""
    if not stamp.seconds and not stamp.nanos:
        return ""
    moment = datetime.fromtimestamp(stamp.seconds, UTC).replace(microsecond=stamp.nanos // 1000)
    return moment.isoformat().replace("+00:00", "Z")


def _field(field: Any, value: Any) -> object:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        of = entry.fields_by_name["value"]
        return {str(key): _scalar(of, value[key]) for key in sorted(value)}
    if field.is_repeated:
        return [_scalar(field, each) for each in value]
    return _scalar(field, value)


def _scalar(field: Any, value: Any) -> object:
    if field.message_type is not None:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            return time_text(value)
        return message_json(value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
