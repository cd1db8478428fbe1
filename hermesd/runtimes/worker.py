"""A trusted plugin in a process of its own: it can be killed, and cannot hold the daemon's GIL."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping

from hermesd.clock import Clock
from hermesd.errors import LauncherError, PluginError, Rejection
from hermesd.model.call import Code, Outcome
from hermesd.runtimes.offer import offered
from hermesd.runtimes.runtime import Invocation, Prepared, Vitals
from hermesd.runtimes.spec import PluginSpec
from hermesd.runtimes.worker_process import Call, LogSink, WorkerProcess
from hermesd.supervise.launcher import Launcher
from hermesd.telemetry.process import resident_bytes

log = logging.getLogger(__name__)

#: Waiting after starts that failed one after the other, seconds: first, at most.
BACKOFF_S = (0.2, 30.0)
#: Workers that were replaced and still finish calls; beyond, the oldest is killed.
MAX_RETIRED = 2
#: How long a replaced worker may go on for a call that has no deadline, seconds.
MAX_RETIRED_S = 300.0


class WorkerRuntime:
    """Runs a plugin in a worker process, started when needed and stopped when idle.

    A call that does not end within `grace_s` after its deadline or cancellation costs its worker: new calls
    go to a fresh one, and the old one is killed as soon as its other calls have ended or their deadlines
    have passed, so that one stuck call never cuts a healthy one.
    """

    kind = "worker"

    def __init__(
        self,
        spec: PluginSpec,
        launcher: Launcher,
        clock: Clock,
        on_log: LogSink,
        *,
        environ: Mapping[str, str] | None = None,
        on_crash: Callable[[int, str], None] = lambda _pid, _reason: None,
    ) -> None:
        """`on_crash(pid, reason)` hears of a worker that ended without being asked to."""
        self._on_crash = on_crash
        self._spec = spec
        self._launcher = launcher
        self._clock = clock
        self._on_log = on_log
        self._environ = os.environ if environ is None else environ
        self._worker: WorkerProcess | None = None
        self._retired: list[WorkerProcess] = []
        self._starting: asyncio.Task[WorkerProcess] | None = None
        self._lingering: dict[Call, asyncio.TimerHandle] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        self._used_at = 0.0
        self._starts = 0
        self._failures = 0
        self._retry_at = 0.0
        self._failure = ""
        self._refusal: tuple[str, str] | None = None
        self._closed = False

    async def prepare(self) -> Prepared:
        """Start a worker, load the plugin, learn what it offers. Raises PluginError."""
        worker, prepared = await self._load()
        try:
            offer = offered(self._spec, prepared)
        except BaseException:
            await self._discard(worker)
            raise
        self._adopt(worker)
        return offer

    async def ready(self) -> None:
        """Run the plugin's hooks in the prepared worker. Raises PluginError."""
        worker = self._current()
        self._worker = None
        if worker is None:
            worker, _ = await self._load()
        await self._make_ready(worker)
        self._adopt(worker)
        self._touch()

    async def invoke(self, invocation: Invocation) -> Outcome:
        """Run a tool; never raises for its failure. Cancelled, it returns at once, whatever the tool does."""
        worker = self._current()
        if worker is None:
            started = await self._start_for(invocation)
            if isinstance(started, Outcome):
                return started
            worker = started
        remaining = self._remaining(invocation)
        if remaining is not None and remaining <= 0:
            return _timeout()
        self._used_at = self._clock.monotonic()
        call = worker.call(invocation, remaining)
        try:
            return await call.future
        except asyncio.CancelledError:
            self._abandon(worker, call)
            raise

    async def close(self) -> None:
        """Run the shutdown hooks, end every process: at most `close_timeout_s` and what the kernel needs."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for timer in self._lingering.values():
            timer.cancel()
        worker, self._worker = self._worker, None
        for retired in self._retired:
            retired.kill("replaced")
        ending = [*self._retired, *([worker] if worker is not None else [])]
        if worker is not None:
            worker.shut_down(self._spec.close_timeout_s)
        await asyncio.gather(*(each.gone(self._spec.close_timeout_s) for each in ending))
        self._retired.clear()

    def vitals(self) -> Vitals:
        workers = [*self._retired, *([self._worker] if self._worker is not None else [])]
        current = self._worker
        return Vitals(
            stray_threads=len(self._lingering),
            pid=0 if current is None or current.ended else current.pid,
            restarts=max(0, self._starts - 1),
            running=sum(len(each.calls) for each in workers),
            rss_bytes=sum(resident_bytes(each.pid) for each in workers if not each.ended),
        )

    def unavailable(self) -> tuple[str, str] | None:
        if self._closed:
            return "the plugin is stopped", ""
        if self._failure and self._clock.monotonic() < self._retry_at:
            return f"its worker does not start: {self._failure}", "see the plugin's log; it is tried again"
        return self._refusal

    # starting

    def _current(self) -> WorkerProcess | None:
        """The worker that new calls go to, if there is one."""
        worker = self._worker
        if worker is not None and not worker.usable:
            self._retire(worker)
            return None
        return worker

    async def _load(self) -> tuple[WorkerProcess, Prepared]:
        try:
            worker = await WorkerProcess.start(self._spec, self._launcher, self._on_log, self._environ)
        except LauncherError as error:
            rejection = Rejection(name=self._spec.name, reason=error.message, remedy=error.remedy)
            raise PluginError([rejection]) from error
        self._starts += 1
        try:
            return worker, await worker.load()
        except BaseException:
            await self._discard(worker)
            raise

    async def _make_ready(self, worker: WorkerProcess) -> None:
        try:
            await worker.ready()
            self._refusal = worker.refusal
        except BaseException:
            await self._discard(worker)
            raise

    async def _discard(self, worker: WorkerProcess) -> None:
        """A worker that failed leaves nothing behind, even when the caller was cancelled."""
        worker.kill("discarded")
        going = asyncio.get_running_loop().create_task(worker.gone(0.0))
        try:
            await asyncio.shield(going)
        except asyncio.CancelledError:
            await asyncio.wait([going])
            raise

    def _adopt(self, worker: WorkerProcess) -> None:
        worker.on_settled = self._settled
        worker.on_end = self._ended
        if worker.ended:
            return
        self._worker = worker

    async def _start_for(self, invocation: Invocation) -> WorkerProcess | Outcome:
        """The worker for a call that found none; callers that come meanwhile share the start."""
        if (refused := self.unavailable()) is not None:
            return self._unavailable(*refused)
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
            self._starting.add_done_callback(self._started)
        starting = self._starting
        # The start outlives a caller that gives up: the next one wants it too.
        await asyncio.wait([starting], timeout=self._remaining(invocation))
        if not starting.done():
            return _timeout()
        if starting.cancelled():
            return self._unavailable("the plugin is stopped", "")
        if (error := starting.exception()) is not None:
            return self._unavailable(f"its worker does not start: {error}", "see the plugin's log")
        return starting.result()

    async def _start(self) -> WorkerProcess:
        worker, _ = await self._load()
        await self._make_ready(worker)
        self._adopt(worker)
        self._touch()
        return worker

    def _started(self, task: asyncio.Task[WorkerProcess]) -> None:
        self._starting = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._failures, self._failure = 0, ""
            return
        self._failure = str(error)
        most = min(BACKOFF_S[1], BACKOFF_S[0] * 2**self._failures)
        self._failures += 1
        self._retry_at = self._clock.monotonic() + most * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load only
        log.warning("the worker of %s does not start: %s", self._spec.name, error)
        if not isinstance(error, PluginError):
            log.error("starting the worker of %s failed", self._spec.name, exc_info=error)

    # calls that do not end

    def _abandon(self, worker: WorkerProcess, call: Call) -> None:
        """The caller has its answer. The tool is told, and has the grace to end."""
        if call.id in worker.calls and call not in self._lingering:
            worker.cancel(call)
            loop = asyncio.get_running_loop()
            self._lingering[call] = loop.call_later(self._spec.grace_s, self._stuck, worker, call)

    def _stuck(self, worker: WorkerProcess, call: Call) -> None:
        tool = call.invocation.tool
        log.warning("%s does not end after its deadline or cancellation; its worker is replaced", tool)
        if worker is self._worker:
            self._retire(worker)
        self._review(worker)

    def _retire(self, worker: WorkerProcess) -> None:
        """It gets no new calls."""
        self._worker = None
        if worker.ended:
            return
        self._retired.append(worker)
        if len(self._retired) > MAX_RETIRED:
            self._retired[0].kill("replaced")

    def _review(self, worker: WorkerProcess) -> None:
        """Kill a replaced worker once nobody waits for it; at the latest when its calls' deadlines passed."""
        if worker.ended or worker not in self._retired:
            return
        waited_for = [call for call in worker.calls.values() if not call.answered]
        if not waited_for:
            worker.kill("replaced")
            return
        if any(call.invocation.deadline is None for call in waited_for):
            asyncio.get_running_loop().call_later(MAX_RETIRED_S, worker.kill, "replaced")

    def _settled(self, worker: WorkerProcess, call: Call) -> None:
        timer = self._lingering.pop(call, None)
        if timer is not None:
            timer.cancel()
        if self._retired:
            self._review(worker)

    def _ended(self, worker: WorkerProcess) -> None:
        if worker in self._retired:
            self._retired.remove(worker)
        if worker is self._worker:
            self._worker = None
        if not worker.verdict:
            log.warning("the worker of %s (pid %s) ended: %s", self._spec.name, worker.pid, worker.reason)
            self._on_crash(worker.pid, worker.reason)

    # idleness

    def _touch(self) -> None:
        self._used_at = self._clock.monotonic()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._spec.idle_stop_s > 0 and not self._closed:
            self._watch_idleness(self._spec.idle_stop_s)

    def _watch_idleness(self, seconds: float) -> None:
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._stop_if_idle)

    def _stop_if_idle(self) -> None:
        worker = self._worker
        if worker is None or worker.ended:
            return  # the next start watches again
        left = self._used_at + self._spec.idle_stop_s - self._clock.monotonic()
        if worker.calls:
            left = self._spec.idle_stop_s
        if left > 0:
            self._watch_idleness(left)
            return
        self._retire(worker)
        worker.shut_down(self._spec.close_timeout_s)

    def _remaining(self, invocation: Invocation) -> float | None:
        return None if invocation.deadline is None else invocation.deadline - self._clock.monotonic()

    def _unavailable(self, reason: str, remedy: str) -> Outcome:
        detail: dict[str, object] = {"reason": reason, "remedy": remedy}
        wait_ms = int((self._retry_at - self._clock.monotonic()) * 1000)
        if wait_ms > 0:
            detail["retry_after_ms"] = wait_ms
        message = f"{self._spec.name}: {reason}"
        return Outcome(Code.UNAVAILABLE, message=message, effect="none", retryable=True, detail=detail)


def _timeout() -> Outcome:
    return Outcome(Code.TIMEOUT, message="the deadline passed before the tool was reached", effect="none")
