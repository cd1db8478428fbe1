"""Time as a collaborator, so that tests never sleep."""

from __future__ import annotations

import os
import time
from collections import deque
from datetime import UTC, datetime
from typing import Protocol

#: Ids for which random bytes are fetched at once. They are used once each, whatever the thread.
BATCH = 64
#: The digit whose upper two bits say "RFC 9562".
VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
_random: deque[str] = deque()


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
    """A new UUIDv7 (RFC 9562): unique, and in order of creation to the millisecond. Any thread may ask."""
    try:
        random = _random.pop()
    except IndexError:
        _random.extend(_random_parts())
        random = _random.pop()
    moment = f"{int(clock.now().timestamp() * 1000):012x}"
    return f"{moment[:8]}-{moment[8:]}-{random}"


def _random_parts() -> list[str]:
    """The second halves of ids, from the system's random bytes, which cost less by the batch."""
    digits = os.urandom(10 * BATCH).hex()
    parts = (digits[at : at + 20] for at in range(0, len(digits), 20))
    return [f"7{each[:3]}-{VARIANT[each[3]]}{each[4:7]}-{each[7:19]}" for each in parts]
