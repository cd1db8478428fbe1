"""The daemon's life, in order: wire, answer, load, watch, drain, stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from hermesd.client.address import Address
from hermesd.clock import Clock
from hermesd.config.configuration import Configuration
from hermesd.daemon import memory
from hermesd.daemon.agent import Agents
from hermesd.daemon.decision import Decisions
from hermesd.daemon.exposition import Exposition
from hermesd.daemon.git import WorkTree
from hermesd.daemon.inspection import Inspection
from hermesd.daemon.lifecycle import Lifecycle
from hermesd.daemon.listener import ReloadListener
from hermesd.daemon.pipeline import Pipeline
from hermesd.daemon.source_watch import SourceWatch
from hermesd.errors import HermesdError, Rejection
from hermesd.model.call import Code
from hermesd.model.status import State
from hermesd.reload.drain import Drainer
from hermesd.reload.goal import Plan, Run
from hermesd.reload.preparation import Preparer
from hermesd.reload.reading import SourceReading
from hermesd.reload.reloader import Reloader
from hermesd.rpc.server import Backend, Limits, RpcServer
from hermesd.rpc.tls import TlsFiles
from hermesd.runtimes.inprocess import InProcessRuntime
from hermesd.runtimes.runtime import Runtime
from hermesd.runtimes.worker import WorkerRuntime
from hermesd.serving.detached import DetachedCalls
from hermesd.serving.flight import Cut
from hermesd.store.content import ContentStore
from hermesd.store.grants import GrantStore
from hermesd.store.layout import DataDir
from hermesd.store.served import ServedStore
from hermesd.supervise.launcher import Launcher
from hermesd.systemd.notify import Notifier
from hermesd.systemd.watchdog import keep_alive
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.guard import LogGuard
from hermesd.telemetry.lag import LoopLag
from hermesd.telemetry.metric import Metrics
from hermesd.telemetry.plugin_log import PluginLog
from hermesd.telemetry.routing import routed
from hermesd.version import __version__

if TYPE_CHECKING:
    from hermesd.http.server import HttpServer

_log = logging.getLogger("hermesd")

#: After the drain: for answers to leave and handlers to end.
LAST_WORDS_S = 2.0
#: For what waits to be written to the store.
STORE_S = 5.0
#: How soon it is noticed that a socket was removed.
ADDRESS_CHECK_S = 2.0
STOPPED = Cut(Code.UNAVAILABLE, "the daemon stopped while this call ran", "call again when it is back")


class Daemon:
    """Everything between `READY=1` and the last answer. `run` returns when the daemon has stopped."""

    def __init__(
        self,
        *,
        load: Callable[[], Configuration],
        configuration: Configuration,
        loaded_ns: int,
        candidates: Sequence[Path],
        directory: DataDir,
        addresses: Sequence[str],
        launcher: Launcher,
        clock: Clock,
    ) -> None:
        self._boot = configuration
        self._configuration = configuration
        self._directory = directory
        self._addresses = tuple(addresses)
        self._launcher = launcher
        self._clock = clock
        self._notifier = Notifier.from_environ(os.environ)
        self._events = EventLog(clock)
        self._metrics = Metrics()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="hermesd-reload")
        # Apart from reading: looking at the daemon must not wait for a plugin that is being copied.
        self._desk = ThreadPoolExecutor(1, thread_name_prefix="hermesd-desk")
        log_dir = configuration.telemetry.log_dir or directory.logs
        self._plugin_log = PluginLog(log_dir / "plugins", clock=clock, dropped=self._metrics.records_dropped)
        self._calls = Pipeline(
            configuration=lambda: self._configuration,
            directory=directory,
            log_dir=log_dir,
            plugin_log=self._plugin_log,
            events=self._events,
            metrics=self._metrics,
            clock=clock,
        )
        self._contents = ContentStore(directory.plugins)
        self._grants = GrantStore(directory.grants, clock)
        self._served = ServedStore(directory.last_good, clock)
        self._agents = self._make_agents()
        self._watch = SourceWatch(
            lambda: self._configuration,
            candidates=candidates,
            data_dir=directory.root,
            clock=clock,
            seen=lambda: self._reading.seen,
            on_rescan_found=self._metrics.rescan_found_changes,
            on_degraded=self._watch_degraded,
        )
        self._reading = SourceReading(
            load=load,
            sources=self._watch.sources,
            contents=self._contents,
            grants=self._grants,
            served=self._served,
            executor=self._executor,
            unsettled=self._watch.unsettled,
            moved=self._watch.moved,
            notices=self._restart_notices,
            files=self._watch.files_of,
            looked=self._watch.scans,
            state_dir=directory.state / "plugins",
        )
        self._reading.adopt(configuration, loaded_ns)
        self._rpc: RpcServer | None = None
        self._lifecycle = Lifecycle(
            dispatcher=self._calls.dispatcher,
            flights=self._calls.flights,
            events=self._events,
            stop=self.stop,
            serving=self._tell_health,
        )
        self._lag = LoopLag(clock, self._loop_ran, lagged=self._lagged)
        self._log_guard = LogGuard()

    async def run(self) -> None:
        """Serve until `stop`. Raises LockedError when an address is taken."""
        told = f"hermesd {__version__}, pid {os.getpid()}, data in {self._directory.root}"
        with contextlib.ExitStack() as undo:
            # Before anything is told and until all is said: a stop ends in peace whenever it is asked for.
            undo.callback(_catch({signal.SIGTERM: self.stop, signal.SIGINT: self.stop}))
            self._events.emit("daemon_started", "", told, pid=os.getpid(), data_dir=str(self._directory.root))
            undo.callback(self._plugin_log.close)
            undo.callback(self._calls.records.close, LAST_WORDS_S)
            undo.callback(self._executor.shutdown)
            undo.callback(self._desk.shutdown)
            undo.callback(self._calls.outputs.close)
            undo.enter_context(routed(self._plugin_log))
            self._log_guard = LogGuard()
            async with asyncio.TaskGroup() as tasks:
                reloader = self._reloader(tasks)
                self._calls.dispatcher.awaits = reloader.awaited
                inspection, decisions = self._inspection(reloader), self._decisions(reloader)
                detached = await self._calls.recover_detached(tasks)
                server = self._rpc = self._server(reloader, inspection, decisions, detached)
                await server.start()
                background = [
                    tasks.create_task(self._lag.run(), name="loop lag"),
                    tasks.create_task(
                        keep_alive(self._notifier, lambda: self._lag.last_progress), name="watchdog"
                    ),
                ]
                background.append(tasks.create_task(self._keep_addresses(server), name="addresses"))
                background.append(tasks.create_task(self._calls.records.keep_within_bounds(), name="records"))
                background.append(tasks.create_task(self._calls.tend_storage(), name="storage"))
                background.append(tasks.create_task(self._agents.watch_expiry(), name="expiry"))
                background.append(tasks.create_task(self._calls.outputs.run(), name="outputs"))
                undo_signals = self._catch_requests(tasks, reloader, inspection)
                try:
                    http = await self._start_http(tasks, inspection)
                    await self._first_pass(reloader, decisions, server)
                    background.append(tasks.create_task(self._follow(reloader), name="watch"))
                    await self._stopping.wait()
                    await self._stop(reloader, server)
                    if http is not None:
                        http.stop()
                finally:
                    undo_signals()
                    await server.stop(0.0)  # after a start that failed half-way; else it has stopped already
                    await self._calls.storage.close(self._desk, STORE_S)
                    await self._watch.close()
                    for task in background:
                        task.cancel()
            await self._launcher.stop()
        self._events.emit("daemon_stopped", "")

    def stop(self) -> None:
        """Begin to stop; asked again, stop draining and cut what still runs."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def _reloader(self, tasks: asyncio.TaskGroup) -> Reloader:
        listener = ReloadListener(
            self._events, self._metrics, self._calls.registry, self._calls.dispatcher, self._planned
        )
        return Reloader(
            reading=self._reading,
            preparer=Preparer(self._runtime, self._clock),
            registry=self._calls.registry,
            drainer=Drainer(tasks, self._calls.flights, lambda: self._configuration.server.drain_timeout_s),
            listener=listener,
            tasks=tasks,
            clock=self._clock,
        )

    def _inspection(self, reloader: Reloader) -> Inspection:
        return Inspection(
            lifecycle=self._lifecycle,
            reloader=reloader,
            registry=self._calls.registry,
            flights=self._calls.flights,
            dispatcher=self._calls.dispatcher,
            calls=self._calls.listener,
            confirmations=self._calls.confirmations,
            circuits=self._calls.circuits,
            grants=self._grants,
            plugin_log=self._plugin_log,
            launcher=self._launcher,
            watch=self._watch,
            lag=self._lag,
            executor=self._desk,
            clock=self._clock,
            addresses=self._addresses,
            agents_addresses=lambda: self._rpc.agents_addresses if self._rpc is not None else (),
            address_faults=lambda: self._rpc.warnings() if self._rpc is not None else [],
            lost_addresses=lambda: self._rpc.lost() if self._rpc is not None else (),
            store_faults=self._calls.faults,
            work_tree=WorkTree(next(iter(self._boot.files), None), self._launcher, self._clock),
        )

    def _make_agents(self) -> Agents:
        return Agents(
            identities=self._calls.identities,
            grants=self._grants,
            flights=self._calls.flights,
            registry=self._calls.registry,
            events=self._events,
            executor=self._desk,
            clock=self._clock,
            configuration=self._boot,
            rights_changed=self._tell_streams,
            gone=self._calls.confirmations.forget,
        )

    def _decisions(self, reloader: Reloader) -> Decisions:
        return Decisions(
            reloader=reloader,
            registry=self._calls.registry,
            grants=self._grants,
            served=self._served,
            contents=self._contents,
            events=self._events,
            executor=self._desk,
            circuits=self._calls.circuits,
        )

    async def _tell_health(self, serving: bool) -> None:
        if self._rpc is not None:
            await self._rpc.set_serving(serving)

    def _server(
        self, reloader: Reloader, inspection: Inspection, decisions: Decisions, detached: DetachedCalls
    ) -> RpcServer:
        limits = self._boot.server.limits
        return RpcServer(
            Backend(
                calls=self._calls.dispatcher,
                registry=self._calls.registry,
                reload=reloader,
                events=self._events,
                inspection=inspection,
                lifecycle=self._lifecycle,
                decisions=decisions,
                confirmations=self._calls.confirmations,
                identities=self._calls.identities,
                agents=self._agents,
                detached=detached,
                outputs=self._calls.outputs,
                records=self._calls.records,
            ),
            addresses=self._addresses,
            agents=self._boot.server.agents_listen,
            tls=_tls_files(self._boot),
            clock=self._clock,
            limits=Limits(limits.message_mb, limits.max_concurrent_streams, int(limits.keepalive_min_s)),
            socket_group=self._boot.server.socket_group,
            denied=self._calls.audit.denied,
        )

    def _tell_streams(self) -> None:
        if self._rpc is not None:
            self._rpc.rights_changed()

    async def _start_http(self, tasks: asyncio.TaskGroup, inspection: Inspection) -> HttpServer | None:
        if not self._boot.server.http:
            return None
        from hermesd.http.server import HttpServer  # noqa: PLC0415 - megabytes that most daemons never need

        http = HttpServer(
            self._boot.server.http,
            health=inspection,
            metrics=Exposition(self._metrics, inspection.children, self._desk),
            metrics_open=lambda: self._configuration.telemetry.metrics_open,
        )
        http.bind()
        tasks.create_task(http.run(), name="http")
        self._events.emit("http_started", http.address)
        return http

    async def _first_pass(self, reloader: Reloader, decisions: Decisions, server: RpcServer) -> None:
        self._calls.registry.switch_off(decisions.switched_off())
        report = await reloader.reload(cause="start", no_wait=True)
        self._lifecycle.loaded()
        entries = self._calls.registry.catalogue.tools.values()
        ready = sum(each.standing().state is State.READY for each in entries)
        state = f"{ready} of {len(entries)} tools ready, {len(report.rejected)} rejected"
        # Not before: what waits for readiness calls tools next.
        await server.set_serving(True)
        self._notifier.ready(state)
        self._events.emit("daemon_ready", ", ".join(self._addresses), state)
        memory.settle()
        await asyncio.get_running_loop().run_in_executor(self._desk, memory.trim)

    async def _follow(self, reloader: Reloader) -> None:
        """Reload when what lies in the plugin directories or the configuration has settled."""
        await self._watch.start(self._reading.seen)
        if not self._boot.plugins.watch:
            return  # what a reload's own look finds is that reload's to apply, or, in a rehearsal, nobody's
        async for settled in self._watch.changes():
            _log.debug("settled: %s", ", ".join(sorted(settled.changed)))
            await self._reload(reloader, "watch", no_wait=True)

    async def _reload(self, reloader: Reloader, cause: str, *, no_wait: bool) -> None:
        """A pass that nobody waits for: whatever goes wrong with it is told, and the daemon goes on."""
        try:
            await reloader.reload(cause=cause, no_wait=no_wait)
        except HermesdError as error:
            _log.error("the reload failed: %s", error.message)
        except Exception:  # noqa: BLE001 - told with its traceback; a daemon outlives its own faults
            _log.exception("the reload failed")

    async def _stop(self, reloader: Reloader, server: RpcServer) -> None:
        timeout_s = self._configuration.server.drain_timeout_s
        self._lifecycle.stopping()
        self._calls.dispatcher.draining = True
        self._notifier.stopping("draining", extend_s=timeout_s + 2 * LAST_WORDS_S)
        self._events.emit("daemon_stopping", "", calls=len(self._calls.flights), drain_timeout_s=timeout_s)
        await server.set_serving(False)
        await self._watch.close()
        await self._drained(timeout_s)
        for flight in self._calls.flights:
            flight.end(STOPPED)
        await server.stop(LAST_WORDS_S)
        await reloader.close()

    async def _drained(self, timeout_s: float) -> None:
        waits = [asyncio.create_task(self._calls.flights.idle()), asyncio.create_task(self._hurry.wait())]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    def _catch_requests(
        self, tasks: asyncio.TaskGroup, reloader: Reloader, inspection: Inspection
    ) -> Callable[[], None]:
        """HUP reloads, USR1 writes the state to the log. Returns the undo."""

        async def reload() -> None:
            with self._notifier.reloading():
                await self._reload(reloader, "signal", no_wait=False)

        async def dump() -> None:
            _log.info("state", extra={"state": await inspection.dump_state()})

        return _catch(
            {
                signal.SIGHUP: lambda: tasks.create_task(reload(), name="SIGHUP"),
                signal.SIGUSR1: lambda: tasks.create_task(dump(), name="SIGUSR1"),
            }
        )

    def _runtime(self, run: Run) -> Runtime:
        plugin = run.spec.name
        if run.where == "worker":
            return WorkerRuntime(
                run.spec,
                self._launcher,
                self._clock,
                self._plugin_log.write,
                on_crash=lambda pid, reason: self._worker_crashed(plugin, pid, reason),
            )
        return InProcessRuntime(
            run.spec,
            on_log=self._calls.listener.said,
            on_change=lambda: self._state_changed(plugin),
        )

    def _worker_crashed(self, plugin: str, pid: int, reason: str) -> None:
        self._events.emit("worker_crashed", plugin, reason, pid=pid)

    def _state_changed(self, plugin: str) -> None:
        self._calls.registry.state_changed(plugin)
        self._events.emit("plugin_state", plugin)

    def _planned(self, plan: Plan) -> None:
        self._configuration = plan.configuration
        self._agents.configure(plan.configuration)
        self._calls.limit_outputs()
        self._watch.tune()

    def _restart_notices(self, configuration: Configuration) -> list[Rejection]:
        return [
            Rejection(key, f"{key} changed; the running daemon keeps the old value", "restart hermesd",
                      *(configuration.place(key) or ()))
            for key in self._boot.changes(configuration).restart
        ]  # fmt: skip

    def _watch_degraded(self, reason: str | None) -> None:
        if reason is None:
            self._events.emit("watcher_recovered", "")
        else:
            self._events.emit("watcher_degraded", "", reason)

    async def _keep_addresses(self, server: RpcServer) -> None:
        """Listen again where a socket was removed: without it the daemon runs and nobody can reach it."""
        lost: set[Address] = set()
        while True:
            await asyncio.sleep(ADDRESS_CHECK_S)
            for address in server.lost():
                if address not in lost:
                    lost.add(address)
                    self._events.emit("address_lost", str(address), "its socket was removed")
                try:
                    await server.reopen(address)
                except (HermesdError, OSError) as error:
                    _log.debug("%s cannot be opened again yet: %s", address, error)
                    continue
                lost.discard(address)
                self._events.emit("address_reopened", str(address))

    def _loop_ran(self, lag_s: float) -> None:
        """Twice a second."""
        self._metrics.loop_lag(lag_s)
        self._calls.measure()
        if changed := self._log_guard.restore():
            told = f"a plugin changed {', '.join(changed)}; put back (isolation: process helps)"
            self._events.emit("log_restored", "", told)

    def _lagged(self, seconds: float) -> None:
        suspects = sorted(
            {
                flight.instance.plugin
                for flight in self._calls.flights
                if flight.instance is not None and flight.instance.runtime.kind == "inprocess"
            }
        )
        whose = f" while {', '.join(suspects)} ran in process (isolation: process helps)" if suspects else ""
        self._events.emit(
            "loop_lagged", "", f"the event loop was held up for {seconds:.2f} s{whose}", plugins=suspects
        )


def _tls_files(configuration: Configuration) -> TlsFiles | None:
    tls = configuration.server.tls
    return None if tls.cert is None or tls.key is None else TlsFiles(tls.cert, tls.key, tls.client_ca)


def _catch(handlers: Mapping[int, Callable[[], object]]) -> Callable[[], None]:
    """Have each signal call its handler on the running loop. Returns the undo."""
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)

    def undo() -> None:
        for number in handlers:
            loop.remove_signal_handler(number)

    return undo
