"""A database is what this build wrote, whole, or it is refused with what to do."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from hermesd.errors import StoreError
from hermesd.store.database import DamagedError, Database, Schema
from hermesd.store.high_water import read_high_water, was_closed
from tests.core_doubles import SetClock

FIRST = Schema("notes", ("CREATE TABLE notes (id VARCHAR PRIMARY KEY, made TIMESTAMPTZ)",))
SECOND = Schema("notes", (*FIRST.migrations, "ALTER TABLE notes ADD COLUMN body VARCHAR"))


def write(database: Database, *ids: str) -> None:
    for each in ids:
        database.begin()
        database.connection.execute("INSERT INTO notes (id) VALUES (?)", [each])
        database.commit()


def ids(database: Database) -> list[str]:
    return [row[0] for row in database.connection.execute("SELECT id FROM notes ORDER BY id").fetchall()]


def test_it_is_bounded_closed_to_the_outside_and_in_utc(tmp_path: Path) -> None:
    with contextlib.closing(Database.open(tmp_path / "a.duckdb", FIRST, memory_mb=96)) as database:
        ask = database.connection.execute
        settings = [("threads", 1), ("TimeZone", "UTC"), ("memory_limit", "91.5 MiB"), ("temp_directory", "")]
        for name, value in settings:
            assert ask(f"SELECT current_setting('{name}')").fetchall()[0][0] in (value, f"Etc/{value}")
        for forbidden in (
            f"COPY notes TO '{tmp_path}/out.csv'",
            "SELECT * FROM read_csv('/etc/passwd')",
            f"ATTACH '{tmp_path}/other.duckdb'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET threads = 2",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                ask(forbidden)
        at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
        ask("INSERT INTO notes VALUES ('日志', ?)", [at])
        assert ask("SELECT * FROM notes").fetchall() == [("日志", at)]
    assert not (tmp_path / "out.csv").exists()


def test_a_newer_build_migrates_and_an_older_one_refuses_what_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with contextlib.closing(Database.open(path, FIRST)) as database:
        write(database, "kept")
    with contextlib.closing(Database.open(path, SECOND)) as database:
        assert database.connection.execute("SELECT id, body FROM notes").fetchall() == [("kept", None)]
    with pytest.raises(StoreError, match="newer hermesd") as caught:
        Database.open(path, FIRST)
    assert not isinstance(caught.value, DamagedError)
    assert "backup" in caught.value.remedy


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    Database.open(path, FIRST).close()
    broken = Schema("notes", (*FIRST.migrations, "ALTER TABLE notes ADD COLUMN b INTEGER; SELECT nonsense"))
    with pytest.raises(StoreError):
        Database.open(path, broken)
    with contextlib.closing(Database.open(path, FIRST)) as database:
        write(database, "x")
        assert ids(database) == ["x"]


def test_a_store_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    Database.open(path, FIRST).close()
    with pytest.raises(DamagedError, match="no calls store"):
        Database.open(path, Schema("calls", ("CREATE TABLE calls (id VARCHAR)",)))


def test_a_failed_statement_never_becomes_a_commit_that_wrote_nothing(tmp_path: Path) -> None:
    """An aborted transaction's COMMIT succeeds in DuckDB and discards the work."""
    with contextlib.closing(Database.open(tmp_path / "a.duckdb", FIRST)) as database:
        write(database, "x")
        database.begin()
        database.connection.execute("INSERT INTO notes (id) VALUES ('y')")
        with pytest.raises(duckdb.ConstraintException):
            database.connection.execute("INSERT INTO notes (id) VALUES ('x')")
        with pytest.raises(duckdb.TransactionException):
            database.commit()
        database.rollback()
        assert ids(database) == ["x"]
        number = database.number
        write(database, "y")
        assert database.number == number + 1


