"""Keeps a record of each call without a call ever waiting for it.

A call that ends is put on a list and nothing more. A few times a second the list goes to a thread, which
redacts, makes the records and hands them to the sinks. What does not fit into memory is dropped and
counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import select
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from hermesd.clock import Clock
from hermesd.model.call import CallRequest, Code, Result
from hermesd.model.intent import Intent, fate_unknown
from hermesd.model.record import CallRecord
from hermesd.model.redaction import MASK, Redaction
from hermesd.plugin.trace import span_of
from hermesd.serving.course import Course

_log = logging.getLogger("hermesd.record")

#: How long a call that ended may wait in memory before its record is on its way to the disk, in seconds.
GATHER_S = 0.2
#: Calls, and characters of their arguments and results, that may wait to be recorded.
MAX_WAITING = 10_000
MAX_WAITING_CHARS = 64 * 1024 * 1024
#: A longer text's fingerprint is of its text, not of what it says.
CANONICAL_CHARS = 16 * 1024
MAX_MESSAGE = 2000
MAX_REASON = 300

#: Lets a thread that waits for the interpreter have it. Without it each of the loop's system calls would wait
#: as long as a thread may hold the interpreter, while records are being made. (A sleep of 0 takes 75 µs.)
give_way = partial(select.select, (), (), (), 0)

Sink = Callable[[Sequence[CallRecord]], None]


class Ended(NamedTuple):
    """A call that has ended, as it is remembered until its record is made. `at`: when it ended (UTC)."""

    course: Course
    result: Result
    at: datetime


class Recorder:
    """Takes ended calls on the loop's thread, and gives their records to every sink on a thread of its own.

    `redaction()` is asked once a batch; `key` makes fingerprints that only this daemon can compare.
    `dropped(n)` is told of calls that were not recorded, from any thread. A sink that raises is told in the
    log, and the others get the batch all the same.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        redaction: Callable[[], Redaction],
        key: Callable[[], bytes],
        clock: Clock,
        dropped: Callable[[int], None],
    ) -> None:
        self._sinks = tuple(sinks)
        self._redaction = redaction
        self._key = key
        self._clock = clock
        self._dropped = dropped
        self._gathered: list[Ended] = []
        self._queue: SimpleQueue[list[Ended] | Future[None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # Each of the two is written by one thread only; together they say how much waits.
        self._taken = _Amount()
        self._made = _Amount()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def take(self, course: Course, result: Result) -> None:
        """Remember a call that has ended. Returns at once; on the loop's thread only."""
        size = len(course.request.arguments_json) + len(result.data_json)
        taken, made = self._taken, self._made
        full = taken.calls - made.calls >= MAX_WAITING or taken.chars - made.chars + size > MAX_WAITING_CHARS
        if full or self._closed:
            self._dropped(1)
            return
        taken.calls += 1
        taken.chars += size
        self._gathered.append(Ended(course, result, self._clock.now()))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._hand_over)

    async def settled(self) -> None:
        """Return when every call that ended before has been given to the sinks."""
        if self._closed:
            return
        self._hand_over()
        if self._thread is not None:
            done: Future[None] = Future()
            self._queue.put(done)
            await asyncio.wrap_future(done)

    def close(self, timeout_s: float) -> None:
        """Give what is left to the sinks, within `timeout_s`; calls that end later are dropped."""
        self._hand_over()
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                _log.warning("the records of the last calls may be lost: their disk does not answer")

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._gathered:
            return
        batch, self._gathered = self._gathered, []
        self._queue.put(batch)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="hermesd-records", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, Future):
                item.set_result(None)
                continue
            try:
                self._give(item)
            except Exception:  # noqa: BLE001 - a fault of ours costs records, never the thread
                _log.exception("%d calls could not be recorded", len(item))
                self._dropped(len(item))
            self._made.calls += len(item)
            self._made.chars += sum(
                len(each.course.request.arguments_json) + len(each.result.data_json) for each in item
            )

    def _give(self, batch: list[Ended]) -> None:
        redaction, key = self._redaction(), self._key()
        records = []
        for each in batch:
            records.append(record_of(each, redaction, key))
            give_way()
        for sink in self._sinks:
            try:
                sink(records)
            except Exception:  # noqa: BLE001 - one sink's fault is not the other's
                _log.exception("the records of %d calls could not be kept", len(records))
                self._dropped(len(records))


@dataclass(slots=True)
class _Amount:
    calls: int = 0
    chars: int = 0


def record_of(ended: Ended, redaction: Redaction, key: bytes = b"") -> CallRecord:
    """What is kept of a call; everything that a caller or a tool said is redacted and bounded."""
    course, result = ended.course, ended.result
    kept = redaction.excerpt(result.data_json if result.code is Code.OK else "")
    message = redaction.text(result.message[: 2 * MAX_MESSAGE]) if result.message else ""
    downstream_ms = course.downstream_s * 1000
    return CallRecord(
        **_asked(course, redaction, key),
        version=result.version,
        code=result.code.value,
        message=_text(message)[:MAX_MESSAGE],
        reason=_reason(result, redaction),
        effect=result.effect,
        attempts=result.attempts,
        at=ended.at - timedelta(milliseconds=result.duration_ms),
        duration_ms=result.duration_ms,
        queued_ms=result.queued_ms,
        run_ms=max(0.0, result.duration_ms - result.queued_ms - downstream_ms),
        downstream_ms=downstream_ms,
        result=kept.text,
        result_bytes=_bytes(result.data_json) if result.code is Code.OK else 0,
        result_whole=kept.whole,
        truncated=result.truncated,
        degraded=bool(result.detail.get("degraded")),
        replayed=bool(result.detail.get("replayed")),
    )


