"""A fresh clone installs, and what is installed works from anywhere without the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import ROOT, environment
from tests.walk import steps_of, walk

pytestmark = [pytest.mark.fault, pytest.mark.promise("DOC-4")]

INSTALL_S = 400


@pytest.fixture(scope="module")
def box() -> Iterator[Path]:
    """An empty folder with a clone of what is committed here; short, because sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="hc-"))
    run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder / "clone"), cwd=folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def programs(box: Path) -> Path:
    """The `bin` of an environment into which the clone was installed as the README says; the clone is moved
    away afterwards, so that nothing can lean on it."""
    run(sys.executable, "-m", "venv", str(box / "venv"), cwd=box)
    copy = box / "source"
    shutil.copytree(box / "clone", copy)
    run(str(box / "venv/bin/pip"), "install", "--quiet", str(copy), cwd=box)
    shutil.rmtree(copy)
    return box / "venv" / "bin"


def test_what_pip_installs_needs_no_checkout(box: Path, programs: Path) -> None:
    program = str(programs / "hermesd")
    where = run(str(programs / "python"), "-c", "import hermesd; print(hermesd.__file__)", cwd=Path("/"))
    assert where.startswith(str(box / "venv"))
    assert run(program, "--version", cwd=Path("/")).startswith("hermesd ")
    shipped = Path(where.strip()).parent / "_shipped"
    assert (shipped / "systemd/hermesd.service").is_file(), "docs/operating.md installs the unit from there"
    assert (shipped / "systemd/sysusers.d/hermesd.conf").is_file()
    for shell in ("bash", "zsh", "fish"):
        assert "hermesd" in run(program, "completion", shell, cwd=Path("/"))
    address = f"unix:{box}/s"
    daemon = subprocess.Popen(
        [program, "serve", "--data-dir", str(box / "data"), "--listen", address],
        cwd="/",
        env=bare(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until_answers(program, address)
        tools = run(program, "ctl", "--address", address, "tools", "list", "--ready", cwd=Path("/"))
        assert {line.split(".")[0] for line in tools.splitlines() if " ready " in line} == {
            "store",
            "text",
            "time",
        }
        called = run(
            program,
            "ctl",
            "--address",
            address,
            "tools",
            "call",
            "text.count_stats",
            "text=心",
            cwd=Path("/"),
        )
        assert '"characters":1' in called
        completed = run(
            program,
            cwd=Path("/"),
            _HERMESD_COMPLETE="bash_complete",
            COMP_WORDS=f"hermesd ctl --address {address} tools show text.c",
            COMP_CWORD="6",
        )
        assert "text.count_stats" in completed
        run(program, "ctl", "--address", address, "stop", cwd=Path("/"))
        _, log = daemon.communicate(timeout=30)
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.communicate()
    assert daemon.returncode == 0, log


def test_the_readme_holds_for_what_pip_installed(programs: Path) -> None:
    walk(steps_of(ROOT / "README.md"), python=str(programs / "python"))


def test_make_demo_does_everything_in_a_fresh_clone(box: Path) -> None:
    told = run("make", "demo", cwd=box / "clone")
    assert "everything went as told" in told
    assert (box / "clone/.venv").is_dir()
    left = run("git", "status", "--porcelain", cwd=box / "clone")
    assert left == "", "nothing is left in the work tree that git does not ignore"


def bare(**more: str) -> dict[str, str]:
    """An environment in which nothing points at this checkout or at the tester's own hermesd."""
    kept = {key: value for key, value in environment().items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**kept, **more}


def run(*words: str, cwd: Path, **env: str) -> str:
    """The output of a command that must succeed."""
    ran = subprocess.run(
        words, cwd=cwd, env=bare(**env), capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    assert ran.returncode == 0, f"{' '.join(words)}: {ran.stdout[-2000:]}\n{ran.stderr[-4000:]}"
    return ran.stdout


def until_answers(program: str, address: str) -> None:
    deadline = time.monotonic() + 20
    words = [program, "ctl", "--address", address, "status"]
    while subprocess.run(words, env=bare(), cwd="/", capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline, "the daemon does not answer"
        time.sleep(0.2)
