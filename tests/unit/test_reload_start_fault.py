"""What would keep a daemon from starting here is seen by looking."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermesd.config.load import load_configuration
from hermesd.errors import Rejection
from hermesd.reload.start_fault import start_faults
from hermesd.store.layout import DataDir

pytestmark = pytest.mark.promise("CLI-12")


def faults(tmp_path: Path, text: str, root: Path) -> list[Rejection]:
    file = tmp_path / "hermesd.yaml"
    file.write_text(text, encoding="utf-8")
    return list(start_faults(load_configuration(file, environ={}), DataDir(root)))


def test_what_can_be_made_or_used_is_no_fault(tmp_path: Path) -> None:
    assert faults(tmp_path, "", tmp_path / "深" / "data") == []
    DataDir(tmp_path / "data").prepare()
    assert faults(tmp_path, "", tmp_path / "data") == []


def test_a_group_that_does_not_exist_is_named_with_its_place(tmp_path: Path) -> None:
    [fault] = faults(tmp_path, "server:\n  socket_group: no such group\n", tmp_path / "data")
    assert (fault.name, fault.line) == ("server.socket_group", 2)
    assert "'no such group'" in fault.reason


def test_a_data_dir_that_is_a_file_or_a_newer_build_s_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    [fault] = faults(tmp_path, "", tmp_path / "file" / "data")
    assert "no directory" in fault.reason
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "VERSION").write_text("999\n")
    [fault] = faults(tmp_path, "data_dir: data\n", tmp_path / "data")
    assert "newer" in fault.reason
    assert fault.line == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_dir_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    [fault] = faults(tmp_path, "", Path("/proc/data"))
    assert "cannot be made" in fault.reason


def test_no_place_at_all_is_named(tmp_path: Path) -> None:
    (tmp_path / "hermesd.yaml").write_text("")
    configuration = load_configuration(tmp_path / "hermesd.yaml", environ={})
    assert [each.name for each in start_faults(configuration, None)] == ["data_dir"]
