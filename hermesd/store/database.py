"""A DuckDB file as this daemon opens it: bounded, closed to the outside, of a known version, or refused.

DuckDB is imported when the first database is opened: it takes 56 MB, and many daemons never need it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermesd.clock import Clock, SystemClock, uuid7
from hermesd.errors import StoreError
from hermesd.store.durable import REMEDIES, store_error
from hermesd.store.high_water import HighWater, check_high_water, write_high_water

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

HIGH_WATER_S = 1.0
#: In this order: what forbids comes last. What does not fit into memory is refused, so that content is never
#: spilled beside the store. A file that is refused stays as it is, its log beside it.
_CLOSED = """
PRAGMA disable_checkpoint_on_shutdown;
SET TimeZone = 'UTC'; SET temp_directory = ''; SET enable_external_access = false;
"""
_ACCEPTED = "PRAGMA enable_checkpoint_on_shutdown; SET lock_configuration = true"
#: What DuckDB says when the bytes of a file are not what it wrote.
_DAMAGE = (
    "corrupt",
    "not a valid duckdb database",
    "could not read enough bytes",
    "while replaying wal",
    "serialization error",
    "internal error",
    "checksum",
)
_META = "CREATE TABLE meta (kind VARCHAR, store VARCHAR, version INTEGER, number BIGINT)"


#: Told of a damaged file: where it lies now, and what was wrong with it.
MovedAside = Callable[[Path, str], None]
Rows = list[tuple[object, ...]]


class DamagedError(StoreError):
    """The file is there and is not what was written."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database holds. `migrations[n]` leads from version n to n + 1; those released never change."""

    kind: str
    migrations: tuple[str, ...]


