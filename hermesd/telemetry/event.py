"""What happened, in order: the daemon's own events, for watchers and for the log."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import cast

from hermesd.clock import Clock
from hermesd.errors import FellBehindError
from hermesd.model.text import clean, clean_value

MESSAGE_LIMIT = 2000
SUBJECT_LIMIT = 300

#: Every kind of event and the level of its log line. The documentation lists the same kinds.
KINDS: Mapping[str, int] = MappingProxyType(
    {
        "daemon_started": logging.INFO,
        "daemon_ready": logging.INFO,
        "daemon_draining": logging.WARNING,
        "daemon_resumed": logging.INFO,
        "daemon_stopping": logging.INFO,
        "daemon_stopped": logging.INFO,
        "http_started": logging.INFO,
        "address_lost": logging.ERROR,
        "address_reopened": logging.WARNING,
        "config_loaded": logging.INFO,
        "config_rejected": logging.ERROR,
        "reload_finished": logging.INFO,
        "file_found": logging.DEBUG,
        "plugin_found": logging.DEBUG,
        "plugin_waiting": logging.WARNING,
        "plugin_ready": logging.INFO,
        "plugin_removed": logging.INFO,
        "plugin_rejected": logging.ERROR,
        "plugin_unavailable": logging.WARNING,
        "plugin_state": logging.WARNING,
        "plugin_trusted": logging.INFO,
        "plugin_untrusted": logging.INFO,
        "plugin_granted": logging.INFO,
        "plugin_revoked": logging.INFO,
        "plugin_enabled": logging.INFO,
        "plugin_disabled": logging.INFO,
        "plugin_rolled_back": logging.WARNING,
        "tool_ready": logging.DEBUG,
        "tool_warning": logging.WARNING,
        "tool_enabled": logging.INFO,
        "tool_disabled": logging.INFO,
        "agent_added": logging.INFO,
        "agent_rotated": logging.INFO,
        "agent_revoked": logging.WARNING,
        "agent_changed": logging.INFO,
        "agent_expired": logging.WARNING,
        "authentication_failed": logging.WARNING,
        "denied": logging.WARNING,
        "worker_crashed": logging.WARNING,
        "call_failed": logging.ERROR,
        "call_interrupted": logging.WARNING,
        "confirmation_requested": logging.INFO,
        "confirmation_approved": logging.INFO,
        "confirmation_denied": logging.WARNING,
        "confirmation_used": logging.INFO,
        "confirmation_expired": logging.INFO,
        "circuit_opened": logging.WARNING,
        "circuit_closed": logging.INFO,
        "circuit_reset": logging.INFO,
        "calls_lost": logging.WARNING,
        "outputs_lost": logging.ERROR,
        "outputs_kept": logging.INFO,
        "store_failed": logging.ERROR,
        "store_recovered": logging.INFO,
        "watcher_degraded": logging.WARNING,
        "watcher_recovered": logging.INFO,
        "loop_lagged": logging.WARNING,
        "log_restored": logging.WARNING,
    }
)

_log = logging.getLogger("hermesd.event")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `seq` counts from 1 and has no gaps; `at` is UTC; all text is clean."""

    seq: int
    at: datetime
    kind: str
    subject: str
    message: str
    fields: Mapping[str, object]


@dataclass(eq=False, slots=True)
class _Watcher:
    loop: asyncio.AbstractEventLoop
    wake: asyncio.Event


class EventLog:
    """The last `capacity` events, in memory; each is one structured log line too.

    `emit` may be called from any thread and never waits for a watcher: one that is too slow is told so
    by FellBehindError and can start again from what is kept.
    """

    def __init__(self, clock: Clock, capacity: int = 4096) -> None:
        if capacity < 1:
            raise ValueError("an event log keeps at least one event")
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[Event] = deque(maxlen=capacity)
        self._seq = 0
        self._watchers: set[_Watcher] = set()

    @property
    def last_seq(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self._seq

    def emit(self, kind: str, subject: str, message: str = "", /, **fields: object) -> Event:
        """Record one event, log it and wake the watchers. Thread-safe; never raises for bad content."""
        cleaned = cast("dict[str, object]", clean_value(fields))
        subject = clean(subject, SUBJECT_LIMIT)
        message = clean(message, MESSAGE_LIMIT)
        with self._lock:
            self._seq += 1
            event = Event(self._seq, self._clock.now(), kind, subject, message, MappingProxyType(cleaned))
            self._kept.append(event)
            watchers = list(self._watchers)
        self._write(event)
        for watcher in watchers:
            self._wake(watcher)
        return event

    def recent(self, count: int) -> list[Event]:
        """The newest `count` events that are kept, oldest first."""
        with self._lock:
            start = max(0, len(self._kept) - max(0, count))
            return list(islice(self._kept, start, None))

    def watch(self, after_seq: int | None = None) -> AsyncIterator[Event]:
        """Each event after `after_seq` in order, without gaps; None: those after this call.

        The iterator ends only by cancellation or `aclose`. It raises FellBehindError when an event that
        it owes is no longer kept, or when `after_seq` lies in the future (the daemon was restarted).
        """
        with self._lock:
            position = self._seq if after_seq is None else after_seq
        return self._follow(position)

    async def _follow(self, position: int) -> AsyncIterator[Event]:
        watcher = _Watcher(asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._watchers.add(watcher)
        try:
            while True:
                watcher.wake.clear()
                for event in self._after(position):
                    position = event.seq
                    yield event
                await watcher.wake.wait()
        finally:
            with self._lock:
                self._watchers.discard(watcher)

    def _after(self, position: int) -> list[Event]:
        with self._lock:
            oldest = self._seq - len(self._kept) + 1
            if position + 1 < oldest:
                raise FellBehindError(
                    f"events after {position} are gone; the oldest that is kept is {oldest}",
                    remedy=f"watch again with after_seq {oldest - 1}",
                )
            if position > self._seq:
                raise FellBehindError(
                    f"there is no event {position} yet; the newest is {self._seq}",
                    remedy="the daemon was restarted since: watch again from the beginning",
                )
            return list(islice(self._kept, position + 1 - oldest, None))

    def _wake(self, watcher: _Watcher) -> None:
        try:
            watcher.loop.call_soon_threadsafe(watcher.wake.set)
        except RuntimeError:  # its loop was closed without closing the iterator: nobody listens any more
            with self._lock:
                self._watchers.discard(watcher)

    def _write(self, event: Event) -> None:
        what = " ".join(each for each in (event.kind, event.subject) if each)
        text = f"{what}: {event.message}" if event.message else what
        fields = {"event": event.kind, "subject": event.subject, "seq": event.seq, **event.fields}
        _log.log(KINDS.get(event.kind, logging.INFO), "%s", text, extra={"fields": fields})
