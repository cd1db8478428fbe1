"""The data dir is private, and never used by a build that does not know it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hermesd.errors import StoreError, UnsafePathError
from hermesd.store.layout import DataDir


def test_a_new_data_dir_is_private_and_has_a_version(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "a" / "数据")
    data.prepare()
    data.prepare()
    for folder in (data.root, data.state, data.plugins, data.logs):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert data.version.read_text() == "1\n"


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.prepare()
    left = [folder / ".grants.json.0123.tmp" for folder in (data.root, data.state, data.plugins)]
    for each in left:
        each.write_text("half")
    data.prepare()
    assert not any(each.exists() for each in left)


def test_a_wider_mode_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    DataDir(tmp_path / "data").prepare()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_newer_layout_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("2\n")
    with pytest.raises(StoreError, match="newer hermesd"):
        DataDir(tmp_path).prepare()
    assert sorted(os.listdir(tmp_path)) == ["VERSION"]


@pytest.mark.parametrize("text", [b"", b"one", b"\xff\xfe", "٣".encode(), b"-1"])
def test_a_damaged_version_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "VERSION").write_bytes(text)
    with pytest.raises(StoreError, match="damaged"):
        DataDir(tmp_path).prepare()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreError, match="data"):
        DataDir(tmp_path / "data").prepare()


def test_another_users_data_dir_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UnsafePathError, match="another user"):
        DataDir(tmp_path).prepare()
