"""Names for calls that came without one."""

from __future__ import annotations

import os
import time


def new_request_id() -> str:
    """A UUIDv7 (RFC 9562) as text: unique, and in the order of its millisecond."""
    stamp = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    value = (stamp & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76 | (random >> 68) << 64 | 0b10 << 62
    value |= random & 0x3FFFFFFFFFFFFFFF
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
