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


#: Bytes of chance in an id, and ids for which the kernel is asked at once.
_CHANCE_BYTES, _AT_ONCE = 10, 256


def uuid7(clock: Clock) -> str:
    """A new UUIDv7 (RFC 9562): unique, and in order of creation to the millisecond."""
    return _uuid7(clock, os.urandom(_CHANCE_BYTES).hex())


class IdMaker:
    """Makes UUIDv7s for who needs one with each call. On one thread.

    To ask the kernel lets go of the interpreter, and on a busy daemon it may be a while before it is back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._chance = ""
        self._used = 0

    def new(self) -> str:
        """A new id, as `uuid7` makes them."""
        used = self._used
        if used == len(self._chance):
            self._chance, used = os.urandom(_CHANCE_BYTES * _AT_ONCE).hex(), 0
        self._used = end = used + 2 * _CHANCE_BYTES
        return _uuid7(self._clock, self._chance[used:end])


def _uuid7(clock: Clock, chance: str) -> str:
    # Put together from digits: uuid.UUID, and arithmetic on 128 bits, take several times as long.
    stamp = f"{int(clock.now().timestamp() * 1000):012x}"
    variant = _VARIANT[chance[3]]
    return f"{stamp[:8]}-{stamp[8:]}-7{chance[:3]}-{variant}{chance[4:7]}-{chance[7:19]}"
