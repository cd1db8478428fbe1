"""What keeps the daemon from starting is one clear line."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

import hermesd.daemon
from hermesd.daemon.options import ServeOptions
from hermesd.errors import LockedError


def test_a_python_without_a_global_lock_is_refused_with_what_to_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: 1 if name == "Py_GIL_DISABLED" else None)
    assert hermesd.daemon.run(ServeOptions()) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "Python 3.11 to 3.14" in said


@pytest.mark.promise("SEE-2")
def test_what_a_task_of_the_daemon_refuses_is_told_like_any_other_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(_: ServeOptions) -> int:
        held = LockedError("127.0.0.1:1 is in use by process 7", remedy="stop it")
        raise ExceptionGroup("tasks", [ExceptionGroup("inner", [held])])

    monkeypatch.setattr(hermesd.daemon, "_serve", fail)
    monkeypatch.setattr(hermesd.daemon, "configure", lambda *_: None)
    assert hermesd.daemon.run(ServeOptions()) == 1
    assert capsys.readouterr().err == "hermesd: 127.0.0.1:1 is in use by process 7 (stop it)\n"

    def break_down(_: ServeOptions) -> int:
        raise ExceptionGroup("tasks", [ZeroDivisionError()])

    monkeypatch.setattr(hermesd.daemon, "_serve", break_down)
    with pytest.raises(ExceptionGroup):
        hermesd.daemon.run(ServeOptions())
