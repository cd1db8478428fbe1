"""The databases of the data dir: opened when they are first needed, looked after, closed last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from datetime import timedelta

from hermesd.clock import Clock, uuid7
from hermesd.errors import Rejection, StoreError
from hermesd.model.intent import Intent
from hermesd.serving.idempotency import Idempotency
from hermesd.store.database import Database
from hermesd.store.high_water import was_closed
from hermesd.store.layout import DataDir
from hermesd.store.requests import RequestLedger, open_state
from hermesd.store.writer import Writer
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.metric import Metrics

_log = logging.getLogger("hermesd.store")

#: How often it is seen whether something is to be done.
TEND_S = 2.0
#: The longest time between two sweeps of keys that answer no more.
SWEEP_S = 600.0
#: Interrupted calls that are told one by one; more are told as a number.
TOLD = 50


class Storage:
    """What must outlive the daemon. `interrupted` hears, on a thread of the store, of the calls that ran when
    an earlier daemon was killed."""

    def __init__(self, directory: DataDir, clock: Clock, events: EventLog, metrics: Metrics) -> None:
        self._directory = directory
        self._clock = clock
        self._events = events
        self._boot = uuid7(clock)
        self._swept = clock.monotonic()
        self.interrupted: Callable[[Sequence[Intent]], None] = lambda intents: None
        self.state = Writer(
            self._open_state,
            name="state",
            committed=lambda seconds, jobs: metrics.store_committed("state", seconds),
            health=self._tell_health,
            lost=_tell_lost,
        )
        self.ledger = RequestLedger(self.state, self._boot)

    def _open_state(self) -> Database:
        return open_state(
            self._directory.state_database,
            self._directory.state_high_water,
            boot=self._boot,
            clock=self._clock,
            interrupted=self._tell_interrupted,
        )

    def attend(self) -> None:
        """Open at the start what a killed daemon left; what was closed in peace waits until it is needed."""
        if not was_closed(self._directory.state_high_water):
            self.state.open()

    async def tend(self, idempotency: Idempotency, window_s: Callable[[], float]) -> None:
        """Until cancelled: write again what could not be written, and forget what answers no more."""
        while True:
            await asyncio.sleep(TEND_S)
            if self.state.failure is not None:
                self.state.open()
                idempotency.save_again()
                self.ledger.flush()
            window = window_s()
            if self._clock.monotonic() - self._swept >= min(SWEEP_S, window / 4):
                self._swept = self._clock.monotonic()
                self.ledger.sweep(self._clock.now() - timedelta(seconds=window))

    def faults(self) -> list[Rejection]:
        """What cannot be written now, why, and what to do."""
        failure = self.state.failure
        if failure is None:
            return []
        told = f"calls that must be written down before they run are refused: {failure.message}"
        return [Rejection("store", told, failure.remedy)]

    async def close(self, executor: Executor, timeout_s: float) -> None:
        """Write what waits and close, within `timeout_s`; the wait is the executor's."""
        self.ledger.flush()
        await asyncio.get_running_loop().run_in_executor(executor, self.state.close, timeout_s)

    def _tell_health(self, failure: StoreError | None) -> None:
        path = str(self._directory.state_database)
        if failure is None:
            self._events.emit("store_recovered", path)
        else:
            self._events.emit("store_failed", path, failure.message, remedy=failure.remedy)

    def _tell_interrupted(self, intents: Sequence[Intent]) -> None:
        for each in intents[:TOLD]:
            told = f"{each.principal}'s call ran when the daemon was killed; how it ended is not known"
            self._events.emit(
                "call_interrupted", each.tool, told, request_id=each.request_id, began=each.began.isoformat()
            )
        if len(intents) > TOLD:
            self._events.emit("call_interrupted", "", f"and {len(intents) - TOLD} more calls")
        self.interrupted(intents)


def _tell_lost(count: int, error: StoreError) -> None:
    """What nobody waits for is the end of calls, so that they may be told as interrupted after a restart."""
    _log.warning("that %d calls have ended could not be written: %s", count, error.message)
