"""The items on disk: one SQLite file, every change one transaction.

What was answered is on disk: a commit returns after the file and its folder were flushed, so that neither
kill -9 nor a power cut loses it, and a change is there wholly or not at all. Each call has a connection of
its own; writers take turns by SQLite's own lock, also those in other processes.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from .item import ItemInfo, Limits, StoreFault

FILE = "items.sqlite"
FORMAT = 1
#: How long a call waits for other writers, in seconds.
BUSY_S = 5.0

_TABLES = """
CREATE TABLE item (
    namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, bytes INTEGER NOT NULL,
    version INTEGER NOT NULL, schema TEXT, created INTEGER NOT NULL, updated INTEGER NOT NULL,
    expires INTEGER NOT NULL, PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE INDEX item_expires ON item (expires);
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('version', 0), ('items', 0), ('bytes', 0);
"""
_INFO = "namespace, key, version, bytes, schema, created, updated, expires"


@dataclass(frozen=True)
class Put:
    """One item to be stored. `if_version` 0: only if it does not exist; None: whatever there is."""

    namespace: str
    key: str
    text: str
    schema: str | None
    ttl_s: int
    if_version: int | None


class Shelf:
    """The items in one folder. Times are microseconds since 1970; `now` is handed in."""

    def __init__(self, folder: Path, *, busy_s: float = BUSY_S) -> None:
        self.folder = folder
        self.busy_s = busy_s

    def put(self, item: Put, limits: Limits, now: datetime) -> tuple[ItemInfo, bool]:
        """Store the item and tell it, and whether it is new. Raises StoreFault, having changed nothing."""
        size = len(item.text.encode())
        at = _micros(now)
        with self._change(at) as database:
            old = database.execute(
                "SELECT version, bytes, created FROM item WHERE namespace = ? AND key = ?",
                (item.namespace, item.key),
            ).fetchone()
            _check_version(item.if_version, old[0] if old else 0, item.namespace, item.key)
            _check_room(database, limits, 0 if old else 1, size - (old[1] if old else 0))
            version = _next_version(database)
            created = old[2] if old else at
            expires = at + item.ttl_s * 1_000_000
            database.execute(
                "INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (item.namespace, item.key, item.text, size, version, item.schema, created, at, expires),
            )
            _count(database, 0 if old else 1, size - (old[1] if old else 0))
        row = (item.namespace, item.key, version, size, item.schema, created, at, expires)
        return _info(row), old is None

    def get(self, namespace: str, key: str, now: datetime) -> tuple[ItemInfo, str] | None:
        """The item and its JSON text; None when there is none, or its time is over."""
        if not self._exists():
            return None
        with self._open() as database:
            row = database.execute(
                f"SELECT {_INFO}, value FROM item WHERE namespace = ? AND key = ? AND expires > ?",  # noqa: S608 - a constant
                (namespace, key, _micros(now)),
            ).fetchone()
        return (_info(row[:8]), row[8]) if row else None

    def page(
        self, namespace: str | None, prefix: str, after: tuple[str, str] | None, size: int, now: datetime
    ) -> list[ItemInfo]:
        """Up to `size` items in the order of namespace and key (by code point), those after `after`."""
        if not self._exists():
            return []
        # A row value at or above (namespace, prefix) lets the primary key find the first item of a page.
        lowest = max(after or ("", ""), (namespace or "", prefix if namespace else ""))
        with self._open() as database:
            rows = database.execute(
                f"SELECT {_INFO} FROM item WHERE (namespace, key) >= (:namespace, :key)"  # noqa: S608 - a constant
                " AND NOT (:skip AND namespace = :namespace AND key = :key) AND expires > :now"
                " AND (:only IS NULL OR namespace = :only) AND substr(key, 1, :length) = :prefix"
                " ORDER BY namespace, key LIMIT :size",
                {
                    "namespace": lowest[0],
                    "key": lowest[1],
                    "skip": lowest == after,
                    "now": _micros(now),
                    "only": namespace,
                    "length": len(prefix),
                    "prefix": prefix,
                    "size": size,
                },
            ).fetchall()
        return [_info(row) for row in rows]

    def delete(self, namespace: str, key: str, if_version: int | None, now: datetime) -> bool:
        """Remove the item; whether there was one. Raises StoreFault."""
        if not self._exists():
            _check_version(if_version, 0, namespace, key)
            return False
        with self._change(_micros(now)) as database:
            old = database.execute(
                "SELECT version, bytes FROM item WHERE namespace = ? AND key = ?", (namespace, key)
            ).fetchone()
            _check_version(if_version, old[0] if old else 0, namespace, key)
            if old is None:
                return False
            database.execute("DELETE FROM item WHERE namespace = ? AND key = ?", (namespace, key))
            _count(database, -1, -old[1])
        return True

    def check(self) -> None:
        """See that the file can be used, or made at the first put; makes nothing. Raises StoreFault."""
        if self._exists():
            with self._open():
                return
        parent = self.folder
        while not parent.exists() and parent != parent.parent:
            parent = parent.parent
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise StoreFault(
                f"the folder {self.folder} cannot be made or written",
                code="UNAVAILABLE",
                reason="folder",
                remedy=f"see that the daemon's user may write {parent}",
            )

    def _exists(self) -> bool:
        return os.path.lexists(self.folder / FILE)

    @contextmanager
    def _change(self, at: int) -> Iterator[sqlite3.Connection]:
        """One transaction; expired items go first, so that they take no room."""
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            gone = database.execute(
                "SELECT count(*), coalesce(sum(bytes), 0) FROM item WHERE expires <= ?", (at,)
            ).fetchone()
            if gone[0]:
                database.execute("DELETE FROM item WHERE expires <= ?", (at,))
                _count(database, -gone[0], -gone[1])
            yield database
            database.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection whose open transaction is undone when the block fails."""
        try:
            self._make_file()
            path = self.folder / FILE
            with closing(sqlite3.connect(path, timeout=self.busy_s, isolation_level=None)) as database:
                database.execute("PRAGMA journal_mode = DELETE")
                database.execute("PRAGMA synchronous = EXTRA")
                database.execute("PRAGMA trusted_schema = OFF")
                _bring_up_to_date(database)
                yield database
        except sqlite3.Error as error:
            raise _fault(error, self.folder) from error
        except OSError as error:
            raise StoreFault(
                f"the store cannot be used: {error.strerror}",
                code="UNAVAILABLE",
                reason="folder",
                remedy=f"see that the daemon's user may write {self.folder}",
            ) from error

    def _make_file(self) -> None:
        """The folder 0700 and the file 0600 before SQLite makes them more open."""
        if self._exists():
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(self.folder / FILE, flags, 0o600))


