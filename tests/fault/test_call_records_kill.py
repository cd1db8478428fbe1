"""What may be lost of the records of calls, and what a broken disk does to the calls themselves: nothing."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermesd.client import Client, ClientError
from tests.harness import Daemon, Home, eventually

pytestmark = pytest.mark.fault
Serve = Callable[..., Daemon]

#: As operating.md states it.
LOSS_WINDOW_S = 1.0
CODE = '''
from hermesd.plugin import tool

@tool(side_effects="read")
def say_text(text: str) -> str:
    """Says."""
    return text
'''


@pytest.fixture
def ready(home: Home) -> Home:
    home.follow("orders")
    home.plugin("orders", CODE)
    return home


@pytest.mark.promise("REC-6")
def test_a_kill_loses_no_record_but_those_of_the_last_second(ready: Home, serve: Serve) -> None:
    for life in range(3):
        daemon = serve()
        ended: list[tuple[float, str]] = []
        stop = threading.Event()
        threads = [
            threading.Thread(target=_calls, args=(daemon, ended, stop), name=f"caller {number}")
            for number in range(2)
        ]
        for each in threads:
            each.start()
        time.sleep(2.5 + 0.13 * life)
        killed = time.monotonic()
        daemon.kill()
        stop.set()
        for each in threads:
            each.join()
        again = serve()
        with again.client() as client:
            kept = {each.request_id for each in client.calls(tool="orders.*")}
        again.kill()
        owed = {request_id for at, request_id in ended if at < killed - LOSS_WINDOW_S}
        assert len(owed) > 20
        assert not owed - kept


def _calls(daemon: Daemon, ended: list[tuple[float, str]], stop: threading.Event) -> None:
    with daemon.client() as client:
        while not stop.is_set():
            try:
                result = client.call_tool("orders.say_text", {"text": "x" * 500}, timeout_s=5)
            except ClientError:
                return
            ended.append((time.monotonic(), result.request_id))


@pytest.fixture
def small(home: Home) -> Iterator[Path]:
    """The folder of the databases on a file system of 2 MiB of its own."""
    store = home.data / "store"
    store.mkdir(mode=0o700, parents=True)
    home.data.chmod(0o700)
    options = ["-t", "tmpfs", "-o", "size=2m,mode=0700", "none", str(store)]
    if os.geteuid() != 0 or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield store
    subprocess.run(["umount", "-l", str(store)], check=True)


@pytest.mark.promise("REC-7")
def test_a_full_disk_costs_records_and_no_call_and_heals(ready: Home, small: Path, serve: Serve) -> None:
    daemon = serve()
    assert daemon.call("orders.say_text", text="before") == "before"
    with daemon.client() as client:
        eventually(lambda: len(client.list_calls().calls) == 1)
        filler = small / "filler"
        with pytest.raises(OSError, match="No space"):
            _fill(filler)
        for number in range(300):
            assert client.call_tool("orders.say_text", {"text": "x" * 1500 + str(number)}).ok
        with pytest.raises(ClientError):
            _until_refused(client)
        assert daemon.call("orders.say_text", text="during") == "during"
        eventually(lambda: _lines(small.parent) > 300, what="the call log, which is on another disk")
        [warning] = [each for each in daemon.status().warnings if each.name == "records"]
        assert "space" in warning.reason.lower()
        assert warning.remedy
        filler.unlink()

        def heals() -> bool:
            daemon.call("orders.say_text", text="after")
            try:
                return any('"after"' in each.arguments for each in client.list_calls().calls)
            except ClientError:
                return False

        eventually(heals, 20, "records to be kept again")
        assert not [each for each in daemon.status().warnings if each.name == "records"]
    assert daemon.stop() == 0


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def _until_refused(client: Client) -> None:
    """More and more until a question cannot be answered, because what it waits for was not written."""
    for number in range(50):
        for _ in range(100):
            client.call_tool("orders.say_text", {"text": "y" * 1500 + str(number)})
        client.list_calls()


def _lines(data: Path) -> int:
    return len((data / "logs" / "calls.jsonl").read_bytes().splitlines())


@pytest.mark.promise("REC-7")
def test_a_damaged_file_is_put_aside_told_and_begun_anew(ready: Home, serve: Serve) -> None:
    daemon = serve()
    daemon.call("orders.say_text", text="old")
    assert daemon.stop() == 0
    file = ready.data / "store" / "calls.duckdb"
    size = file.stat().st_size
    file.write_bytes(os.urandom(size))
    daemon = serve()
    assert daemon.call("orders.say_text", text="new") == "new"
    with daemon.client() as client:
        assert ['"new"' in each.arguments for each in client.list_calls().calls] == [True]
    [event] = daemon.events("records_moved_aside")
    assert Path(event.subject).exists()
    assert Path(event.subject).stat().st_size == size
