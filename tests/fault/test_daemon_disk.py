"""A full or read-only data dir: what cannot be written down is refused, what serves goes on, and it heals."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermesd.client import ClientError
from tests.harness import Daemon, Home, eventually
from tests.plugins import word

pytestmark = pytest.mark.fault
Serve = Callable[..., Daemon]


@pytest.fixture
def small(home: Home) -> Iterator[Path]:
    """The data dir on a file system of 2 MiB of its own."""
    home.data.mkdir(mode=0o700)
    options = ["-t", "tmpfs", "-o", "size=2m,mode=0700", "none", str(home.data)]
    if os.geteuid() != 0 or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield home.data
    subprocess.run(["umount", "-l", str(home.data)], check=True)


@pytest.mark.promise("FLT-25")
def test_a_full_disk_refuses_the_new_keeps_the_old_and_heals(home: Home, small: Path, serve: Serve) -> None:
    home.follow("orders")
    home.plugin("orders", word("old"))
    daemon = serve()
    assert daemon.call("orders.say_word") == "old"
    filler = small / "filler"
    with pytest.raises(OSError, match="No space"):
        _fill(filler)
    home.plugin("orders", word("new") + "# " + "x" * 100_000 + "\n")
    answer = daemon.reload()
    refusal = next(each for each in answer.rejected if each.name == "orders")
    assert "space" in refusal.reason.lower() or "full" in refusal.reason.lower(), refusal
    assert refusal.remedy
    assert daemon.call("orders.say_word") == "old"
    with daemon.client() as client, pytest.raises(ClientError) as told:
        client.set_tool("orders.say_word", enabled=False)
    assert "space" in str(told.value).lower() or "full" in str(told.value).lower()
    assert daemon.call("orders.say_word") == "old", "what was not written down is not in force"
    assert daemon.process.poll() is None
    filler.unlink()
    answer = daemon.reload()
    assert not answer.rejected
    assert daemon.call("orders.say_word") == "new"
    assert not [each for each in small.rglob("*") if each.name.endswith(".tmp")]


@pytest.mark.promise("FLT-25")
def test_a_data_dir_that_becomes_read_only_refuses_changes_and_goes_on_serving(
    home: Home, small: Path, serve: Serve
) -> None:
    home.follow("orders")
    home.plugin("orders", word("old"))
    daemon = serve()
    parts = [str(small / "plugins"), str(small / "state")]
    for part in parts:
        subprocess.run(["mount", "--bind", part, part], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", part], check=True)
    try:
        home.plugin("orders", word("new"))
        answer = daemon.reload()
        refusal = next(each for each in answer.rejected if each.name == "orders")
        assert "read-only" in refusal.reason.lower(), refusal
        assert daemon.call("orders.say_word") == "old"
        with daemon.client() as client, pytest.raises(ClientError):
            client.set_tool("orders.say_word", enabled=False)
    finally:
        for part in parts:
            subprocess.run(["umount", "-l", part], check=True)
    assert not daemon.reload().rejected
    assert daemon.call("orders.say_word") == "new"


@pytest.mark.promise("FLT-25")
def test_a_limit_of_file_size_refuses_what_is_too_large_and_nothing_else(home: Home, serve: Serve) -> None:
    home.follow("orders")
    home.plugin("orders", word("old"))
    limited = ("/bin/sh", "-c", 'ulimit -f 200; exec "$@"', "sh")
    daemon = serve(prefix=limited)
    home.plugin("orders", word("new") + "# " + "x" * 1_000_000 + "\n")
    answer = daemon.reload()
    assert [each.name for each in answer.rejected] == ["orders"]
    assert answer.rejected[0].reason
    assert daemon.call("orders.say_word") == "old"
    home.plugin("orders", word("newer"))
    eventually(lambda: daemon.call("orders.say_word") == "newer")
    assert daemon.process.poll() is None


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
