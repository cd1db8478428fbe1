"""What is acknowledged is on disk, one bad job fails alone, and nobody ever waits to offer one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from hermesd.errors import StoreError
from hermesd.store.database import Database, Schema
from hermesd.store.high_water import read_high_water
from hermesd.store.writer import Append, Job, Writer

SCHEMA = Schema("notes", ("CREATE TABLE notes (id VARCHAR PRIMARY KEY, number BIGINT)",))


class Note(Append):
    table = "notes"

    def __init__(self, key: str, number: object = 0) -> None:
        self.key, self.number = key, number

    def rows(self) -> Iterable[Sequence[object]]:
        if isinstance(self.number, Exception):
            raise self.number
        return [(self.key, self.number)]


class Change(Note):
    action = "upsert"


class Removal(Append):
    table, action, key = "notes", "delete", ("id",)

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def rows(self) -> Iterable[Sequence[object]]:
        return [(each,) for each in self.keys]


class Do(Job):
    def __init__(self, work: Callable[[Any], object]) -> None:
        self.work = work

    def apply(self, connection: Any) -> object:
        return self.work(connection)


class Bench:
    """A writer on a file, whose thread can be held between two batches."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.lost: list[tuple[int, StoreError]] = []
        self.batches: list[int] = []
        self.health: list[StoreError | None] = []
        self.opened = 0
        self.fails: Exception | None = None
        self.writer = Writer(
            self._open,
            name="notes",
            lost=lambda count, error: self.lost.append((count, error)),
            health=self.health.append,
            committed=lambda seconds, jobs: self.batches.append(jobs),
            **{"retry_s": 0.0, **options},
        )

    def _open(self) -> Database:
        self.opened += 1
        if self.fails is not None:
            raise self.fails
        return Database.open(self.path, SCHEMA, high_water=self.path.with_suffix(".high-water"))

    def hold(self) -> threading.Event:
        """Keep the thread busy until the event is set."""
        reached, go = threading.Event(), threading.Event()
        self.writer.submit(Do(lambda _: (reached.set(), go.wait(10))))
        assert reached.wait(10)
        return go

    def commits(self) -> int:
        """What the high-water file says in the end."""
        self.writer.close(10)
        mark = read_high_water(self.path.with_suffix(".high-water"))
        assert mark is not None
        return mark.commit

    def rows(self) -> list[tuple[Any, ...]]:
        """What a fresh look at the file finds."""
        self.writer.close(10)
        database = Database.open(self.path, SCHEMA)
        try:
            return database.connection.execute("SELECT * FROM notes ORDER BY id").fetchall()
        finally:
            database.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "notes.duckdb")
    yield made
    made.writer.close(10)


def test_nothing_is_opened_before_the_first_write(bench: Bench) -> None:
    bench.writer.close(1)
    assert bench.opened == 0
    assert not bench.path.exists()


@pytest.mark.promise("STO-1")
def test_many_jobs_share_a_commit_and_each_is_answered_after_it(bench: Bench) -> None:
    go = bench.hold()
    futures = [bench.writer.submit(Note(f"{number:03}", number)) for number in range(100)]
    counted = bench.writer.submit(Do(lambda c: c.execute("SELECT count(*) FROM notes").fetchall()))
    futures += [bench.writer.submit(Note(f"{number:03}", number)) for number in range(100, 200)]
    assert not any(each.done() for each in futures)
    go.set()
    assert [each.result(10) for each in futures] == [None] * 200
    assert counted.result(10) == [(100,)], "in the order of asking"
    assert bench.batches == [1, 201]
    assert bench.commits() == 3, "the tables, what held it, and all of these at once"
    assert bench.rows() == [(f"{number:03}", number) for number in range(200)]


def test_a_batch_has_a_bound(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "a.duckdb", max_batch=10)
    go = bench.hold()
    futures = [bench.writer.submit(Note(str(number))) for number in range(25)]
    go.set()
    for each in futures:
        each.result(10)
    bench.writer.close(10)
    assert bench.batches == [1, 10, 10, 5]


@pytest.mark.promise("STO-1")
def test_one_bad_job_fails_alone(bench: Bench) -> None:
    bench.writer.submit(Note("taken")).result(10)
    go = bench.hold()
    good = [bench.writer.submit(Note(f"good {number}")) for number in range(5)]
    bad: list[Future[object]] = [
        bench.writer.submit(Note("taken")),
        bench.writer.submit(Note("half \ud800")),
        bench.writer.submit(Note("x", ValueError("its own fault"))),
        bench.writer.submit(Do(lambda c: c.execute("nonsense"))),
    ]
    good += [bench.writer.submit(Note(f"more {number}")) for number in range(5)]
    assert bench.writer.offer(Note("taken"))
    assert bench.writer.offer(Note("offered"))
    go.set()
    for each in good:
        assert each.result(10) is None
    for each in bad:
        with pytest.raises(StoreError):
            each.result(10)
    rows = [row[0] for row in bench.rows()]
    assert len(rows) == 12
    assert {"taken", "offered"} <= set(rows)
    ((count, error),) = bench.lost
    assert count == 1
    assert "uplicate key" in error.message


