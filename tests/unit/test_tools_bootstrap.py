"""The bootstrap installs what is missing where it may, and otherwise says exactly what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def _program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A PATH of our own, with the few programs that the script itself needs."""
    for name in ("bash", "dirname", "touch", "rm"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return tmp_path


def _bootstrap(machine: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(machine / "bash"), str(ROOT / "tools/bootstrap"), *arguments],
        env={"PATH": str(machine), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_who_may_not_install_is_told_the_exact_command(machine: Path) -> None:
    _program(machine, "id", "echo 1000")
    done = _bootstrap(machine, "system", "bash=bash", "absent-program=some-package", "other=another")
    assert done.returncode == 1
    assert "apt-get install -y --no-install-recommends some-package another" in done.stderr


def test_root_installs_what_is_missing_and_only_that(machine: Path) -> None:
    _program(machine, "id", "echo 0")
    _program(machine, "apt-get", f'echo "$@" >> {machine}/asked')
    assert _bootstrap(machine, "system", "bash=bash").returncode == 0
    assert not (machine / "asked").exists()
    assert _bootstrap(machine, "system", "bash=bash", "absent-program=some-package").returncode == 0
    assert (machine / "asked").read_text().splitlines() == [
        "update -qq",
        "install -y -qq --no-install-recommends some-package",
    ]


def test_a_missing_venv_module_names_the_package_of_that_python(machine: Path) -> None:
    _program(machine, "id", "echo 1000")
    _program(
        machine, "python3", 'case "$2" in *ensurepip*) exit 1;; *version_info*) echo 3.12;; *) exit 0;; esac'
    )
    done = _bootstrap(machine, "venv", str(machine / "venv"))
    assert done.returncode == 1
    assert "apt-get install -y --no-install-recommends python3.12-venv" in done.stderr


def test_a_python_that_was_chosen_and_does_not_fit_is_refused_not_replaced(machine: Path) -> None:
    _program(machine, "old-python", "exit 1")
    _program(machine, "python3", "exit 0")
    done = _bootstrap(machine, "venv", str(machine / "venv"), PYTHON="old-python")
    assert done.returncode == 1
    assert "PYTHON=old-python is no Python 3.11 or newer" in done.stderr


def test_without_npm_buf_is_refused_with_the_reason(machine: Path) -> None:
    if (ROOT / "node_modules").exists():
        pytest.skip("buf is installed in this checkout")
    done = _bootstrap(machine, "buf")
    assert done.returncode == 1
    assert "npm is missing" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("venv",)])
def test_a_wrong_command_line_is_told_the_right_one(machine: Path, arguments: tuple[str, ...]) -> None:
    done = _bootstrap(machine, *arguments)
    assert done.returncode == 1
    assert "usage: tools/bootstrap" in done.stderr


def test_help_lists_every_target_that_people_use() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    done = subprocess.run([make, "-C", str(ROOT)], capture_output=True, text=True, timeout=60, check=False)
    for target in ("venv", "quick", "test", "fault", "soak", "bench", "demo", "run", "clean", "wheel"):
        assert f"make {target} " in done.stdout, os.linesep.join((done.stdout, done.stderr))