def _bring_up_to_date(database: sqlite3.Connection) -> None:
    found = _format(database)
    if found == 0:
        database.execute("BEGIN IMMEDIATE")
        if _format(database) == 0:  # nobody was faster
            for statement in _TABLES.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {FORMAT}")
        database.execute("COMMIT")
    elif found > FORMAT:
        raise StoreFault(
            f"the store's file has format {found}, this version knows {FORMAT}",
            code="UNAVAILABLE",
            reason="format",
            remedy="use the newer version of hermesd again",
        )


def _format(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _next_version(database: sqlite3.Connection) -> int:
    database.execute("UPDATE counter SET value = value + 1 WHERE name = 'version'")
    return int(database.execute("SELECT value FROM counter WHERE name = 'version'").fetchone()[0])


def _count(database: sqlite3.Connection, items: int, size: int) -> None:
    database.execute("UPDATE counter SET value = value + ? WHERE name = 'items'", (items,))
    database.execute("UPDATE counter SET value = value + ? WHERE name = 'bytes'", (size,))


def _check_version(wanted: int | None, found: int, namespace: str, key: str) -> None:
    if wanted is None or wanted == found:
        return
    state = f"has version {found}" if found else "does not exist"
    raise StoreFault(
        f"{namespace}/{key} {state}, not version {wanted}" if wanted else f"{namespace}/{key} exists already",
        reason="version",
        remedy="read it again and decide on what it is now",
    )


def _check_room(database: sqlite3.Connection, limits: Limits, items: int, size: int) -> None:
    """A store that is full refuses; it never drops what it acknowledged before its time."""
    held = dict(database.execute("SELECT name, value FROM counter").fetchall())
    for name, more, limit in (("items", items, limits.max_items), ("bytes", size, limits.max_total_bytes)):
        if more > 0 and held[name] + more > limit:
            raise StoreFault(
                f"the store is full: {held[name]} of {limit} {name} are used",
                reason="full",
                remedy="delete items that are done with, or have the limit raised",
                retryable=True,
            )


def _fault(error: sqlite3.Error, folder: Path) -> StoreFault:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreFault(
            "the store is being written by others", reason="busy", remedy="try again", retryable=True
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreFault("the disk is full", reason="disk", remedy=f"make room on the disk of {folder}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreFault(
            "the store's file is damaged",
            code="UNAVAILABLE",
            reason="damaged",
            remedy=f"move {folder / FILE} away or restore it from a backup",
        )
    return StoreFault(
        f"the store cannot be used: {error}",
        code="UNAVAILABLE",
        reason="folder",
        remedy=f"see that the daemon's user may write {folder}",
    )


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _info(row: tuple[str, str, int, int, str | None, int, int, int]) -> ItemInfo:
    namespace, key, version, size, schema, *times = row
    created, updated, expires = (_iso(each) for each in times)
    return ItemInfo(namespace, key, version, size, schema, created, updated, expires)


def _iso(micros: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return moment.isoformat().replace("+00:00", "Z")
