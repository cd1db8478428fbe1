"""One thread that writes a database, many jobs a commit.

A job is acknowledged after the commit that holds it. What fails is retried alone, so that one bad job fails
by itself; a disk that is full or gone fails the batch, and the next one tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from typing import TYPE_CHECKING, Literal, cast

from hermesd.errors import StoreError
from hermesd.store.database import DamagedError, Database, Rows, database_error, is_disks_fault, is_fatal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

READERS = 4
READ_S = 10.0
#: After a database could not be opened: until it is tried again.
RETRY_S = 1.0

_log = logging.getLogger("hermesd.store")


class Job:
    """What is written in one transaction with others. Everything of it runs on the writer's thread.

    It may be applied more than once, when the batch around it failed; only one of them lasts. An error of
    DuckDB must leave `apply`: whoever swallows one in a transaction writes nothing and is told nothing.
    Results are read to their end (`fetchall`): an appender refuses to begin beside an open one.
    """

    __slots__ = ()

    def apply(self, connection: Connection) -> object:
        """Write, within the open transaction. What is returned is what `submit` answers."""
        raise NotImplementedError


class Append(Job):
    """Rows for a table by its appender: the cheapest way to write, shared by neighbours in a batch.

    Among neighbours what inserts goes before what upserts, and that before what deletes.
    """

    __slots__ = ()
    table = ""
    action: Literal["insert", "upsert", "delete"] = "insert"
    #: The columns that pick the rows to delete; rows are then their values alone.
    key: tuple[str, ...] = ()

    def rows(self) -> Iterable[Sequence[object]]:
        """The rows, values in the order of the table's columns."""
        raise NotImplementedError

    def apply(self, connection: Connection) -> object:
        _append(connection, [self])
        return None


def adaptive(last: int) -> float:
    """How long to wait for more, in seconds, after a batch of `last`: whoever writes alone never waits."""
    return 0.0 if last <= 1 else 0.001


class _Item:
    __slots__ = ("error", "future", "job", "result")

    def __init__(self, job: Job, future: Future[object] | None) -> None:
        self.job = job
        self.future = future
        self.result: object = None
        self.error: StoreError | None = None


def _nothing_lost(count: int, error: StoreError) -> None:
    return None


def _not_measured(seconds: float, jobs: int) -> None:
    return None


def _not_told(failure: StoreError | None) -> None:
    return None


