"""A file of the data dir is replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from hermesd.errors import StoreError
from hermesd.store import durable
from hermesd.store.durable import read_json_object, store_error, write_atomic


def test_the_new_bytes_and_the_mode_are_there(tmp_path: Path) -> None:
    target = tmp_path / "状态.json"
    write_atomic(target, b"old")
    write_atomic(target, b"new", mode=0o640)
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_a_failure_at_any_step_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    target = tmp_path / "state.json"
    write_atomic(target, b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable.os, call, fail)
    with pytest.raises(StoreError) as caught:
        write_atomic(target, b"new")
    monkeypatch.undo()
    assert "kernel's log" in caught.value.remedy
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state.json"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(durable.os, "write", lambda fd, data: real(fd, data[:3]))
    write_atomic(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "daemon's user"),
        (errno.EMFILE, "LimitNOFILE"),
    ],
)
def test_each_common_failure_has_its_remedy(number: int, remedy: str) -> None:
    error = store_error(OSError(number, os.strerror(number)), Path("/data"), "write")
    assert remedy in error.remedy
    assert "/data" in error.message


def test_no_file_is_none_and_a_huge_one_is_refused(tmp_path: Path) -> None:
    assert read_json_object(tmp_path / "a", version=1) is None
    (tmp_path / "a").write_bytes(b"x" * 20)
    with pytest.raises(StoreError, match="larger"):
        read_json_object(tmp_path / "a", version=1, max_bytes=10)


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(StoreError, match="cannot read"):
        read_json_object(tmp_path / "a", version=1)
