"""The records of calls, in `calls.duckdb`: written without anybody waiting, kept for a time, asked by filter.

Records are in the order in which their calls ended: `seq`, which only grows. A page goes on at a `seq`, so
that calls which end between two pages shift nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesd.errors import StoreError
from hermesd.model.call import Owner
from hermesd.model.record import (
    NAMES,
    CallFilter,
    CallRecord,
    CallStats,
    MiscalledTool,
    ToolStats,
)
from hermesd.store.database import Database, Schema
from hermesd.store.writer import Append, Job, Writer

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

_log = logging.getLogger("hermesd.store")

MIB = 1024 * 1024
#: How long a commit may wait for more records, in seconds.
LINGER_S = 0.1
#: Records of one job, jobs of one commit, and jobs that may wait.
ROWS = 16
MAX_BATCH = 60
CAPACITY = 1200
MAX_TOOLS = 10_000
MAX_MISCALLED = 20
#: Of what is over the size, so much more goes at once: each time rewrites what is beside it.
SLACK = 0.1

SCHEMA = Schema(
    "calls",
    (
        """
        CREATE TABLE calls (
            seq BIGINT, "at" TIMESTAMP, request_id VARCHAR, parent_request_id VARCHAR, session_id VARCHAR,
            agent VARCHAR, agent_kind VARCHAR, caller VARCHAR, tool VARCHAR, version VARCHAR,
            generation BIGINT, source VARCHAR, plugin VARCHAR, code VARCHAR, message VARCHAR,
            reason VARCHAR, effect VARCHAR, attempts INTEGER, duration_ms DOUBLE, queued_ms DOUBLE,
            run_ms DOUBLE, downstream_ms DOUBLE, fingerprint VARCHAR, arguments VARCHAR,
            arguments_bytes BIGINT, arguments_whole BOOLEAN, result VARCHAR, result_bytes BIGINT,
            result_whole BOOLEAN, truncated BOOLEAN, degraded BOOLEAN, replayed BOOLEAN,
            trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR, metadata_json VARCHAR
        )
        """,
    ),
)
#: Quoted: `at` is a word of the language.
_COLUMNS = ", ".join(f'"{name}"' for name in NAMES)


class CallStore:
    """The records of ended calls. `record` never waits; everything that reads raises StoreError."""

    def __init__(
        self,
        path: Path,
        *,
        lost: Callable[[int], None],
        moved_aside: Callable[[Path, str], None],
        committed: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`lost(n)`: so many records were not written. `moved_aside`: a damaged file was put away.

        `committed(seconds)`: a batch was written, or was tried to.
        """
        self._path = path
        self._lost = lost
        self._moved_aside = moved_aside
        self._last_seq = 0
        self._writer = Writer(
            self._open,
            name="calls",
            capacity=CAPACITY,
            max_batch=MAX_BATCH,
            linger=lambda last: LINGER_S if last < MAX_BATCH else 0.0,
            committed=lambda seconds, jobs: committed(seconds),
        )

    @property
    def failure(self) -> StoreError | None:
        """Why records cannot be written now; None when they can, as far as is known."""
        return self._writer.failure

    def record(self, records: Sequence[CallRecord]) -> None:
        """Have the records written; those that are not, for whatever reason, are told as lost."""
        for start in range(0, len(records), ROWS):
            part = records[start : start + ROWS]
            self._writer.submit(_Records(self, part)).add_done_callback(partial(self._written, len(part)))

    def _written(self, count: int, future: Future[object]) -> None:
        if future.exception() is not None:
            self._lost(count)

    async def settled(self) -> None:
        """Return when everything that was recorded before is on disk."""
        await asyncio.wrap_future(self._writer.submit(_Nothing()))

    async def page(
        self, asked: CallFilter, limit: int, before: int | None = None
    ) -> list[tuple[int, CallRecord]]:
        """At most `limit` records, those that ended last first, each with its `seq`."""
        where, parameters = _where(asked)
        if before is not None:
            where, parameters = f"{where} AND seq < ?", [*parameters, before]
        query = f"SELECT seq, {_COLUMNS} FROM calls WHERE {where} ORDER BY seq DESC LIMIT ?"  # noqa: S608 - constants
        rows = await self._writer.read(query, [*parameters, limit])
        return [(int(row[0]), _record(row[1:])) for row in rows]  # type: ignore[call-overload] # BIGINT

    async def find(self, request_id: str, owner: Owner | None = None) -> CallRecord | None:
        """The record of a call; of several that had the same id, the last."""
        where, parameters = _where(CallFilter(owner=owner))
        query = f"SELECT {_COLUMNS} FROM calls WHERE request_id = ? AND {where} ORDER BY seq DESC LIMIT 1"  # noqa: S608
        rows = await self._writer.read(query, [request_id, *parameters])
        return _record(rows[0]) if rows else None

    async def stats(self, asked: CallFilter, served: Iterable[str]) -> CallStats:
        """How the calls went. `served`: the tools that there are, of which those never called are told."""
        where, parameters = _where(asked)
        total = await self._writer.read(f"SELECT {_TOTAL} FROM calls WHERE {where}", parameters)  # noqa: S608
        codes = await self._writer.read(
            f"SELECT tool, code, count(*) FROM calls WHERE {where} GROUP BY ALL",  # noqa: S608
            parameters,
        )
        tools = await self._writer.read(
            f"SELECT {_PER_TOOL} FROM calls WHERE {where} AND source <> '' "  # noqa: S608
            f"GROUP BY tool ORDER BY count(*) DESC, tool LIMIT {MAX_TOOLS}",
            parameters,
        )
        wrong = await self._writer.read(
            f"SELECT tool, code, count(*), mode(CASE WHEN reason = '' THEN message ELSE reason END) "  # noqa: S608
            f"FROM calls WHERE {where} AND code IN ('INVALID_ARGUMENT', 'UNKNOWN_TOOL') "
            f"GROUP BY tool, code ORDER BY count(*) DESC, tool LIMIT {MAX_MISCALLED}",
            parameters,
        )
        return _stats(total[0], codes, tools, wrong, served)

    def sweep(self, older_than: datetime, max_bytes: int) -> None:
        """Have what is older, and the oldest beyond the size, removed soon."""
        if self._path.exists():
            self._writer.offer(_Sweep(older_than, max_bytes))

    def close(self, timeout_s: float) -> None:
        """Write what waits, within `timeout_s`. Blocks."""
        self._writer.close(timeout_s)

    def _open(self) -> Database:
        database = Database.open(self._path, SCHEMA, moved_aside=self._moved_aside)
        row = database.connection.execute("SELECT max(seq) FROM calls").fetchone()
        self._last_seq = int(row[0] or 0) if row is not None else 0
        return database

    def _next_seq(self) -> int:
        """On the writer's thread only, so that the order of `seq` is that of the file."""
        self._last_seq += 1
        return self._last_seq


