"""What is kept of calls, put together: the recorder, its two sinks, and what is asked of them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from hermesd.access.policy import decide, whose_calls
from hermesd.clock import Clock
from hermesd.config.configuration import Configuration
from hermesd.errors import Rejection, StoreError
from hermesd.model.call import Caller, Owner, Result
from hermesd.model.intent import Intent
from hermesd.model.record import CallFilter, CallRecord, CallStats
from hermesd.model.redaction import Redaction
from hermesd.runtimes.redact import Redactor
from hermesd.serving.course import Course
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.recorder import Recorder, give_way, record_in_flight, record_of_interrupted
from hermesd.serving.registry import Registry
from hermesd.serving.replay import Replayer
from hermesd.store.calls import CallStore, cutoff
from hermesd.store.durable import write_atomic
from hermesd.store.layout import DataDir
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.rotation import RotatedFile

_log = logging.getLogger("hermesd.record")

MIB = 1024 * 1024
#: How often records that are too old or too many are removed, in seconds.
SWEEP_S = 600.0
KEY_BYTES = 32
#: Questions of agents that are answered at once: the operator always finds a reader of the store free.
AGENTS_ASK = 2


class Recording:
    """Records every call; answers what is asked about them. Nothing here is on the path of a call but `take`.

    Files are opened when the first call has ended or the first question is asked.
    """

    def __init__(
        self,
        directory: DataDir,
        log_dir: Path,
        *,
        configuration: Callable[[], Configuration],
        events: EventLog,
        clock: Clock,
        dropped: Callable[[int], None],
        committed: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._configuration = configuration
        self._events = events
        self._clock = clock
        self._dropped = dropped
        self._log_path = log_dir / "calls.jsonl"
        self._log_refused = False
        self._key_path = directory.record_key
        self._known_key = b""
        self._redaction_of: tuple[str, Redaction] | None = None
        self._store = CallStore(
            directory.calls_database, lost=dropped, moved_aside=self._moved_aside, committed=committed
        )
        self._recorder = Recorder(
            (self._log, self._store.record),
            redaction=self._redaction,
            key=self._key,
            clock=clock,
            dropped=dropped,
        )
        self._agents_turn = asyncio.Semaphore(AGENTS_ASK)
        self.flights = Flights()
        self.replayer: Replayer | None = None
        self.registry: Registry | None = None

    def serve(self, dispatcher: Dispatcher, registry: Registry, flights: Flights) -> None:
        """Know what is served: for calls in flight, tools that nobody calls, and replays."""
        self.flights, self.registry = flights, registry
        self.replayer = Replayer(dispatcher, registry, self._clock)

    def take(self, course: Course, result: Result) -> None:
        """A call has ended."""
        self._recorder.take(course, result)

    def interrupted(self, intents: Sequence[Intent]) -> None:
        """Record calls that ran when an earlier daemon was killed. Blocks; on any thread."""
        records = [record_of_interrupted(each) for each in intents]
        self._log(records)
        self._store.record(records)

    async def page(
        self, caller: Caller, asked: CallFilter, limit: int, before: int | None
    ) -> Sequence[tuple[int, CallRecord]]:
        """Records of calls that ended and that `caller` may read, the last first. Raises StoreError."""
        async with self._asking(caller):
            if before is None:
                await self._settled()
            return await self._store.page(_bounded(caller, asked), limit, before)

    def in_flight(self, caller: Caller, asked: CallFilter) -> Sequence[CallRecord]:
        """The calls in flight that the filter means and `caller` may read, the oldest first."""
        return list(self._flying(caller, asked))

    async def find(self, caller: Caller, request_id: str) -> CallRecord | None:
        """The call with this id that `caller` may read: in flight, or recorded. Raises StoreError."""
        flying = next(self._flying(caller, CallFilter(), request_id), None)
        if flying is not None:
            return flying
        async with self._asking(caller):
            await self._settled()
            return await self._store.find(request_id, whose_calls(caller))

    async def stats(self, caller: Caller, asked: CallFilter) -> CallStats:
        """How the calls went that `caller` may read; of the tools that it sees, those that it did not call.

        Raises StoreError.
        """
        tools = self.registry.catalogue.tools if self.registry is not None else {}
        seen = [name for name, each in tools.items() if decide(caller, "see", each.definition).visible]
        served = [each for each in seen if not asked.tool or fnmatchcase(each, asked.tool)]
        async with self._asking(caller):
            await self._settled()
            return await self._store.stats(_bounded(caller, asked), served)

    async def replay(
        self,
        record: CallRecord,
        caller: Caller,
        *,
        arguments_json: str,
        token: str,
        timeout_ms: int | None,
        deadline: float | None,
    ) -> Result:
        """Run a recorded call again. PreconditionError, and what a call raises."""
        assert self.replayer is not None  # noqa: S101 - `serve` comes before the server starts
        return await self.replayer.replay(
            record,
            caller,
            arguments_json=arguments_json,
            token=token,
            timeout_ms=timeout_ms,
            deadline=deadline,
        )

    def faults(self) -> list[Rejection]:
        """Why records are not kept now, and what to do; calls go on."""
        failure = self._store.failure
        if failure is None:
            return []
        return [Rejection("records", f"calls leave no record: {failure.message}", failure.remedy)]

    async def keep_within_bounds(self) -> None:
        """Remove what is too old or too much, again and again, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep()

    def sweep(self) -> None:
        """Have what is too old or too much removed soon."""
        kept = self._configuration().telemetry.records
        self._store.sweep(cutoff(self._clock.now(), kept.keep_days), kept.max_mb * MIB)

    def close(self, timeout_s: float) -> None:
        """Write what waits. Blocks for at most twice `timeout_s`."""
        self._recorder.close(timeout_s)
        self._store.close(timeout_s)

    def _flying(self, caller: Caller, asked: CallFilter, request_id: str = "") -> Iterator[CallRecord]:
        redaction, asked = self._redaction(), _bounded(caller, asked)
        for each in self.flights:
            course = each.course
            if course is None or request_id not in ("", each.request_id):
                continue
            if decide(caller, "read", each.caller).allowed:
                record = record_in_flight(course, redaction, self._clock, self._known_key)
                if _is_meant(record, asked):
                    yield record

    def _asking(self, caller: Caller) -> AbstractAsyncContextManager[object]:
        """An agent waits for its turn."""
        return nullcontext() if caller.kind == "operator" else self._agents_turn

    async def _settled(self) -> None:
        await self._recorder.settled()
        await self._store.settled()

    def _redaction(self) -> Redaction:
        configuration = self._configuration()
        if self._redaction_of is None or self._redaction_of[0] != configuration.digest:
            known = Redactor(configuration.secrets.values())
            made = Redaction(configuration.telemetry.call_log.redact, known.text, known.longest)
            self._redaction_of = (configuration.digest, made)
        return self._redaction_of[1]

    def _key(self) -> bytes:
        """The key of fingerprints; made when there is none. Without a disk it is good for this life only."""
        if not self._known_key:
            self._known_key = self._kept_key()
        return self._known_key

    def _kept_key(self) -> bytes:
        try:
            if len(kept := self._key_path.read_bytes()) == KEY_BYTES:
                return kept
        except OSError:
            pass  # there is none yet, or it cannot be read: then it is made anew
        made = secrets.token_bytes(KEY_BYTES)
        try:
            write_atomic(self._key_path, made, mode=0o600)
        except StoreError as error:
            _log.warning("fingerprints of calls change with the next start: %s", error.message)
        return made

    def _log(self, records: Sequence[CallRecord]) -> None:
        """Append the records to the call log; what the disk refuses is counted."""
        settings = self._configuration().telemetry.call_log
        file = RotatedFile(self._log_path, max_bytes=settings.max_mb * MIB, keep=settings.keep)
        try:
            file.append(self._line(each, content=settings.content) for each in records)
        except OSError as error:
            self._dropped(len(records))
            if not self._log_refused:
                _log.error("%s cannot be written: %s", self._log_path, error.strerror)
            self._log_refused = True
        else:
            self._log_refused = False

    def _line(self, record: CallRecord, *, content: bool) -> bytes:
        give_way()
        return record.line(content=content).encode() + b"\n"

    def _moved_aside(self, path: Path, reason: str) -> None:
        told = f"{reason}; it is kept as {path}, and records begin anew"
        self._events.emit("records_moved_aside", str(path), told)


def _bounded(caller: Caller, asked: CallFilter) -> CallFilter:
    """The question, of what this caller may read."""
    return replace(asked, owner=whose_calls(caller))


def _is_meant(record: CallRecord, asked: CallFilter) -> bool:
    """What the store asks of its rows, for a call in flight."""
    if asked.owner is not None and not _is_owned(record, asked.owner):
        return False
    if asked.code or asked.failed:  # it has no code yet
        return False
    if asked.tool and not fnmatchcase(record.tool, asked.tool):
        return False
    if asked.since is not None and record.at < asked.since:
        return False
    if asked.until is not None and record.at >= asked.until:
        return False
    exact = ("agent", "session_id", "plugin", "parent_request_id", "trace_id")
    return all(getattr(asked, name) in ("", getattr(record, name)) for name in exact)


def _is_owned(record: CallRecord, owner: Owner) -> bool:
    own = (record.agent_kind, record.agent) == owner
    return own and (not record.caller or record.source != "")
