"""Threads of a plugin's own: a bounded pool for sync tools, and one loop for async ones.

All are daemon threads: code that never returns must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TypeVar

from hermesd.runtimes.loop import new_loop

_log = logging.getLogger(__name__)
IDLE_S = 30.0
#: Far more than ever work at once: work that is stuck must not hold up other work.
UNBOUNDED = 1_000_000
T = TypeVar("T")


Job = Callable[[], None]


class ThreadPool:
    """At most `size` threads, each made when first needed and ended after `idle_s` seconds without a job.

    A job never waits behind another while a thread may still be made: an idle thread is handed its job
    under the lock, in its own mailbox.
    """

    def __init__(self, name: str, size: int, *, idle_s: float = IDLE_S) -> None:
        self._name = name
        self._size = size
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._backlog: deque[Job] = deque()
        self._made = 0
        self._closed = False
        self.threads = 0

    def allow(self, size: int) -> None:
        """Make at most `size` threads from now on, where that is more than before."""
        with self._lock:
            self._size = max(self._size, size)

    def submit(self, job: Job) -> None:
        """Run `job`, which must not raise, on a thread of the pool. Raises RuntimeError once closed."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the threads of {self._name} have ended")
            if self._idle:
                self._idle.pop().mailbox.put(job)
                return
            if self.threads >= self._size:
                self._backlog.append(job)
                return
            self.threads += 1
            self._made += 1
            worker = _Worker(self, f"{self._name}-{self._made}")
        worker.mailbox.put(job)
        worker.start()

    def close(self) -> None:
        """Take no more jobs; what was submitted still runs, then the threads end. Does not wait."""
        with self._lock:
            self._closed = True
            for worker in self._idle:
                worker.mailbox.put(None)
            self._idle.clear()

    def rest(self, worker: _Worker) -> Job | None:
        """The next job of a thread that has finished one; None: end."""
        with self._lock:
            if self._backlog:
                return self._backlog.popleft()
            if self._closed:
                return None
            self._idle.append(worker)
        try:
            return worker.mailbox.get(timeout=self._idle_s)
        except queue.Empty:
            with self._lock:
                if worker in self._idle:
                    self._idle.remove(worker)
                    return None
            return worker.mailbox.get()  # handed over in the instant in which it gave up

    def ended(self) -> None:
        with self._lock:
            self.threads -= 1


class _Worker(threading.Thread):
    def __init__(self, pool: ThreadPool, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.mailbox: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._pool = pool

    def run(self) -> None:
        job = self.mailbox.get()
        while job is not None:
            try:
                job()
            except BaseException:  # noqa: BLE001 - a thread that died here would keep its place in the pool
                _log.exception("a job of %s raised", self.name)
            del job  # keep nothing of a finished call alive while idle
            job = self._pool.rest(self)
        self._pool.ended()


class LoopThread:
    """One thread with one event loop. What a plugin's tasks raise, SystemExit included, does not end it."""

    def __init__(self, name: str) -> None:
        self._loop = new_loop()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def call(self, callback: Callable[[], object]) -> None:
        """Run `callback` on the loop. Raises RuntimeError once the loop has ended."""
        self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Cancel what still runs and end the thread; a thread that is stuck is left behind. Does not wait."""
        self._closing = True
        try:
            self._loop.call_soon_threadsafe(self._loop.stop)
        except RuntimeError:
            _log.debug("the loop of %s had ended", self._thread.name)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not (self._closing or self._loop.is_closed()):
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 - a plugin's task raised SystemExit; its loop goes on
                _log.exception("a task of %s raised", self._thread.name)
        try:
            self._finish()
        except BaseException:  # noqa: BLE001 - the thread ends here whatever the plugin does
            _log.exception("the tasks of %s did not end well", self._thread.name)
        finally:
            self._loop.close()

    def _finish(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=1))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())


#: For loading and asking plugins. 1,000 threads, made one after the other, take a third of a second.
_workers = ThreadPool("hermesd-work", UNBOUNDED, idle_s=1.0)


async def run_in_thread(work: Callable[[], T], name: str, timeout_s: float) -> T:
    """Run `work` at once on a daemon thread called `name`, and return or raise what it does.

    Nothing that earlier work left in its thread (context variables, an event loop) is there for the next.
    Raises TimeoutError after `timeout_s`; the thread is then left behind, for it cannot be ended.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # type: ignore[arg-type] # None only when T is

    def run() -> None:
        value, failure = None, None
        thread = threading.current_thread()
        idle, thread.name = thread.name, name
        try:
            value = Context().run(work)
        except BaseException as error:  # noqa: BLE001 - delivered to whoever waits
            failure = (
                error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
            )
        asyncio.set_event_loop(None)
        thread.name = idle
        try:
            loop.call_soon_threadsafe(deliver, value, failure)
        except RuntimeError:
            _log.debug("%s ended after the daemon's loop", name)

    _workers.submit(run)
    async with asyncio.timeout(timeout_s):
        return await done