class _Records(Append):
    """Some records on their way: together they cost less than alone, and one that is bad takes few along."""

    __slots__ = ("_records", "_store")
    table = "calls"

    def __init__(self, store: CallStore, records: Sequence[CallRecord]) -> None:
        self._store = store
        self._records = records

    def rows(self) -> Iterable[Sequence[object]]:
        number = self._store._next_seq
        return [(number(), each.at.replace(tzinfo=None), *each[1:]) for each in self._records]


class _Nothing(Job):
    """What is acknowledged when all before it is."""

    __slots__ = ()

    def apply(self, connection: Connection) -> object:
        return None


class _Sweep(Job):
    """Removes what is too old, and the oldest of what is too much."""

    __slots__ = ("_max_bytes", "_older_than")

    def __init__(self, older_than: datetime, max_bytes: int) -> None:
        self._older_than = older_than
        self._max_bytes = max_bytes

    def apply(self, connection: Connection) -> object:
        moment = self._older_than.astimezone(UTC).replace(tzinfo=None)
        connection.execute('DELETE FROM calls WHERE "at" < ?', [moment])
        size = _used_bytes(connection)
        if size > self._max_bytes:
            share = min(1.0, 1 - self._max_bytes / size * (1 - SLACK))
            query = f"SELECT quantile_disc(seq, {share:.6f}) FROM calls"  # noqa: S608 - a number
            bounds = connection.execute(query).fetchone()
            if bounds is not None and bounds[0] is not None:
                connection.execute("DELETE FROM calls WHERE seq <= ?", [bounds[0]])
        return None