def record_in_flight(course: Course, redaction: Redaction, clock: Clock, key: bytes = b"") -> CallRecord:
    """What is known of a call that has not ended: it has no code yet."""
    seconds = clock.monotonic() - course.started
    definition = course.entry.definition if course.entry is not None else None
    run_s = max(0.0, seconds - course.queued_s - course.downstream_s) if course.entered else 0.0
    return CallRecord(
        **_asked(course, redaction, key),
        version=definition.version if definition is not None else "",
        code="",
        message="",
        reason="",
        effect="",
        attempts=course.attempts,
        at=clock.now() - timedelta(seconds=seconds),
        duration_ms=seconds * 1000,
        queued_ms=(course.queued_s if course.entered else seconds) * 1000,
        run_ms=run_s * 1000,
        downstream_ms=course.downstream_s * 1000,
        result="",
        result_bytes=0,
        result_whole=True,
        truncated=False,
        degraded=False,
        replayed=False,
    )


def record_of_interrupted(intent: Intent) -> CallRecord:
    """What is known of a call that ran when the daemon was killed; its arguments are not."""
    fate = fate_unknown(intent)
    kind, _, name = intent.principal.partition(":")
    span = span_of(intent.request_id)
    return CallRecord(
        at=intent.began,
        request_id=intent.request_id,
        parent_request_id=intent.parent_request_id,
        session_id=intent.session_id,
        agent=name or kind,
        agent_kind=kind,
        caller="",
        tool=intent.tool,
        version=intent.version,
        generation=intent.generation,
        source=intent.source,
        plugin=intent.plugin,
        code=fate.code.value,
        message=fate.message,
        reason=str(fate.detail.get("reason", "")),
        effect=fate.effect,
        attempts=fate.attempts,
        duration_ms=0.0,  # nobody knows how long it ran
        queued_ms=0.0,
        run_ms=0.0,
        downstream_ms=0.0,
        fingerprint="",
        arguments="",
        arguments_bytes=0,
        arguments_whole=False,
        result="",
        result_bytes=0,
        result_whole=True,
        truncated=False,
        degraded=False,
        replayed=False,
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id,
    )


def _asked(course: Course, redaction: Redaction, key: bytes) -> dict[str, Any]:
    """What was asked, by whom, of what: the same for calls that have ended and for those that have not."""
    request, entry = course.request, course.entry
    principal, caller = request.caller.principal, request.caller
    given = course.arguments_json or request.arguments_json
    arguments = redaction.excerpt(given)
    span = span_of(request.request_id, request.traceparent)
    return {
        "request_id": _text(request.request_id),
        "parent_request_id": _text(request.parent_request_id),
        "session_id": _text(request.session_id),
        "agent": principal.name,
        "agent_kind": principal.kind,
        "caller": caller.name if caller is not principal else "",
        "tool": request.tool if entry is not None else _text(redaction.text(request.tool)),
        "generation": course.catalogue.generation,
        "source": entry.source if entry is not None else "",
        "plugin": entry.plugin if entry is not None else "",
        "fingerprint": fingerprint(given, key),
        "arguments": arguments.text,
        "arguments_bytes": _bytes(given),
        "arguments_whole": arguments.whole,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_id,
        "metadata_json": _metadata(request, redaction) if request.metadata else "{}",
    }


def fingerprint(arguments_json: str, key: bytes = b"") -> str:
    """Equal for equal arguments, whatever their spelling; with a `key` nobody finds short ones by trying."""
    text = arguments_json
    if len(text) <= CANONICAL_CHARS:
        try:
            text = _CANONICAL(json.loads(text))
        except (ValueError, RecursionError):
            text = arguments_json  # no JSON: the call was refused for that
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=key).hexdigest()


#: As `canonical_json`, without an encoder of its own for each call.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def _reason(result: Result, redaction: Redaction) -> str:
    """Why it failed in one word or sentence; for arguments the first fault."""
    detail = result.detail
    if not detail:
        return ""
    faults = detail.get("faults")
    if isinstance(faults, list) and faults and isinstance(faults[0], Mapping):
        path, problem = str(faults[0].get("path") or "/"), str(faults[0].get("problem", ""))
        told = f"{path[:MAX_REASON]}: {problem[:MAX_REASON]}"
        return _text(redaction.text(told))[:MAX_REASON]
    reason = detail.get("reason")
    return _text(redaction.text(reason[: 2 * MAX_REASON]))[:MAX_REASON] if isinstance(reason, str) else ""


def _metadata(request: CallRequest, redaction: Redaction) -> str:
    seen = {
        _text(key): MASK if redaction.hides(key) else _text(redaction.text(value))
        for key, value in request.metadata.items()
    }
    return json.dumps(seen, ensure_ascii=False, separators=(",", ":"))


def _text(text: str) -> str:
    """`text` as it can be stored: lone surrogates become "?"."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
