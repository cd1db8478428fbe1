"""Who can replace a socket, and the group that may use it."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from hermesd.access import socket_access
from hermesd.access.socket_access import folder_fault, group_id
from hermesd.errors import PreconditionError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "运行 run"
    made.mkdir(mode=0o700)
    return made


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777, 0o1775])
def test_a_folder_in_which_nobody_else_can_rename_is_safe(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert folder_fault(folder) is None


@pytest.mark.promise("API-15")
def test_a_folder_that_everybody_can_write_to_is_fatal(folder: Path) -> None:
    folder.chmod(0o777)
    fault = folder_fault(folder)
    assert fault is not None
    assert fault.fatal
    assert fault.remedy == f"chmod go-w '{folder}'"


@pytest.mark.promise("API-15")
def test_a_shared_group_or_another_owner_is_told_and_not_fatal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.chmod(0o770)
    monkeypatch.setattr(socket_access, "has_private_group", lambda *_: False)
    fault = folder_fault(folder)
    assert fault is not None
    assert not fault.fatal
    monkeypatch.setattr(socket_access, "has_private_group", lambda *_: True)
    assert folder_fault(folder) is None
    if os.geteuid() != 0:
        foreign = folder_fault(folder, uid=os.geteuid() + 1)
        assert foreign is not None
        assert not foreign.fatal


def test_a_group_is_a_name_or_a_number() -> None:
    assert group_id("12") == 12
    assert group_id(grp.getgrgid(0).gr_name) == 0
    with pytest.raises(PreconditionError, match="no group 'nobody of that name'"):
        group_id("nobody of that name")