@pytest.mark.parametrize("damage", [b"garbage" * 2000, None])
def test_a_damaged_file_is_refused_or_moved_aside_and_told(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "a.duckdb"
    with contextlib.closing(Database.open(path, FIRST)) as database:
        write(database, "x")
    whole = path.read_bytes()
    path.write_bytes(damage if damage is not None else whole[:5000])
    with pytest.raises(DamagedError) as caught:
        Database.open(path, FIRST)
    assert "backup" in caught.value.remedy
    told: list[tuple[Path, str]] = []
    database = Database.open(path, FIRST, moved_aside=lambda aside, reason: told.append((aside, reason)))
    with contextlib.closing(database):
        assert ids(database) == []
        write(database, "new")
    ((aside, reason),) = told
    assert str(path) in reason
    assert aside.read_bytes() == (damage if damage is not None else whole[:5000])
    with contextlib.closing(Database.open(path, FIRST)) as again:
        assert ids(again) == ["new"]


def test_a_file_that_another_process_holds_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    code = (
        "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=str(holder.pid)) as caught:
            Database.open(path, FIRST, moved_aside=lambda aside, reason: pytest.fail("moved"))
        assert not isinstance(caught.value, DamagedError)
        holder.kill()


@pytest.mark.promise("STO-2")
def test_commits_that_were_lost_are_noticed_and_the_loss_can_be_accepted(tmp_path: Path) -> None:
    path, mark, clock = tmp_path / "a.duckdb", tmp_path / "a.high-water", SetClock()
    with contextlib.closing(Database.open(path, FIRST, high_water=mark, clock=clock)) as database:
        write(database, "a")
        older = duckdb_copy(database, path)
        write(database, "b", "c")
        assert database.owes_mark == 1.0
        clock.at += 0.75
        assert database.owes_mark == 0.25
        clock.at += 1
        assert database.owes_mark == 0
        database.mark()
        assert database.owes_mark is None
    Database.open(path, FIRST, high_water=mark).close()
    newest = path.read_bytes()

    path.write_bytes(older)
    with pytest.raises(StoreError, match="lost its last 2 commits of 4") as caught:
        Database.open(path, FIRST, high_water=mark)
    assert str(mark) in caught.value.remedy
    for gone in (b"", None):
        path.unlink()
        if gone is not None:
            path.write_bytes(gone)
        with pytest.raises(StoreError, match=r"is gone or empty|not a valid"):
            Database.open(path, FIRST, high_water=mark)
        assert path.exists() == (gone is not None)
        path.touch()
    path.unlink()
    Database.open(path, FIRST).close()
    with pytest.raises(StoreError, match="another store"):
        Database.open(path, FIRST, high_water=mark)
    path.write_bytes(newest)
    with contextlib.closing(Database.open(path, FIRST, high_water=mark)) as database:
        assert ids(database) == ["a", "b", "c"]
    path.write_bytes(older)
    mark.unlink()
    with contextlib.closing(Database.open(path, FIRST, high_water=mark)) as database:
        assert ids(database) == ["a"]


def test_whether_a_store_was_closed_in_peace_is_known_without_opening_it(tmp_path: Path) -> None:
    path, mark = tmp_path / "a.duckdb", tmp_path / "a.high-water"
    assert was_closed(mark), "never opened"
    database = Database.open(path, FIRST, high_water=mark)
    assert not was_closed(mark)
    database.close()
    assert was_closed(mark)
    mark.write_text("{}")
    assert not was_closed(mark), "whoever opens it is told what is wrong"


def test_a_damaged_high_water_file_is_no_high_water_file(tmp_path: Path) -> None:
    path, mark = tmp_path / "a.duckdb", tmp_path / "a.high-water"
    with contextlib.closing(Database.open(path, FIRST, high_water=mark)) as database:
        write(database, "a")
        database.mark()
    assert read_high_water(mark) is not None
    mark.write_text(mark.read_text().replace('"commit": 2', '"commit": 1'))
    with pytest.raises(StoreError, match="damaged"):
        Database.open(path, FIRST, high_water=mark)


def duckdb_copy(database: Database, path: Path) -> bytes:
    """The file as it stands now."""
    database.connection.execute("CHECKPOINT")
    return path.read_bytes()
