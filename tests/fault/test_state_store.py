"""The state of the daemon under kills, full disks and flipped bytes: nothing twice, nothing lost silently."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from hermesd.client import Client, ClientError
from hermesd.errors import StoreError
from hermesd.store.database import Database, Schema
from hermesd.store.layout import DataDir
from tests.harness import Daemon, Home, eventually

pytestmark = pytest.mark.fault
Serve = Callable[..., Daemon]

SCHEMA = Schema("notes", ("CREATE TABLE notes (id BIGINT PRIMARY KEY, body VARCHAR)",))
WRITER = """
import sys
from concurrent.futures import wait
from pathlib import Path
from hermesd.store.database import Database, Schema
from hermesd.store.writer import Append, Writer
path, first = Path(sys.argv[1]), int(sys.argv[2])
schema = Schema("notes", ("CREATE TABLE notes (id BIGINT PRIMARY KEY, body VARCHAR)",))
class Note(Append):
    table = "notes"
    def __init__(self, number): self.number = number
    def rows(self): return [(self.number, "x" * 500)]
opened = lambda: Database.open(path, schema, high_water=path.with_suffix(".high-water"))
writer = Writer(opened, name="notes", retry_s=0.0)
def said(number, future):
    if future.exception() is None:
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
number = first
while True:
    batch = []
    for _ in range(20):
        future = writer.submit(Note(number))
        future.add_done_callback(lambda done, number=number: said(number, done))
        batch.append(future)
        number += 1
    wait(batch)
"""


@pytest.mark.promise("STO-1")
def test_kill_minus_nine_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "notes.duckdb"
    acknowledged: set[int] = set()
    for round_ in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(round_ * 1_000_000)],
            env={"PYTHONPATH": "."},
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            said = [child.stdout.readline()]
            time.sleep(0.1 + 0.05 * round_)
            child.send_signal(signal.SIGKILL)
            said += child.stdout.read().splitlines(keepends=True)
        acknowledged.update(int(line) for line in said if line.endswith("\n"))
        with contextlib.closing(
            Database.open(path, SCHEMA, high_water=path.with_suffix(".high-water"))
        ) as database:
            rows = database.connection.execute("SELECT id FROM notes").fetchall()
        assert acknowledged <= {row[0] for row in rows}
    assert len(acknowledged) > 200


CODE = """
import os
import time
from pathlib import Path
from hermesd.plugin import tool

OUT = Path({out!r})

@tool()
def place_order(item: str) -> str:
    "Writes a line, with some time around it in which to be killed."
    time.sleep(0.01)
    with OUT.open("a") as file:
        file.write(item + "\\n")
    time.sleep(0.01)
    return item

@tool(side_effects="read")
def count_orders() -> int:
    "Counts lines."
    return OUT.read_text().count("\\n")
"""


def orders(home: Home) -> Path:
    out = home.path / "out"
    out.touch()
    home.follow("orders")
    home.plugin("orders", CODE.format(out=str(out)))
    return out


@pytest.mark.promise("IDM-7")
@pytest.mark.promise("IDM-4")
def test_a_call_under_a_key_never_happens_twice_whenever_the_daemon_is_killed(home: Home) -> None:
    """hermes-agent#88821, #106440, companion-emergence#66: what was sent again was done again."""
    out = orders(home)
    chance = random.Random(20261130)
    keys = [f"k{number}" for number in range(400)]
    answers: dict[str, tuple[str, str]] = {}
    lock = threading.Lock()

    def ask(todo: list[str]) -> None:
        with Client(home.address) as client:
            while True:
                with lock:
                    if not todo:
                        return
                    key = todo.pop()
                try:
                    result = client.call_tool("orders.place_order", {"item": key}, idempotency_key=key)
                except ClientError:
                    return  # the daemon is gone
                if result.code != "UNAVAILABLE" or result.effect == "unknown":
                    answers[key] = (result.code, result.effect)

    for _ in range(12):
        daemon = Daemon(home).wait_ready()
        todo = [key for key in keys if key not in answers]
        threads = [threading.Thread(target=ask, args=(todo,)) for _ in range(4)]
        for each in threads:
            each.start()
        time.sleep(chance.uniform(0.1, 0.5))
        daemon.kill()
        for each in threads:
            each.join()
        written = Counter(out.read_text().split())
        assert not [key for key, count in written.items() if count > 1], "it happened twice"
    daemon = Daemon(home).wait_ready()
    try:
        for key in keys:
            if key not in answers:
                ask([key])
        written = Counter(out.read_text().split())
        assert set(written.values()) == {1}
        assert answers.keys() == set(keys)
        for key, (code, effect) in answers.items():
            assert (code, effect) in {("OK", "done"), ("UNAVAILABLE", "unknown")}, key
            if code == "OK":
                assert written[key] == 1, "what was answered has happened"
    finally:
        assert daemon.stop() == 0
    assert len([code for code, _ in answers.values() if code == "OK"]) > 200