class Database:
    """One open file, made by `open`. All but `cursor` belongs to the thread that opened it."""

    connection: Connection
    _reading: Connection

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        memory_mb: int,
        high_water: Path | None,
        moved_aside: MovedAside | None,
        clock: Clock,
    ) -> None:
        self.path = path
        self._schema = schema
        self._memory_mb = memory_mb
        self._high_water = high_water
        self._moved_aside = moved_aside
        self._clock = clock
        self._store = ""
        self._number = 0
        self._marked = -1
        self._marked_at = clock.monotonic()

    @classmethod
    def open(
        cls,
        path: Path,
        schema: Schema,
        *,
        memory_mb: int = 128,
        high_water: Path | None = None,
        moved_aside: MovedAside | None = None,
        clock: Clock | None = None,
    ) -> Database:
        """Open or make the database at `path`, at the newest version of `schema`.

        `high_water`: where the number of commits is kept, so that a file that lost some is refused.
        `moved_aside`: a damaged file is renamed, told with its new path and the reason, and begun anew;
        without it it is refused.
        Raises StoreError (DamagedError): damaged, newer than this build, held by another process, no space.
        """
        database = cls(
            path,
            schema,
            memory_mb=memory_mb,
            high_water=high_water,
            moved_aside=moved_aside,
            clock=clock or SystemClock(),
        )
        try:
            database._connect()
        except DamagedError as error:
            if moved_aside is None:
                raise
            database._move_aside(moved_aside, error)
            database._connect()
        return database

    def _connect(self) -> None:
        import duckdb  # noqa: PLC0415 - see the module's docstring

        if self._high_water is not None and not self.path.exists():
            check_high_water(self._high_water, self.path, None)
        try:
            self.connection = duckdb.connect(self.path, config=_settings(self._memory_mb))
        except Exception as error:
            raise database_error(error, self.path, "open") from error
        try:
            self.connection.execute(_CLOSED)
            # Apart from the writer's own: a cursor can be taken from it while a transaction is open there.
            self._reading = self.connection.cursor()
            self._begin_life()
            self.connection.execute(_ACCEPTED)
        except BaseException as error:
            self.connection.close()
            if isinstance(error, duckdb.Error):
                raise database_error(error, self.path, "open") from error
            raise

    def _begin_life(self) -> None:
        """Look what is there, refuse what cannot be served, and bring it to this build's version."""
        version = self._identify()
        newest = len(self._schema.migrations)
        if version > newest:
            raise StoreError(
                f"{self.path} was written by a newer hermesd (version {version}; this build reads {newest})",
                remedy="start that hermesd again, or restore a backup made by this one",
            )
        if self._high_water is not None:
            found = HighWater(self._store, self._number) if version else None
            check_high_water(self._high_water, self.path, found)
        for step in range(version, newest):
            self._migrate(step)
        self.mark()

    def _identify(self) -> int:
        """The version that the file has, 0 when it is new. Raises StoreError when it is somebody else's."""
        tables = self.connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        if not tables:
            self._store, self._number = uuid7(self._clock), 0
            return 0
        rows = []
        if ("meta",) in tables:
            rows = self.connection.execute("SELECT kind, store, version, number FROM meta").fetchall()
        if len(rows) != 1 or rows[0][0] != self._schema.kind:
            raise DamagedError(
                f"{self.path} holds no {self._schema.kind} store",
                remedy="restore a backup, or move it away to start without it",
            )
        _, self._store, version, self._number = rows[0]
        return int(version)

    def _migrate(self, step: int) -> None:
        """One version further, whole or not at all. DDL happens here and nowhere else."""
        self.begin()
        try:
            if step == 0:
                self.connection.execute(_META)
                self.connection.execute(
                    "INSERT INTO meta VALUES (?, ?, 0, 0)", [self._schema.kind, self._store]
                )
            self.connection.execute(self._schema.migrations[step])
            self.connection.execute("UPDATE meta SET version = ?", [step + 1])
            self.commit()
        except BaseException:
            self.rollback()
            raise
        # The log of a change of tables is what replays worst after a crash.
        self.connection.execute("CHECKPOINT")

    @property
    def number(self) -> int:
        """How many commits this store has seen."""
        return self._number

    def begin(self) -> None:
        self.connection.begin()

    def commit(self) -> None:
        """Make the open transaction durable, or raise what DuckDB says; then it is gone as a whole.

        COMMIT of a transaction in which a statement failed succeeds and writes nothing. The count of commits
        is its last statement: in such a transaction it raises.
        """
        self.connection.execute("UPDATE meta SET number = ?", [self._number + 1])
        self.connection.commit()
        self._number += 1

    def rollback(self) -> None:
        """End the open transaction, if there is one. Never raises: what failed before is what counts."""
        with contextlib.suppress(Exception):
            self.connection.rollback()

    def cursor(self) -> Connection:
        """A connection for one reader, on any thread; to be closed by it."""
        return self._reading.cursor()

    @property
    def owes_mark(self) -> float | None:
        """In how many seconds `mark` is due; None when nothing was committed since the last one."""
        if self._high_water is None or self._number == self._marked:
            return None
        return max(0.0, self._marked_at + HIGH_WATER_S - self._clock.monotonic())

    def mark(self) -> None:
        """Write the high-water file. Raises StoreError; the next try is a second later."""
        if self._high_water is None:
            return
        self._marked_at = self._clock.monotonic()
        write_high_water(self._high_water, HighWater(self._store, self._number))
        self._marked = self._number

    def close(self) -> None:
        """Close the file, its log written into it, and note that. Raises StoreError."""
        try:
            self._reading.close()
            self.connection.close()
        except Exception as error:
            raise database_error(error, self.path, "close") from error
        if self._high_water is not None:
            write_high_water(self._high_water, HighWater(self._store, self._number, closed=True))

    def abandon(self) -> None:
        """Let go of a file that failed; that it was not closed in peace stays noted. Never raises."""
        for each in (self._reading, self.connection):
            with contextlib.suppress(Exception):  # it has given up already, and somebody was told why
                each.close()

    def give_up(self, error: StoreError) -> None:
        """Let go of what cannot be written any more; a damaged file makes room for a new one where it may.

        Raises StoreError when it cannot.
        """
        self.abandon()
        if isinstance(error, DamagedError) and self._moved_aside is not None:
            self._move_aside(self._moved_aside, error)

    def _move_aside(self, told: MovedAside, error: StoreError) -> None:
        """Rename a damaged file and its log, and tell it. Raises StoreError."""
        path = self.path
        aside = path.with_name(f"{path.name}.damaged-{self._clock.now():%Y%m%dT%H%M%S%f}")
        try:
            path.rename(aside)
            log = path.with_name(f"{path.name}.wal")
            if log.exists():
                log.rename(aside.with_name(f"{aside.name}.wal"))
        except OSError as failed:
            raise store_error(failed, path, "move aside") from failed
        told(aside, error.message)


def _settings(memory_mb: int) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "threads": "1",
        "memory_limit": f"{memory_mb}MB",
        "checkpoint_threshold": "16MB",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
    }


def database_error(error: BaseException, path: Path | str, doing: str) -> StoreError:
    """The StoreError for what DuckDB raised: what, where, why, and the remedy."""
    if isinstance(error, StoreError):
        return error
    text = str(error).split("\n", 1)[0]
    told = f"cannot {doing} {path}: {text}"
    if "set lock" in text:
        return StoreError(told, remedy="stop the process that holds it")
    for number, remedy in REMEDIES.items():
        if os.strerror(number) in text:
            return StoreError(f"cannot {doing} {path}: {os.strerror(number)}", remedy=remedy)
    if any(sign in text.lower() for sign in _DAMAGE):
        return DamagedError(told, remedy="restore a backup, or move it away to start without it")
    return StoreError(told, remedy="look at the daemon's log")


def is_disks_fault(error: BaseException) -> bool:
    """Not this job's fault: whatever else is written now fails alike."""
    name = type(error).__name__
    text = str(error)
    return name in _DISKS or any(os.strerror(number) in text for number in REMEDIES)


def is_fatal(error: BaseException) -> bool:
    """The database has given up and must be opened again."""
    return type(error).__name__ in ("FatalException", "InternalException", "ConnectionException")


_DISKS = frozenset({"IOException", "FatalException", "InternalException", "ConnectionException"})
