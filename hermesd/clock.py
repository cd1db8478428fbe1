"""Time as a collaborator, so that tests never sleep."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Durations come from `monotonic` (seconds), records from `now` (UTC, microseconds)."""

    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)


def uuid7(clock: Clock) -> str:
    """A new UUIDv7 (RFC 9562): unique, and in order of creation to the millisecond."""
    milliseconds = int(clock.now().timestamp() * 1000)
    value = milliseconds << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    # As uuid.UUID writes it, which takes as long as all of the above to be made.
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