class Writer:
    """Opens its database at the first write or read, on its own thread."""

    def __init__(
        self,
        open_database: Callable[[], Database],
        *,
        name: str,
        capacity: int = 10_000,
        max_batch: int = 256,
        linger: Callable[[int], float] = adaptive,
        lost: Callable[[int, StoreError], None] = _nothing_lost,
        committed: Callable[[float, int], None] = _not_measured,
        health: Callable[[StoreError | None], None] = _not_told,
        retry_s: float = RETRY_S,
    ) -> None:
        """`linger(jobs of the last batch)` says how long a batch may wait for more.

        `lost(count, error)`: so many offered jobs were not written. `committed(seconds, jobs)`: a batch is
        on disk. `health(error)`: nothing can be written any more; `health(None)`: it can again. All are
        called on the writer's thread, and must return at once.
        """
        self._open_database = open_database
        self._name = name
        self._capacity = capacity
        self._max_batch = max_batch
        self._linger = linger
        self._lost = lost
        self._committed = committed
        self._health = health
        self._retry_s = retry_s
        self._queue: deque[_Item] = deque()
        self._wake = threading.Event()
        self._idle = False
        self._closing = threading.Event()
        self._abandoned = False
        self._ended = False
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        # All below belongs to the writer's thread, but for reading `_database`.
        self._database: Database | None = None
        self._refusal: StoreError | None = None
        self._refused_at = 0.0
        self._failure: StoreError | None = None
        self._mark_failed = False

    @property
    def waiting(self) -> int:
        """Jobs that no batch has taken yet."""
        return len(self._queue)

    @property
    def is_open(self) -> bool:
        return self._database is not None

    def open(self) -> Future[object]:
        """Have the database opened now; done when it is. Raises StoreError as `submit` does."""
        return self.submit(_OPEN)

    @property
    def failure(self) -> StoreError | None:
        """Why nothing could be written the last time; None when it could."""
        return self._failure

    def offer(self, job: Job) -> bool:
        """Have `job` written soon; never blocks. False: the queue is full or closed, and it was dropped."""
        if len(self._queue) >= self._capacity or self._closing.is_set():
            return False
        self._put([_Item(job, None)])
        return True

    def submit(self, job: Job, *before: Job) -> Future[object]:
        """Have `job` written; the future is done after the commit, with what `apply` returned.

        What comes `before` it is offered, in the same batch as far as its size lets it.
        It raises StoreError when the job was not written: the disk is full, the file damaged, the queue full
        or closed, or the job itself at fault.
        """
        future: Future[object] = Future()
        if self._closing.is_set():
            future.set_exception(StoreError(f"the {self._name} store is closed"))
        elif len(self._queue) >= self._capacity:
            future.set_exception(
                StoreError(
                    f"{self._capacity} writes wait for the {self._name} store", remedy="try again later"
                )
            )
        else:
            self._put([*(_Item(each, None) for each in before), _Item(job, future)])
        return future

    async def read(self, query: str, parameters: Sequence[object] = (), *, timeout_s: float = READ_S) -> Rows:
        """All rows of a query, on a reader's thread, beside the writer. Raises StoreError."""
        if self._database is None or self._closing.is_set():
            await asyncio.wrap_future(self.open())
        if self._readers is None:
            self._readers = ThreadPoolExecutor(READERS, thread_name_prefix=f"hermesd-{self._name}-read")
        reading = _Reading(query, parameters, self._name)
        waiting = asyncio.get_running_loop().run_in_executor(self._readers, reading.run, self._database)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(waiting)
        except TimeoutError:
            raise StoreError(
                f"the {self._name} store did not answer within {timeout_s:g} s", remedy="ask for less"
            ) from None
        finally:
            if not waiting.done():
                reading.interrupt()
                # Its end is nobody's concern any more, nor is how it ended.
                waiting.add_done_callback(lambda done: done.cancelled() or done.exception())

    def close(self, timeout_s: float) -> None:
        """Write what waits, then close the database. Blocks for at most `timeout_s`; takes nothing more.

        What could not be written by then fails with StoreError, or is counted as lost.
        """
        self._closing.set()
        self._wake.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
            if thread.is_alive():
                self._abandoned = True
        self._ended = True
        self._fail_all()

    def _put(self, items: list[_Item]) -> None:
        self._queue.extend(items)
        # Looked at after the items are there, and set before the last look at the queue: no wake-up is lost.
        if self._idle:
            self._wake.set()
        elif self._thread is None:
            self._start()
        if self._ended:  # it closed between the caller's look and the append
            self._fail_all()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                # A daemon thread: a disk that never answers must not hold up the process's end.
                thread = threading.Thread(target=self._run, name=f"hermesd-{self._name}-write", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        last = 0
        while not self._abandoned:
            if not self._queue:
                if self._closing.is_set():
                    break
                self._rest()
                continue
            if (pause := self._linger(last)) > 0:
                self._closing.wait(pause)
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), self._max_batch))]
            last = len(batch)
            try:
                self._write(batch)
            except Exception as error:  # noqa: BLE001 - ours: told, and the thread that all depend on lives on
                _log.exception("the %s store's writer failed", self._name)
                self._settle(batch, self._error(error))
            self._mark(at_once=False)
        self._close_database()

    def _rest(self) -> None:
        """Wait until something comes, or a mark is due."""
        self._idle = True
        try:
            if not self._queue and not self._closing.is_set():
                due = self._database.owes_mark if self._database is not None else None
                if not self._wake.wait(due):
                    self._mark(at_once=True)
        finally:
            self._idle = False
            self._wake.clear()

    def _write(self, batch: list[_Item]) -> None:
        """Answer every item of `batch`, after its commit."""
        batch = [each for each in batch if each.future is None or each.future.set_running_or_notify_cancel()]
        try:
            database = self._opened()
        except StoreError as refusal:
            self._set_failure(refusal)
            self._settle(batch, refusal)
            return
        began = time.monotonic()
        error = self._transaction(database, batch)
        if error is not None and len(batch) > 1 and not is_disks_fault(error):
            self._write_singly(database, batch)
            error = None
        failure = None if error is None else self._told(error)
        if error is None or is_disks_fault(error):
            self._set_failure(failure)
        self._settle(batch, failure)
        self._committed(time.monotonic() - began, len(batch))

    def _write_singly(self, database: Database, batch: list[_Item]) -> None:
        """The guilty ones fail alone. When the database itself gives up, so does everything after it."""
        gone: StoreError | None = None
        for each in batch:
            if gone is not None:
                each.error = gone
            elif (failed := self._transaction(database, [each])) is not None:
                each.error = self._told(failed)
                if self._database is None:
                    gone = each.error

    def _set_failure(self, failure: StoreError | None) -> None:
        before, self._failure = self._failure, failure
        if (before is None) != (failure is None):
            self._health(failure)

    def _error(self, error: Exception) -> StoreError:
        return database_error(error, f"the {self._name} store", "write")

    def _told(self, error: Exception) -> StoreError:
        """What `error` means to whoever waits; a database that gave up is let go."""
        told = self._error(error)
        if is_fatal(error) or isinstance(told, DamagedError):
            database, self._database = self._database, None
            if database is not None:
                try:
                    database.give_up(told)
                except StoreError as stuck:
                    _log.error("%s", stuck.message)
        return told

    def _transaction(self, database: Database, items: list[_Item]) -> Exception | None:
        """Write all of `items` in one transaction, or none of them and answer why."""
        try:
            database.begin()
            for appends, run in groupby(items, _is_append):
                if appends:
                    _append_all(database.connection, [cast("Append", each.job) for each in run])
                else:
                    for each in run:
                        each.result = each.job.apply(database.connection)
            database.commit()
        except Exception as error:  # noqa: BLE001 - whatever a job raises is its own fault alone
            database.rollback()
            return error
        return None

    def _settle(self, batch: list[_Item], error: StoreError | None) -> None:
        """Tell everybody in `batch` how it ended for them: with `error`, or with their own."""
        lost, reason = 0, error
        for each in batch:
            failed = error or each.error
            if each.future is None:
                if failed is not None:
                    lost, reason = lost + 1, failed
            elif each.future.done():
                continue
            elif failed is not None:
                each.future.set_exception(failed)
            else:
                each.future.set_result(each.result)
        if lost and reason is not None:
            self._lost(lost, reason)

    def _opened(self) -> Database:
        """The database, opened when it is not. Raises StoreError, for a while the same one."""
        if self._database is not None:
            return self._database
        now = time.monotonic()
        if self._refusal is not None and now < self._refused_at + self._retry_s:
            raise self._refusal
        try:
            self._database = self._open_database()
        except StoreError as error:
            self._refusal, self._refused_at = error, now
            raise
        self._refusal = None
        return self._database

    def _mark(self, *, at_once: bool) -> None:
        database = self._database
        if database is None or (due := database.owes_mark) is None or (due > 0 and not at_once):
            return
        try:
            database.mark()
        except StoreError as error:  # a guard against loss, not the data: writing goes on without it
            if not self._mark_failed:
                _log.warning("%s (%s)", error.message, error.remedy)
            self._mark_failed = True
        else:
            self._mark_failed = False

    def _close_database(self) -> None:
        if self._readers is not None:
            self._readers.shutdown(cancel_futures=True)
        self._mark(at_once=True)
        database, self._database = self._database, None
        if database is not None:
            try:
                database.close()
            except StoreError as error:
                _log.error("%s", error.message)

    def _fail_all(self) -> None:
        """Answer what no thread will write any more."""
        left = []
        with contextlib.suppress(IndexError):
            while True:
                left.append(self._queue.popleft())
        taken = [each for each in left if each.future is None or each.future.set_running_or_notify_cancel()]
        self._settle(taken, StoreError(f"the {self._name} store was closed before this was written"))