def _used_bytes(connection: Connection) -> int:
    row = connection.execute(
        "SELECT sum(used_blocks * block_size) FROM pragma_database_size() "
        "WHERE database_name = current_database()"
    ).fetchone()
    return int(row[0] or 0) if row is not None else 0


_TOTAL = 'count(*), quantile_disc(duration_ms, [0.5, 0.95, 0.99]), min("at")'
_PER_TOOL = (
    "tool, count(*), quantile_disc(duration_ms, [0.5, 0.95, 0.99]), quantile_disc(queued_ms, 0.95), "
    'avg(downstream_ms), sum(attempts), max("at")'
)


def _where(asked: CallFilter) -> tuple[str, list[object]]:
    """The condition and its parameters. Nothing is filtered afterwards, the owner least of all."""
    parts, parameters = ["true"], []
    for column in ("agent", "code", "session_id", "plugin", "parent_request_id", "trace_id"):
        if value := getattr(asked, column):
            parts.append(f"{column} = ?")
            parameters.append(value)
    if asked.tool:
        parts.append("tool GLOB ?")
        parameters.append(asked.tool)
    if asked.failed:
        parts.append("code <> 'OK'")
    for bound, operator in ((asked.since, ">="), (asked.until, "<")):
        if bound is not None:
            parts.append(f'"at" {operator} ?')
            parameters.append(bound.astimezone(UTC).replace(tzinfo=None))
    if asked.owner is not None:
        parts.append("agent_kind = ? AND agent = ? AND (caller = '' OR source <> '')")
        parameters.extend(asked.owner)
    return " AND ".join(parts), parameters


def _record(row: Sequence[Any]) -> CallRecord:
    return CallRecord(row[0].replace(tzinfo=UTC), *row[1:])


def _stats(
    total: Sequence[Any],
    codes: Sequence[Sequence[Any]],
    tools: Sequence[Sequence[Any]],
    wrong: Sequence[Sequence[Any]],
    served: Iterable[str],
) -> CallStats:
    by_tool: dict[str, dict[str, int]] = {}
    overall: dict[str, int] = {}
    for tool, code, count in codes:
        by_tool.setdefault(tool, {})[code] = count
        overall[code] = overall.get(code, 0) + count
    calls, quantiles, first = total
    p50, p95, p99 = quantiles or (0.0, 0.0, 0.0)
    return CallStats(
        calls=calls,
        codes=dict(sorted(overall.items())),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        tools=tuple(_tool_stats(row, by_tool) for row in tools),
        unused=tuple(sorted(set(served) - {row[0] for row in tools})),
        miscalled=tuple(
            MiscalledTool(tool, code, count, sum(by_tool[tool].values()), example)
            for tool, code, count, example in wrong
        ),
        first=first.replace(tzinfo=UTC) if first is not None else None,
    )


def _tool_stats(row: Sequence[Any], codes: Mapping[str, Mapping[str, int]]) -> ToolStats:
    tool, calls, (p50, p95, p99), queued, downstream, attempts, last = row
    return ToolStats(
        tool=tool,
        calls=calls,
        codes=dict(sorted(codes[tool].items())),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        queued_p95_ms=queued,
        downstream_ms=downstream,
        attempts=int(attempts),
        last=last.replace(tzinfo=UTC),
    )


def cutoff(now: datetime, days: int) -> datetime:
    """Before which records are too old; `days` 0 keeps all."""
    return now - timedelta(days=days) if days else datetime(1970, 1, 1, tzinfo=UTC)
