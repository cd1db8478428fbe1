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


#: The first digit of the third group has RFC 9562's variant in its upper two bits.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def uuid7(clock: Clock) -> str:
    """A new UUIDv7 (RFC 9562): unique, and in order of creation to the millisecond."""
    # Put together from digits: uuid.UUID, and arithmetic on 128 bits, take several times as long.
    stamp = f"{int(clock.now().timestamp() * 1000):012x}"
    chance = os.urandom(10).hex()
    variant = _VARIANT[chance[3]]
    return f"{stamp[:8]}-{stamp[8:]}-7{chance[:3]}-{variant}{chance[4:7]}-{chance[7:19]}"
