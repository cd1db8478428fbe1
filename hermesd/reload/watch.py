"""Noticing that something changed on disk, and saying so when the change is complete.

A rescan is the truth and file events are hints for when to make one, and where to look first. Scans run
in one thread of their own, never two at once. Writing to the data dir, or reading what is watched, wakes
nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyObserver

from hermesd.clock import Clock
from hermesd.errors import DrainingError
from hermesd.reload.hint import Hints
from hermesd.reload.settle import SETTLE_S, UNSETTLED_S, ScanState, Settling, Step

log = logging.getLogger(__name__)

RESCAN_S = 10.0
POLL_S = 2.0
GAP_S = 0.02
RESTART_S = 0.5
LOOK_S = 5.0
DEAF_AFTER = 2
#: After a look at a part, so long without another, everything is looked at: what an event leaves out (hard
#: links, a queue that overflowed) is found without waiting for the rescan.
CONFIRM_S = 1.0
#: So many places, and looking at everything is no dearer.
MOST_PLACES = 64
Cause = Literal["event", "rescan", "asked"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Settled:
    """Units that changed completely since they were last named. `unsettled` are being changed just now:
    leave them as they are, they are named when they are done. `cause` "rescan": no event told of it."""

    cause: Cause
    changed: frozenset[str]
    unsettled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Ask:
    """Somebody waits for a look that begins after `at`, until `until` (monotonic seconds)."""

    answer: asyncio.Future[Settled]
    at: float
    until: float


class Watcher:
    """Watches `roots` (plugin directories) and `files` (configuration), and scans with `scan`.

    `scan` runs in the watcher's thread and should not raise; when it does, it is logged, `degraded`
    says so, and it is tried again. `excluded` (the data dir) makes no events. With `events` False
    nothing is watched and nothing rescanned: only `settle` looks. `rescan` gives the state of the last look,
    with what lies at these paths (or around them) looked at anew; None: it cannot, look at everything. It
    serves what events told of; every other look, and one soon after it, is a `scan`. `on_rescan_found` is
    called on the loop for each rescan that found what no event had told, `on_degraded` whenever `degraded`
    has changed.

    Life: `start`, then `changes` and `settle` from any task of the same loop, then `close`.
    """

    def __init__(
        self,
        roots: Callable[[], Sequence[Path]],
        scan: Callable[[], ScanState],
        *,
        clock: Clock,
        rescan: Callable[[frozenset[str]], ScanState | None] = lambda _: None,
        files: Callable[[], Sequence[Path]] = tuple,
        excluded: Iterable[Path] = (),
        events: bool = True,
        rescan_s: float = RESCAN_S,
        settle_s: float = SETTLE_S,
        unsettled_s: float = UNSETTLED_S,
        on_rescan_found: Callable[[], None] = lambda: None,
        on_degraded: Callable[[str | None], None] = lambda _: None,
        observer: Callable[[], BaseObserver] = InotifyObserver,
    ) -> None:
        self._roots, self._files, self._clock = roots, files, clock
        self._scan, self._rescan = scan, rescan
        self._events, self._rescan_s = events, rescan_s
        self._settle_s, self._unsettled_s = settle_s, unsettled_s
        self._on_rescan_found, self._on_degraded = on_rescan_found, on_degraded
        self._hints = Hints(self._hint_from_thread, excluded=excluded, observer=observer)
        self._settling = Settling(settle_s=settle_s, unsettled_s=unsettled_s)
        self._thread: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ready = asyncio.Event()
        self._news: Settled | None = None
        self._asked = list[_Ask]()
        self._places = set[str]()
        self._everything = True
        self._confirm_at = math.inf
        self._cause: Cause = "rescan"
        self._gathered = frozenset[str]()
        self._unsettled = frozenset[str]()
        self._no_events: str | None = None
        self._scan_fault: str | None = None
        self._told_degraded: str | None = None
        self._deaf = 0
        self._force = False
        self._told = False
        self._closed = False

    @property
    def degraded(self) -> str | None:
        """Why changes are noticed later than they should be, or None."""
        if self._scan_fault is not None:
            return self._scan_fault
        if self._no_events is not None:
            return f"file events are not to be had: {self._no_events}; looking every {self._poll_s:g} s"
        return None

    @property
    def unsettled(self) -> frozenset[str]:
        """The units that were being changed at the last look."""
        return self._unsettled

    def moved(self, state: ScanState) -> frozenset[str]:
        """The units that are not as they were when they settled: they are named again. From any thread."""
        return self._settling.moved(state)

    async def start(self, reported: ScanState | None = None) -> None:
        """Begin. `reported` is what the daemon serves already; without it everything found is a change."""
        if self._supervisor is not None:
            raise RuntimeError("this watcher was started already")
        self._loop = asyncio.get_running_loop()
        self._settling = Settling(settle_s=self._settle_s, unsettled_s=self._unsettled_s, reported=reported)
        self._told = reported is not None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hermesd-watch")
        self._supervisor = asyncio.create_task(self._supervise(), name="hermesd-watch-supervisor")

    def tune(self, *, rescan_s: float, settle_s: float, unsettled_s: float) -> None:
        """Take over other times, in seconds; what is waited for just now is judged by them too."""
        before = (self._rescan_s, self._settle_s, self._unsettled_s)
        self._rescan_s, self._settle_s, self._unsettled_s = rescan_s, settle_s, unsettled_s
        self._settling.tune(settle_s=settle_s, unsettled_s=unsettled_s)
        if before != (rescan_s, settle_s, unsettled_s):
            self.hint()  # it sleeps until a moment that the old times gave

    def hint(self) -> None:
        """Look soon, at everything. Call it on the loop."""
        self._everything = True
        self._wake.set()

    async def changes(self) -> AsyncIterator[Settled]:
        """What settled, merged while nobody takes it. One consumer; ends when the watcher is closed."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            if self._closed:
                return
            news, self._news = self._news, None
            if news is not None:
                yield news

    async def settle(self, timeout_s: float | None = None) -> Settled:
        """Look now, and return when nothing is unsettled any more, or when `timeout_s` are over.

        A change that was on disk before the call is in `changed`, in `unsettled`, or was named before;
        `changes` names it too. Default and ceiling of the wait: `unsettled_s`. Raises TimeoutError when
        the disk does not even answer one look, DrainingError once it is being closed.
        """
        if self._closed:
            raise _stopping()
        if self._loop is None:
            raise RuntimeError("this watcher was not started")
        now = self._clock.monotonic()
        bound = self._unsettled_s if timeout_s is None else min(timeout_s, self._unsettled_s)
        answer: asyncio.Future[Settled] = self._loop.create_future()
        self._asked.append(_Ask(answer, now, now + bound))
        self._wake.set()
        async with asyncio.timeout(bound + LOOK_S):
            return await answer

    async def close(self) -> None:
        """Stop: no task, thread or event is left, and nothing settles afterwards. Idempotent."""
        self._closed = True
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.cancel()
            await asyncio.wait({supervisor})
        for ask in self._asked:
            if not ask.answer.done():
                # Not cancelled: whoever asked is not, and would take that for its own.
                ask.answer.set_exception(_stopping())
        self._asked.clear()
        self._ready.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            stopping = asyncio.get_running_loop().run_in_executor(thread, self._hints.close)
            # A scan that hangs in the kernel must not hold the daemon's stop.
            await asyncio.wait({stopping}, timeout=LOOK_S)
            thread.shutdown(wait=stopping.done())

    @property
    def _poll_s(self) -> float:
        return min(POLL_S, self._rescan_s)

    async def _supervise(self) -> None:
        """Keep the watching task alive: one that died is started again, and begins with a scan."""
        while True:
            self._watching = watching = asyncio.create_task(self._watch(), name="hermesd-watch")
            try:
                await asyncio.wait({watching})
            finally:
                watching.cancel()
                await asyncio.wait({watching})
            fault = None if watching.cancelled() else watching.exception()
            log.error("the file watcher died and is started again", exc_info=fault)
            self._force = self._everything = True
            await asyncio.sleep(RESTART_S)

    async def _watch(self) -> None:
        rescan_at = self._clock.monotonic()
        again_at: float | None = rescan_at if self._events else None
        while True:
            asked = await self._pause(self._next(again_at, rescan_at))
            begun = self._clock.monotonic()
            hinted = self._take_events(begun) or asked or begun >= self._confirm_at
            state = await self._look(self._where(due=begun >= min(rescan_at, self._confirm_at)))
            self._tell_degraded()
            ended = self._clock.monotonic()
            hinted = self._take_events(ended) or hinted
            self._confirm_at = math.inf if self._everything else ended + CONFIRM_S
            self._everything = state is None
            period = self._rescan_s if self._no_events is None else self._poll_s
            rescan_at = ended + period if begun >= rescan_at else min(rescan_at, ended + period)
            if state is None:
                again_at = ended + RESTART_S if self._asked or again_at is not None else None
                self._answer(begun, failed=True)
                continue
            # Two scans lie as far apart as their beginnings: each looks at every file in the same order.
            step = self._settling.observe(state, begun)
            self._judge_hearing(step, hinted=hinted)
            self._tell(step, hinted=hinted)
            self._answer(begun, failed=False)
            again_at = step.again_at
            await asyncio.sleep(max(GAP_S, ended - begun))

    def _next(self, again_at: float | None, rescan_at: float) -> float:
        times = [ask.until for ask in self._asked]
        if again_at is not None:
            times.append(again_at)
        if self._events:
            times.extend((rescan_at, self._confirm_at))
        return min(times, default=math.inf)

    async def _pause(self, until: float) -> bool:
        """Wait for a hint or for the time. Whether it was a hint."""
        left = until - self._clock.monotonic()
        if not self._wake.is_set() and left > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if math.isinf(left) else left):
                    await self._wake.wait()
        hinted = self._wake.is_set()
        self._wake.clear()
        return hinted

    def _take_events(self, now: float) -> bool:
        events = self._hints.take()
        self._places.update(event.path for event in events)
        for event in events:
            if event.kind == "modified":
                self._settling.modified(event.path, now)
            elif event.kind == "created":
                self._settling.created(event.path, now)
            elif event.kind == "closed":
                self._settling.closed(event.path)
            elif event.kind == "gone":
                self._settling.gone(event.path)
        return bool(events)

    def _where(self, *, due: bool) -> frozenset[str]:
        """Where to look; `_everything` says whether that is enough."""
        places, self._places = self._places | self._settling.pending, set()
        doubtful = self._no_events is not None or self._force or self._deaf > 0
        if due or self._asked or doubtful or len(places) > MOST_PLACES:
            self._everything = True
        return frozenset(places)

    async def _look(self, places: frozenset[str]) -> ScanState | None:
        """Renew the watches, then scan: in that order, so that nothing falls between the two."""
        if self._events:
            watches = self._hints.renewals
            self._no_events = await self._renew()
            if self._no_events is not None or self._hints.renewals != watches:
                self._everything = True
        try:
            state = None if self._everything else await self._in_thread(lambda: self._rescan(places))
            if state is None:
                self._everything = True
                state = await self._in_thread(self._scan)
        except Exception as error:
            # Whatever a scan raises must not end the watching.
            log.exception("looking for changes failed; it is tried again")
            self._scan_fault = f"looking for changes failed: {error}"
            return None
        self._scan_fault = None
        return state

    def _tell_degraded(self) -> None:
        reason = self.degraded
        if reason != self._told_degraded:
            self._told_degraded = reason
            self._on_degraded(reason)

    async def _renew(self) -> str | None:
        """Renew the watches; why there are no events to be had, or None."""
        force, self._force = self._force, False
        try:
            reason = await self._in_thread(
                lambda: self._hints.renew(self._roots(), self._files(), force=force)
            )
        except Exception as error:
            # Without events there is still the rescan.
            log.exception("file events cannot be had; they are tried again")
            return str(error) or type(error).__name__
        if reason is None and self._deaf >= DEAF_AFTER:
            return "changes were found that none had told of"
        return reason

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _judge_hearing(self, step: Step, *, hinted: bool) -> None:
        """A change that no event told of means that the watches are deaf, or that there can be none."""
        if not step.found or not self._told:
            self._told = True
        elif hinted:
            self._deaf = 0
        elif self._events:
            self._deaf += 1
            self._force = True
            self._on_rescan_found()

    def _tell(self, step: Step, *, hinted: bool) -> None:
        self._unsettled = step.unsettled
        if step.found:
            self._cause = "event" if hinted else "rescan"
        if step.settled:
            before = self._news
            changed = step.settled | (before.changed if before else frozenset())
            self._news = Settled(before.cause if before else self._cause, changed, step.unsettled)
            self._gathered |= step.settled
            self._ready.set()

    def _answer(self, begun: float, *, failed: bool) -> None:
        """Answer who asked before this look began, when all is settled or their time is over."""
        now = self._clock.monotonic()
        waiting = []
        for ask in self._asked:
            if ask.answer.done():
                continue
            complete = not failed and not self._unsettled
            if ask.at <= begun and (complete or now >= ask.until):
                ask.answer.set_result(Settled("asked", self._gathered, self._unsettled))
            else:
                waiting.append(ask)
        self._asked = waiting
        if not waiting:
            self._gathered = frozenset()

    def _hint_from_thread(self) -> None:
        loop = self._loop
        if loop is not None and not self._closed:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody listens
                loop.call_soon_threadsafe(self._wake.set)


def _stopping() -> DrainingError:
    return DrainingError("the daemon is stopping and looks at nothing", remedy="start it again")