@pytest.fixture
def small(home: Home) -> Iterator[Path]:
    """The data dir on a file system of 4 MiB of its own."""
    home.data.mkdir(mode=0o700)
    options = ["-t", "tmpfs", "-o", "size=4m,mode=0700", "none", str(home.data)]
    if os.geteuid() != 0 or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield home.data
    subprocess.run(["umount", "-l", str(home.data)], check=True)


@pytest.mark.promise("IDM-5")
def test_a_full_disk_refuses_what_must_be_written_and_loses_nothing_that_was(
    home: Home, small: Path, serve: Serve
) -> None:
    """distillery#647: a log that could not be written or read again kept a store from ever opening."""
    out = orders(home)
    daemon = serve()
    filler = small / "filler"
    done: list[str] = []
    with daemon.client() as client:

        def order(key: str) -> tuple[str, str]:
            result = client.call_tool("orders.place_order", {"item": key}, idempotency_key=key)
            if result.ok:
                done.append(key)
            return result.code, result.effect

        for round_ in range(3):
            assert order(f"before-{round_}") == ("OK", "done")
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 1024)
            codes = [order(f"full-{round_}-{number}") for number in range(400)]
            assert ("UNAVAILABLE", "none") in codes, "the log has room for some, and then no more"
            refused = client.call_tool("orders.place_order", {"item": "never"})
            assert (refused.code, refused.effect) == ("UNAVAILABLE", "none")
            assert "space" in refused.detail["remedy"]
            assert client.call_tool("orders.count_orders").data == len(out.read_text().split())
            assert any("store" in each.name for each in daemon.status().warnings)
            filler.unlink()
            assert eventually(lambda round_=round_: order(f"after-{round_}") == ("OK", "done"))
            eventually(lambda: not any(each.name == "store" for each in daemon.status().warnings))
    assert daemon.events("store_failed")
    assert daemon.events("store_recovered")
    daemon.kill()
    daemon = serve()
    assert max(Counter(out.read_text().split()).values()) == 1
    assert "never" not in out.read_text()
    with daemon.client() as client:
        for key in done:
            again = client.call_tool("orders.place_order", {"item": key}, idempotency_key=key)
            assert again.detail.get("replayed"), f"{key} was acknowledged and is gone"
    assert max(Counter(out.read_text().split()).values()) == 1


@pytest.mark.promise("STO-2")
@pytest.mark.parametrize("what", ["head", "log", "gone"])
def test_a_damaged_state_is_refused_and_what_needs_none_goes_on(home: Home, serve: Serve, what: str) -> None:
    orders(home)
    daemon = serve()
    with daemon.client() as client:
        for number in range(30):
            arguments = {"item": f"{number}"}
            assert client.call_tool("orders.place_order", arguments, idempotency_key=f"{number}").ok
    eventually(lambda: '"commit": 1,' not in DataDir(home.data).state_high_water.read_text())
    time.sleep(1.2)  # the mark of the last commits
    daemon.kill()
    data = DataDir(home.data)
    log = data.state_database.with_name("state.duckdb.wal")
    if what == "head":
        _flip(data.state_database, 100)
    elif what == "log":
        _flip(log, log.stat().st_size // 2)
    else:
        log.unlink()

    daemon = serve()
    eventually(lambda: daemon.events("store_failed"))
    with daemon.client() as client:
        refused = client.call_tool("orders.place_order", {"item": "1"}, idempotency_key="1")
        assert (refused.code, refused.effect) == ("UNAVAILABLE", "none")
        assert "backup" in refused.detail["remedy"]
        assert client.call_tool("orders.count_orders").data == 30
        found = {each.name: each.read_bytes() for each in (data.state_database, log) if each.exists()}
        time.sleep(2.5)
        assert found == {name: (data.store / name).read_bytes() for name in found}, "left as it was"
        data.state_high_water.unlink()
        if "lost its last" not in refused.detail["reason"]:
            data.state_database.unlink()
            log.unlink(missing_ok=True)
        eventually(lambda: client.call_tool("orders.place_order", {"item": "new"}).ok)
    eventually(lambda: daemon.events("store_recovered"))


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_any_flipped_byte_is_refused_or_harmless_and_never_crashes(tmp_path: Path) -> None:
    path, mark = tmp_path / "notes.duckdb", tmp_path / "notes.high-water"
    with contextlib.closing(Database.open(path, SCHEMA, high_water=mark)) as database:
        for number in range(200):
            database.begin()
            database.connection.execute("INSERT INTO notes VALUES (?, ?)", [number, "x" * 100])
            database.commit()
    good, said = path.read_bytes(), mark.read_bytes()
    chance = random.Random(20261130)
    refused = 0
    for _ in range(40):
        mark.write_bytes(said)
        path.write_bytes(good)
        _flip(path, chance.randrange(len(good)))
        try:
            with contextlib.closing(Database.open(path, SCHEMA, high_water=mark)) as database:
                rows = database.connection.execute("SELECT count(*), max(length(body)) FROM notes").fetchall()
                assert rows == [(200, 100)]
        except (StoreError, duckdb.Error):
            refused += 1
    assert refused > 10
