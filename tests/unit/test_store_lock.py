"""One daemon a data dir, and the loser says who holds it."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesd.errors import LockedError, StoreError
from hermesd.store.lock import DataDirLock


class Noon:
    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return datetime(2026, 11, 30, 12, tzinfo=UTC)


def lock(path: Path) -> DataDirLock:
    return DataDirLock(path / "lock", Noon())


def test_the_loser_names_the_holder_and_what_to_do(tmp_path: Path) -> None:
    """grpc#16920: a second daemon that starts silently beside the first.

    hermes-agent#89293, #100896, #101064, #90950: several processes wrote one file.
    """
    holder = lock(tmp_path)
    holder.acquire(["unix:/run/hermesd/hermesd.sock"])
    with pytest.raises(LockedError) as caught:
        lock(tmp_path).acquire()
    assert f"pid {os.getpid()} since 2026-11-30T12:00:00+00:00" in caught.value.message
    assert "unix:/run/hermesd/hermesd.sock" in caught.value.message
    assert "--data-dir" in caught.value.remedy
    holder.release()


def test_a_released_lock_is_free_and_a_failed_try_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    first, second = lock(tmp_path), lock(tmp_path)
    first.acquire()
    with pytest.raises(LockedError):
        second.acquire()
    assert not second.held
    first.release()
    first.release()
    with second:
        assert second.held
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_dead_daemons_lock_is_free(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from hermesd.clock import SystemClock;"
        "from hermesd.store.lock import DataDirLock;"
        "DataDirLock(Path(sys.argv[1]) / 'lock', SystemClock()).acquire(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env={"PYTHONPATH": "."}, check=False)
    assert "pid" in (tmp_path / "lock").read_text()
    with lock(tmp_path) as taken:
        assert taken.held


def test_no_child_keeps_the_lock_of_a_daemon_that_died(tmp_path: Path) -> None:
    """systemd#25961: descriptors that children inherit."""
    holder = lock(tmp_path)
    holder.acquire()
    assert holder._descriptor is not None
    code = "print('up', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        os.close(holder._descriptor)  # as the kernel does for the dead
        with lock(tmp_path) as taken:
            assert taken.held
        child.communicate(b"\n")


def test_a_released_lock_is_free_even_while_a_child_is_being_made(tmp_path: Path) -> None:
    holder = lock(tmp_path)
    holder.acquire()
    assert holder._descriptor is not None
    inherited = os.dup(holder._descriptor)
    holder.release()
    with lock(tmp_path) as taken:
        assert taken.held
    os.close(inherited)


def test_an_unreadable_holder_is_still_a_holder(tmp_path: Path) -> None:
    holder = lock(tmp_path)
    holder.acquire()
    (tmp_path / "lock").write_text("garbage")
    with pytest.raises(LockedError, match="another hermesd"):
        lock(tmp_path).acquire()
    holder.release()


def test_a_lock_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(StoreError, match="directory"):
        lock(tmp_path).acquire()


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "lock").symlink_to("victim")
    with pytest.raises(StoreError):
        lock(tmp_path).acquire()
    assert (tmp_path / "victim").read_text() == "mine"
