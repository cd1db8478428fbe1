"""What answers calls, put together: the dispatcher, all that it asks, and what calls leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from hermesd.access.identity import Identities
from hermesd.clock import Clock
from hermesd.config.configuration import Configuration
from hermesd.daemon.audit import Audit
from hermesd.daemon.confirmation import confirmations
from hermesd.daemon.listener import MIB, CallListener, call_policy
from hermesd.daemon.recording import Recording
from hermesd.daemon.storage import Storage
from hermesd.errors import Rejection, StoreError
from hermesd.serving.circuit import Circuits
from hermesd.serving.detached import DetachedCalls
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.output import Outputs
from hermesd.serving.registry import Registry
from hermesd.store.layout import DataDir
from hermesd.store.output import OutputStore
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.metric import Metrics
from hermesd.telemetry.plugin_log import PluginLog


class Pipeline:
    """The parts, each made of those before it. Making them opens no file and begins no task.

    `configuration()` is the one in force. What is opened, tended and closed, and when, its owner decides.
    """

    def __init__(
        self,
        *,
        configuration: Callable[[], Configuration],
        directory: DataDir,
        log_dir: Path,
        plugin_log: PluginLog,
        events: EventLog,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._configuration = configuration
        self._events = events
        self._metrics = metrics
        self.registry = Registry()
        self.flights = Flights()
        self.storage = Storage(directory, clock, events, metrics)
        self.records = Recording(
            directory,
            log_dir,
            configuration=configuration,
            events=events,
            clock=clock,
            dropped=metrics.records_dropped,
            committed=lambda seconds: metrics.store_committed("calls", seconds),
        )
        self.storage.interrupted = self.records.interrupted
        self.confirmations = confirmations(clock, events, metrics, configuration)
        self.audit = Audit(events, metrics, clock)
        self.identities = Identities(clock)
        self.listener = CallListener(metrics, plugin_log, events, self.records.take, self.audit)
        self.outputs = Outputs(OutputStore(directory.output, clock), self._output_trouble)
        self.circuits = Circuits(self.registry, clock, self.listener.circuit_changed)
        self.dispatcher = Dispatcher(
            self.registry,
            self.flights,
            call_policy(configuration()),
            self.listener,
            clock,
            ledger=self.storage.ledger,
            confirmations=self.confirmations,
            circuits=self.circuits,
            outputs=self.outputs,
        )
        self.dispatcher.present = self.identities.present
        metrics.set_waiting(self.dispatcher.waiting)
        self.records.serve(self.dispatcher, self.registry, self.flights)

    async def recover_detached(self, tasks: asyncio.TaskGroup) -> DetachedCalls:
        """What earlier daemons kept, and what became of the calls that they did not see end."""
        self.limit_outputs()
        detached = DetachedCalls(
            self.dispatcher, self.registry, self.outputs, tasks, is_current=self.identities.is_current
        )
        try:
            unended = await self.outputs.open()
        except StoreError as error:
            self._output_trouble(error.message)
            return detached
        if unended:
            self._events.emit("calls_lost", "", "detached calls had not ended", calls=len(unended))
            await detached.recover(unended)
        return detached

    def limit_outputs(self) -> None:
        """Keep to the configuration in force."""
        limits = self._configuration().defaults.result
        self.outputs.limit(limits.keep_mb * MIB, limits.keep_s)

    def measure(self) -> None:
        """Have the metrics say what is kept and what goes on."""
        self._metrics.set_outputs(self.outputs.size, sum(each.detached for each in self.flights))

    async def tend_storage(self) -> None:
        """Keep what was promised to be remembered, until cancelled."""
        self.storage.attend()
        await self.storage.tend(
            self.dispatcher.idempotency, lambda: self.dispatcher.policy.idempotency_window_s
        )

    def faults(self) -> list[Rejection]:
        """What is wrong with the stores now."""
        return [*self.storage.faults(), *self.records.faults()]

    def _output_trouble(self, reason: str) -> None:
        if reason:
            self._events.emit("outputs_lost", "", f"results that are cut cannot be kept: {reason}")
        else:
            self._events.emit("outputs_kept", "", "results that are cut are kept again")
