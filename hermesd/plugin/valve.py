"""A bound on how much one plugin can tell in a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Of one plugin's process, or of one call in the daemon's.
LINES_PER_S = 2000
PROGRESS_PER_S = 500


class Valve:
    """Lets `per_second` things pass in each second and counts the rest. Usable from any thread."""

    __slots__ = ("_clock", "_dropped", "_lock", "_passed", "_per_second", "_since")

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._since = clock()
        self._passed = 0
        self._dropped = 0

    def admit(self) -> bool:
        """Whether one more may pass now."""
        with self._lock:
            now = self._clock()
            if now - self._since >= 1.0:
                self._since, self._passed = now, 0
            if self._passed >= self._per_second:
                self._dropped += 1
                return False
            self._passed += 1
            return True

    @property
    def dropped(self) -> int:
        """How many did not pass, and were not asked for yet."""
        return self._dropped

    def take_dropped(self) -> int:
        """How many did not pass since this was last asked, once the second that held them back is over."""
        with self._lock:
            if self._dropped == 0 or self._clock() - self._since < 1.0:
                return 0
            dropped, self._dropped = self._dropped, 0
            return dropped
