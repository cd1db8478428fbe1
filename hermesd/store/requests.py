"""The intents of calls and the answers of idempotency keys, in `state.duckdb`.

An intent stands on disk from before its call enters the runtime until the call has ended. One that a killed
daemon left is a call whose fate nobody knows: its key answers that, and never runs it again, unless the call
may be repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import astuple, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesd.clock import Clock
from hermesd.model.call import Result
from hermesd.model.intent import Intent, Recorded, fate_unknown, result_from, result_text
from hermesd.store.database import Database, Schema
from hermesd.store.writer import Append, Job, Writer

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

STATE = Schema(
    "state",
    (
        """
        CREATE TABLE intents (
            boot VARCHAR, id VARCHAR PRIMARY KEY, request_id VARCHAR, parent_request_id VARCHAR,
            session_id VARCHAR, principal VARCHAR, tool VARCHAR, version VARCHAR, generation BIGINT,
            source VARCHAR, plugin VARCHAR, side_effects VARCHAR, repeatable BOOLEAN,
            idempotency_key VARCHAR, digest VARCHAR, began TIMESTAMPTZ
        );
        CREATE TABLE requests (
            principal VARCHAR, tool VARCHAR, idempotency_key VARCHAR, digest VARCHAR, result VARCHAR,
            began TIMESTAMPTZ, PRIMARY KEY (principal, tool, idempotency_key)
        );
        """,
    ),
)
#: How long the intent of a call that has ended may stand before it is removed for itself, in seconds.
END_S = 0.2
_COLUMNS = ", ".join(each.name for each in fields(Intent))


def open_state(
    path: Path,
    high_water: Path,
    *,
    boot: str,
    clock: Clock,
    interrupted: Callable[[Sequence[Intent]], None],
) -> Database:
    """Open the state, and settle what earlier daemons left undone, of which `interrupted` is told.

    `boot` names this life of the daemon: what it has begun itself is not touched. Raises StoreError.
    """
    database = Database.open(path, STATE, high_water=high_water, clock=clock)
    try:
        left = _settle_left(database, boot)
    except BaseException:
        database.abandon()
        raise
    if left:
        interrupted(left)
    return database


def _settle_left(database: Database, boot: str) -> list[Intent]:
    connection = database.connection
    query = f"SELECT {_COLUMNS} FROM intents WHERE boot <> ? ORDER BY began"  # noqa: S608 - our own names
    left = [Intent(*row) for row in connection.execute(query, [boot]).fetchall()]
    if left:
        database.begin()
        for each in left:
            if each.idempotency_key and not each.repeatable:
                _record(connection, each, fate_unknown(each))
        connection.execute("DELETE FROM intents WHERE boot <> ?", [boot]).fetchall()
        database.commit()
    return left


def _record(connection: Connection, intent: Intent, result: Result) -> None:
    """The key answers `result`, unless a call that began later has answered already."""
    connection.execute(
        "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "digest = excluded.digest, result = excluded.result, began = excluded.began "
        "WHERE excluded.began >= requests.began",
        [
            intent.principal,
            intent.tool,
            intent.idempotency_key,
            intent.digest,
            result_text(result),
            intent.began,
        ],
    ).fetchall()


class _Begin(Append):
    __slots__ = ("row",)
    table = "intents"

    def __init__(self, boot: str, intent: Intent) -> None:
        self.row = (boot, *astuple(intent))

    def rows(self) -> Iterable[Sequence[object]]:
        return (self.row,)


class _End(Append):
    __slots__ = ("ids",)
    table = "intents"
    action = "delete"
    key = ("id",)

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids

    def rows(self) -> Iterable[Sequence[object]]:
        return [(each,) for each in self.ids]


class _Record(Job):
    """Both or neither: an intent that went without its record would leave the key free."""

    __slots__ = ("intent", "result")

    def __init__(self, intent: Intent, result: Result) -> None:
        self.intent = intent
        self.result = result

    def apply(self, connection: Connection) -> object:
        _record(connection, self.intent, self.result)
        return connection.execute("DELETE FROM intents WHERE id = ?", [self.intent.id]).fetchall()


class _Sweep(Job):
    __slots__ = ("before",)

    def __init__(self, before: datetime) -> None:
        self.before = before

    def apply(self, connection: Connection) -> object:
        rows: list[tuple[Any, ...]] = connection.execute(
            "DELETE FROM requests WHERE began < ?", [self.before]
        ).fetchall()
        return rows[0][0] if rows else 0


class RequestLedger:
    """The ledger of a daemon. `boot` names its life, as in `open_state`."""

    def __init__(self, writer: Writer, boot: str) -> None:
        self._writer = writer
        self._boot = boot
        #: Of calls that have ended and have nothing to record: they go with the next intent that is written.
        self._ended: list[str] = []
        self._turn: asyncio.TimerHandle | None = None

    async def find(self, principal: str, tool: str, key: str, since: datetime) -> Recorded | None:
        """What the key answers, if its call began at `since` or later. Raises StoreError."""
        rows = await self._writer.read(
            "SELECT digest, result FROM requests "
            "WHERE principal = ? AND tool = ? AND idempotency_key = ? AND began >= ?",
            [principal, tool, key, since],
        )
        return Recorded(str(rows[0][0]), result_from(str(rows[0][1]))) if rows else None

    async def begin(self, intent: Intent) -> None:
        """Return when the intent is on disk. Raises StoreError when it is not."""
        job = _Begin(self._boot, intent)
        if not self._ended:
            await asyncio.wrap_future(self._writer.submit(job))
            return
        ended, self._ended = self._ended, []
        try:
            await asyncio.wrap_future(self._writer.submit(job, _End(ended)))
        except BaseException:
            self._ended += ended  # to remove what is gone already does no harm
            raise

    def end(self, intent: Intent, result: Result | None) -> Future[object]:
        """The call has ended; with a `result`, that is what its key answers from now on.

        The future raises StoreError when it could not be written. Without a result it is done at once, and
        the intent goes soon.
        """
        if result is not None:
            return self._writer.submit(_Record(intent, result))
        self._ended.append(intent.id)
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_later(END_S, self.flush)
        done: Future[object] = Future()
        done.set_result(None)
        return done

    def flush(self) -> None:
        """Have the intents removed that waited for another to be written."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._ended:
            ended, self._ended = self._ended, []
            loop = asyncio.get_running_loop()
            self._writer.submit(_End(ended)).add_done_callback(partial(self._keep_failed, ended, loop))

    def _keep_failed(
        self, ended: list[str], loop: asyncio.AbstractEventLoop, written: Future[object]
    ) -> None:
        """What could not be removed goes with the next: one that stays is told as interrupted later."""
        if written.exception() is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nothing comes after
                loop.call_soon_threadsafe(self._again, ended)

    def _again(self, ended: list[str]) -> None:
        self._ended += ended

    def sweep(self, before: datetime) -> Future[object] | None:
        """Forget what began before that; None when nothing has been opened."""
        return self._writer.submit(_Sweep(before)) if self._writer.is_open else None
