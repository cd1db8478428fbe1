"""The frames between the daemon and a plugin's runner.

A frame is eight bytes (two big-endian lengths), a head (one JSON object with its kind under "t") and a body
(UTF-8 text, mostly JSON that is passed through untouched: arguments and results are never encoded twice).
The body of a result with content is its data and then its content, which begins at the head's `data_bytes`.
Both ends refuse what is larger than agreed, and take nothing that is no frame for one.

Kinds, daemon to runner: load, ready, call, cancel, answer, shutdown.
Runner to daemon: hello, described, fault, ready, result, progress, log, ask, closed.
"""

from __future__ import annotations

import json
import struct
from typing import Any

#: Raised with every change that an older end would misunderstand; told in `hello`.
FRAME_VERSION = 1
MAX_HEAD_BYTES = 1024 * 1024
MAX_BODY_BYTES = 16 * 1024 * 1024
#: How much is read at once, bytes: a usual frame in one system call.
READ_BYTES = 64 * 1024

_LENGTHS = struct.Struct("!II")
# Made once: json.dumps makes an encoder for each call that has options.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

Head = dict[str, Any]
Frame = tuple[Head, bytes]


class FrameFault(Exception):  # noqa: N818 - a fault of the other end, reported, not an error of ours
    """What came is no frame, or what shall go is larger than a frame may be."""


def encode_frame(head: Head, body: bytes = b"", *, max_body: int = MAX_BODY_BYTES) -> bytes:
    """The bytes of one frame. Raises FrameFault when head or body is too large or the head is no JSON."""
    try:
        packed = _encode(head).encode("utf-8", "backslashreplace")
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameFault(f"the head of the frame is no JSON: {error}") from None
    if len(packed) > MAX_HEAD_BYTES:
        raise FrameFault(
            f"the head of the frame has {len(packed)} bytes; at most {MAX_HEAD_BYTES} are allowed"
        )
    if len(body) > max_body:
        raise FrameFault(f"{len(body)} bytes; at most {max_body} are allowed")
    return _LENGTHS.pack(len(packed), len(body)) + packed + body


class FrameDecoder:
    """Turns a stream of bytes, cut anywhere, into frames. After a FrameFault it is of no further use."""

    def __init__(self, *, max_body: int = MAX_BODY_BYTES) -> None:
        self._max_body = max_body
        self._buffer = bytearray()
        #: The whole length of the frame that is being awaited; 0: its lengths have not come yet.
        self._wanted = 0

    @property
    def pending(self) -> int:
        """Bytes of a frame that has not come whole."""
        return len(self._buffer)

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """All frames that are whole now. Raises FrameFault; lengths are judged before the rest is awaited."""
        buffer = self._buffer
        buffer += data
        frames: list[Frame] = []
        start = 0
        available = len(buffer)
        while available - start >= max(self._wanted, _LENGTHS.size):
            head_bytes, body_bytes = _LENGTHS.unpack_from(buffer, start)
            self._wanted = self._admit(head_bytes, body_bytes)
            if available - start < self._wanted:
                break
            middle = start + _LENGTHS.size + head_bytes
            end = start + self._wanted
            frames.append((_head(buffer[start + _LENGTHS.size : middle]), bytes(buffer[middle:end])))
            start = end
            self._wanted = 0
        if start:
            del buffer[:start]
        return frames

    def _admit(self, head_bytes: int, body_bytes: int) -> int:
        if head_bytes > MAX_HEAD_BYTES or body_bytes > self._max_body:
            raise FrameFault(
                f"a frame of {head_bytes} + {body_bytes} bytes was announced; "
                f"at most {MAX_HEAD_BYTES} + {self._max_body} are allowed"
            )
        return _LENGTHS.size + head_bytes + body_bytes


def _head(text: bytearray) -> Head:
    try:
        head = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise FrameFault(f"the head of a frame is no JSON: {error}") from None
    if not isinstance(head, dict) or not isinstance(head.get("t"), str):
        raise FrameFault("the head of a frame is no object that says its kind")
    return head