def test_neighbours_insert_before_they_change_and_change_before_they_delete(bench: Bench) -> None:
    go = bench.hold()
    jobs = [
        Removal("a", "never there"),
        Note("a"),
        Change("b", 2),
        Removal("c"),
        Note("b"),
        Note("c"),
        Note("d"),
    ]
    futures = [bench.writer.submit(each) for each in jobs]
    go.set()
    for each in futures:
        each.result(10)
    assert bench.commits() == 3
    assert bench.rows() == [("b", 2), ("d", 0)]


def test_a_full_queue_drops_what_is_offered_and_refuses_what_is_submitted(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "a.duckdb", capacity=3)
    go = bench.hold()
    assert [bench.writer.offer(Note(str(number))) for number in range(5)] == [True] * 3 + [False] * 2
    with pytest.raises(StoreError, match="3 writes wait"):
        bench.writer.submit(Note("x")).result(0)
    go.set()
    assert [row[0] for row in bench.rows()] == ["0", "1", "2"]


def test_a_job_whose_asker_is_gone_before_its_turn_is_not_written(bench: Bench) -> None:
    go = bench.hold()
    gone = bench.writer.submit(Note("gone"))
    assert gone.cancel()
    bench.writer.offer(Note("there"))
    go.set()
    assert bench.rows() == [("there", 0)]


def test_a_database_that_cannot_be_opened_fails_each_write_and_heals(bench: Bench) -> None:
    bench.fails = StoreError("the disk is gone", remedy="mount it")
    for _ in range(2):
        with pytest.raises(StoreError, match="the disk is gone"):
            bench.writer.submit(Note("x")).result(10)
    assert bench.writer.failure is bench.fails
    assert bench.health == [bench.fails]
    assert bench.writer.offer(Note("y"))
    with pytest.raises(StoreError):
        bench.writer.submit(Note("x")).result(10)
    assert [count for count, _ in bench.lost] == [1]
    bench.fails = None
    bench.writer.submit(Note("x")).result(10)
    assert bench.writer.failure is None
    assert len(bench.health) == 2
    assert bench.health[1] is None
    assert bench.rows() == [("x", 0)]


def test_between_two_tries_to_open_some_time_passes(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "a.duckdb", retry_s=60.0)
    bench.fails = StoreError("the disk is gone")
    for _ in range(3):
        with pytest.raises(StoreError):
            bench.writer.submit(Note("x")).result(10)
    assert bench.opened == 1
    bench.writer.close(10)


def test_closing_writes_what_waits_and_takes_nothing_more(bench: Bench) -> None:
    go = bench.hold()
    futures = [bench.writer.submit(Note(str(number))) for number in range(3)]
    threading.Timer(0.05, go.set).start()
    bench.writer.close(10)
    assert all(each.done() and each.exception() is None for each in futures)
    assert not bench.writer.offer(Note("late"))
    with pytest.raises(StoreError, match="closed"):
        bench.writer.submit(Note("late")).result(0)
    assert len(bench.rows()) == 3


def test_a_close_is_bounded_and_tells_who_still_waited(bench: Bench) -> None:
    go = bench.hold()
    waiting = bench.writer.submit(Note("x"))
    bench.writer.offer(Note("y"))
    bench.writer.close(0.05)
    with pytest.raises(StoreError, match="closed before"):
        waiting.result(0)
    assert [count for count, _ in bench.lost] == [1]
    go.set()


async def test_reads_see_what_was_acknowledged_beside_a_busy_writer(bench: Bench) -> None:
    assert await bench.writer.read("SELECT count(*) FROM notes") == [(0,)]
    await asyncio.wrap_future(bench.writer.submit(Note("a", 7)))
    go = bench.hold()
    many = [bench.writer.read("SELECT number FROM notes WHERE id = ?", ["a"]) for _ in range(20)]
    assert await asyncio.gather(*many) == [[(7,)]] * 20
    go.set()
    with pytest.raises(StoreError, match="cannot read"):
        await bench.writer.read("SELECT nonsense")


async def test_a_read_that_takes_too_long_is_stopped(bench: Bench) -> None:
    endless = "SELECT sum(a.range * b.range % 7) FROM range(1000000) a, range(1000000) b"
    with pytest.raises(StoreError, match="did not answer within"):
        await bench.writer.read(endless, timeout_s=0.05)
    assert await bench.writer.read("SELECT 1") == [(1,)]
    bench.writer.close(5)
    with pytest.raises(StoreError, match="closed"):
        await bench.writer.read("SELECT 1")


def test_the_high_water_file_says_what_was_acknowledged(bench: Bench) -> None:
    for number in range(3):
        bench.writer.submit(Note(str(number))).result(10)
    bench.writer.close(10)
    assert bench.commits() == 4
