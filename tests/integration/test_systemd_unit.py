"""The service unit that ships is one that systemd accepts."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).resolve().parent.parent.parent / "systemd"
INSTALLED = "/opt/hermesd/bin/hermesd"


def _unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((UNITS / "hermesd.service").read_text())
    return parser["Service"]


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is missing: apt-get install systemd")
        pytest.skip(f"{name} is not installed")
    return found


@pytest.mark.promise("OPS-9")
def test_systemd_accepts_the_unit_without_a_word(tmp_path: Path) -> None:
    program = tmp_path / "hermesd"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "hermesd.service"
    unit.write_text((UNITS / "hermesd.service").read_text().replace(INSTALLED, str(program)))
    done = subprocess.run(
        [_tool("systemd-analyze"), "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    about_ours = [line for line in (done.stdout + done.stderr).splitlines() if "hermesd" in line]
    assert (done.returncode, about_ours) == (0, [])


@pytest.mark.promise("OPS-9")
def test_the_unit_stops_no_earlier_than_a_drain_ends() -> None:
    unit = _unit()
    drain_timeout_s, close_timeout_s = 30, 5  # the defaults of server. and plugins.
    assert int(unit["TimeoutStopSec"]) >= drain_timeout_s + close_timeout_s + 5
    assert unit["KillMode"] == "mixed"


def test_the_unit_notifies_reloads_through_ctl_and_is_watched() -> None:
    """systemd#19300, systemd#37515: a synchronous ExecReload, with notifications of its own beside it."""
    unit = _unit()
    assert unit["Type"] == "notify"
    assert unit["ExecStart"] == f"{INSTALLED} serve"
    assert unit["ExecReload"] == f"{INSTALLED} ctl reload"
    assert int(unit["WatchdogSec"]) > 0
    assert unit["StateDirectory"] == unit["RuntimeDirectory"] == "hermesd"


def test_the_service_user_can_be_made() -> None:
    done = subprocess.run(
        [_tool("systemd-sysusers"), "--dry-run", str(UNITS / "sysusers.d/hermesd.conf")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
