"""How often the same thing may be told."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

#: Who is told about beyond that many is told about together.
MAX_KEYS = 1000


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float
    unsaid: int = 0


class Throttle:
    """For each key `burst` at once, then `per_s` a second; what is left out is counted, never forgotten.

    Bounded: the key that was seen longest ago gives way. `now` is monotonic seconds.
    """

    def __init__(self, burst: int, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def admit(self, key: str, now: float) -> int | None:
        """None: leave it out. Else tell it, and how many of this key were left out before."""
        bucket = self._buckets.pop(key, None) or _Bucket(float(self._burst), now)
        self._buckets[key] = bucket
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        bucket.left = min(float(self._burst), bucket.left + (now - bucket.at) * self._per_s)
        bucket.at = now
        if bucket.left < 1:
            bucket.unsaid += 1
            return None
        bucket.left -= 1
        unsaid, bucket.unsaid = bucket.unsaid, 0
        return unsaid