def _is_append(item: _Item) -> bool:
    return isinstance(item.job, Append)


def _kind(job: Append) -> tuple[int, str]:
    return _ORDER.index(job.action), job.table


_ORDER = ("insert", "upsert", "delete")


def _append_all(connection: Connection, jobs: list[Append]) -> None:
    for _, alike in groupby(sorted(jobs, key=_kind), _kind):
        _append(connection, list(alike))


def _append(connection: Connection, jobs: Sequence[Append]) -> None:
    first = jobs[0]
    if first.action == "delete":
        appender = connection.appender(first.table, action="delete", key=list(first.key))
    else:
        appender = connection.appender(first.table, action=first.action)
    try:
        for job in jobs:
            appender.append_rows(job.rows())
        appender.flush()
    except BaseException:
        appender.clear()
        raise


class _Open(Job):
    """Has the database opened."""

    __slots__ = ()

    def apply(self, connection: Connection) -> object:
        return None


_OPEN = _Open()


class _Reading:
    """One query on one reader's thread, which another thread may interrupt."""

    def __init__(self, query: str, parameters: Sequence[object], store: str) -> None:
        self._query = query
        self._parameters = parameters
        self._store = store
        self._cursor: Connection | None = None
        self._stopped = False

    def run(self, database: Database | None) -> Rows:
        if database is None:
            raise StoreError(f"the {self._store} store is being opened again", remedy="try again")
        try:
            cursor = self._cursor = database.cursor()
            try:
                return [] if self._stopped else cursor.execute(self._query, self._parameters).fetchall()
            finally:
                self._cursor = None
                cursor.close()
        except Exception as error:
            raise database_error(error, f"the {self._store} store", "read") from error

    def interrupt(self) -> None:
        self._stopped = True
        if (cursor := self._cursor) is not None:
            cursor.interrupt()
