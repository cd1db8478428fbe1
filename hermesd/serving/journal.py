"""What a detached call has said, for any number of readers who may come and go.

Bounded in events and bytes: the oldest progress goes first (a later one says more), then the oldest log line,
which is counted. Events are numbered from 1, which is the start; a gap shows what was dropped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from hermesd.errors import FellBehindError, InvalidRequestError
from hermesd.model.call import Result

FIRST_SEQ = 1
MAX_EVENTS = 256
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """One event as a reader gets it. Kinds: started, progress, log, result."""

    seq: int
    kind: str
    payload: dict[str, object]
    result: Result | None = None
    #: Log lines that were lost between this event and the one that the reader had before.
    dropped_logs: int = 0


@dataclass(frozen=True, slots=True)
class _Line:
    seq: int
    kind: str
    payload: dict[str, object]
    size: int
    #: How many log lines came before it.
    logs: int


class Journal:
    """One call's events and its end. Used on one event loop."""

    def __init__(self, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._lines: list[_Line] = []
        self._bytes = 0
        self._logs = 0
        self._wake = asyncio.Event()
        self._result: Result | None = None
        self.last_seq = FIRST_SEQ

    def add(self, kind: str, payload: dict[str, object]) -> None:
        """Take one event; after the end it is ignored, since the result is the last word."""
        if self._result is not None:
            return
        self.last_seq += 1
        size = len(json.dumps(payload, default=str))
        self._lines.append(_Line(self.last_seq, kind, payload, size, self._logs))
        self._bytes += size
        self._logs += kind == "log"
        while len(self._lines) > self._max_events or (self._bytes > self._max_bytes and self._lines):
            self._drop_oldest()
        self._ring()

    def end(self, result: Result) -> None:
        """The call has ended."""
        if self._result is None:
            self.last_seq += 1
            self._result = result
            self._ring()

    def check(self, after_seq: int | None) -> None:
        """Raise FellBehindError for an event that has not happened, InvalidRequestError for none."""
        if after_seq is not None and after_seq < 0:
            raise InvalidRequestError(f"after_seq {after_seq} is negative")
        if after_seq is not None and after_seq > self.last_seq:
            raise FellBehindError(
                f"after_seq {after_seq} has not happened yet; the daemon was restarted since",
                remedy="watch the call without after_seq",
            )

    async def read(self, request_id: str, after_seq: int | None) -> AsyncIterator[JournalEvent]:
        """`started` first, then what is kept after `after_seq` and what comes, `result` last."""
        position = max(after_seq or 0, FIRST_SEQ)
        yield JournalEvent(position, "started", {"request_id": request_id})
        # Who resumes has counted what it was told; which lines were lost before that nobody knows.
        seen = 0 if not after_seq else None
        while True:
            wake = self._wake
            for line in [each for each in self._lines if each.seq > position]:
                dropped = line.logs - seen if seen is not None else 0
                position, seen = line.seq, line.logs + (line.kind == "log")
                yield JournalEvent(line.seq, line.kind, line.payload, dropped_logs=dropped)
            if self._result is None:
                await wake.wait()
            elif not self._lines or self._lines[-1].seq <= position:
                break
        if position < self.last_seq:
            dropped = self._logs - seen if seen is not None else 0
            yield JournalEvent(self.last_seq, "result", {}, self._result, dropped)

    def _drop_oldest(self) -> None:
        index = next((at for at, each in enumerate(self._lines) if each.kind == "progress"), 0)
        self._bytes -= self._lines[index].size
        del self._lines[index]

    def _ring(self) -> None:
        self._wake.set()
        self._wake = asyncio.Event()
