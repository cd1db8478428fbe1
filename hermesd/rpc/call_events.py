"""What a running call says, on its way to a reader that may be slow.

Bounded: when the reader falls behind, the oldest progress goes first (a later one says more), then the
oldest log line, which is counted and the count is delivered. Nothing is lost silently, nothing blocks the
tool. `seq` numbers what was said, so that a gap shows what was dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One progress or log event; `dropped_logs` were lost right before it."""

    seq: int
    kind: str
    payload: dict[str, object]
    dropped_logs: int = 0


class CallEvents(Generic[ResultT]):
    """One call's events and its end. Used on one event loop by one reader."""

    def __init__(self, limit: int = 256, first_seq: int = 2) -> None:
        if limit < 1:
            raise ValueError("at least one event must fit")
        self._limit = limit
        self._waiting: deque[tuple[int, str, dict[str, object]]] = deque()
        self._next_seq = first_seq
        self._dropped_logs = 0
        self._wake = asyncio.Event()
        self._result: ResultT | None = None
        self._error: Exception | None = None
        self._ended = False

    def emit(self, kind: str, payload: dict[str, object]) -> None:
        """Take one event; after the end it is ignored, since the result is the last word."""
        if self._ended:
            return
        if len(self._waiting) >= self._limit:
            self._drop_oldest()
        self._waiting.append((self._next_seq, kind, payload))
        self._next_seq += 1
        self._wake.set()

    def finish(self, result: ResultT) -> None:
        """The call ended with a result."""
        self._result, self._ended = result, True
        self._wake.set()

    def fail(self, error: Exception) -> None:
        """The call itself was refused."""
        self._error, self._ended = error, True
        self._wake.set()

    @property
    def failure(self) -> Exception | None:
        """Why the call itself was refused, once that is known."""
        return self._error

    async def next(self) -> CallEvent | None:
        """The next event; None when the call has ended and all was read."""
        while not self._waiting:
            if self._ended:
                return None
            self._wake.clear()
            await self._wake.wait()
        seq, kind, payload = self._waiting.popleft()
        dropped, self._dropped_logs = self._dropped_logs, 0
        return CallEvent(seq, kind, payload, dropped)

    def end(self) -> tuple[int, ResultT, int]:
        """The seq of the end, the result, and the log lines dropped right before it."""
        if self._result is None:
            raise RuntimeError("the call has not ended")
        return self._next_seq, self._result, self._dropped_logs

    def _drop_oldest(self) -> None:
        for index, (_, kind, _payload) in enumerate(self._waiting):
            if kind == "progress":
                del self._waiting[index]
                return
        self._waiting.popleft()
        self._dropped_logs += 1
