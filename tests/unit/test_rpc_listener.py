"""Locks beside sockets."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from hermesd.errors import LockedError, PreconditionError
from hermesd.rpc import listener
from hermesd.rpc.listener import UnixListener


def test_the_folder_of_the_socket_is_made_private(tmp_path: Path):
    one = UnixListener(tmp_path / "深" / "er" / "s")
    one.acquire()
    assert (tmp_path / "深" / "er").stat().st_mode & 0o777 == 0o700
    one.release()
    one.release()
    assert list((tmp_path / "深" / "er").iterdir()) == []


def test_the_place_to_bind_is_private(tmp_path: Path):
    one = UnixListener(tmp_path / "s")
    private = Path(one.acquire())
    assert private.parent.stat().st_mode & 0o777 == 0o700
    one.release()


def test_a_lock_whose_file_was_removed_meanwhile_is_not_a_lock(tmp_path: Path, monkeypatch):
    """The former holder removes the file between our open and our lock."""
    path = tmp_path / "s"
    original, removed = fcntl.flock, []

    def remove_first(descriptor: int, operation: int) -> None:
        if not removed:
            removed.append(descriptor)
            (tmp_path / "s.lock").unlink()
        original(descriptor, operation)

    monkeypatch.setattr(listener.fcntl, "flock", remove_first)
    one = UnixListener(path)
    one.acquire()
    with pytest.raises(LockedError, match=str(os.getpid())):
        UnixListener(path).acquire()
    one.release()


@pytest.mark.parametrize("content", ["", "garbage", "[]", '{"pid": "x"}'])
def test_a_lock_that_names_nobody_still_holds(tmp_path: Path, content: str):
    one = UnixListener(tmp_path / "s")
    one.acquire()
    (tmp_path / "s.lock").write_text(content)
    with pytest.raises(LockedError, match="another hermesd"):
        UnixListener(tmp_path / "s").acquire()
    one.release()


def test_a_folder_that_is_too_long_is_refused_before_anything_is_made(tmp_path: Path):
    folder = tmp_path / ("x" * 95)
    with pytest.raises(PreconditionError, match="94 bytes"):
        UnixListener(folder / "s").acquire()
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_leaves_no_lock(tmp_path: Path, monkeypatch):
    def full(**_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(listener.tempfile, "mkdtemp", full)
    with pytest.raises(PreconditionError, match="No space"):
        UnixListener(tmp_path / "s").acquire()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("HOS-6")
def test_a_folder_that_refuses_the_socket_is_told_with_a_remedy():
    with pytest.raises(PreconditionError, match="unix:/proc/s") as caught:
        UnixListener(Path("/proc/s")).acquire()
    assert "listen elsewhere" in caught.value.remedy


@pytest.mark.promise("API-15")
def test_a_folder_that_everybody_can_write_to_is_refused(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(PreconditionError, match="writable by everybody"):
        UnixListener(folder / "s").acquire()
    assert list(folder.iterdir()) == []
