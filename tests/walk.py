"""A page of the documentation as a session: its `sh` blocks run in order in one shell, in an empty home.

A `text` block after a `sh` block is what it prints. Lines are compared in order; `…` stands for anything,
alone on a line for any number of lines. A block under `<!-- by hand -->` is not run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.harness import ROOT, environment

_BLOCK = re.compile(
    r"(?P<by_hand><!-- by hand[^\n]*-->\n)?```sh\n(?P<command>.*?)^```\n(?:```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Step:
    """One block: its line in the page, its commands, and what the page shows of the output."""

    line: int
    command: str
    shown: str
    by_hand: bool


def steps_of(page: Path) -> list[Step]:
    """All `sh` blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Step(
            text.count("\n", 0, match.start("command")),
            match["command"],
            match["shown"] or "",
            bool(match["by_hand"]),
        )
        for match in _BLOCK.finditer(text)
    ]


def differs(shown: str, printed: str) -> str:
    """Why `printed` is not what is shown; "" when it is. Blank lines do not count."""
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()]
    wanted = [line.rstrip() for line in shown.splitlines() if line.strip()]
    at = 0
    anywhere = False
    for want in wanted:
        if want == "…":
            anywhere = True
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in re.split("…", want)))
        places = range(at, len(lines)) if anywhere else range(at, min(at + 1, len(lines)))
        found = next((place for place in places if pattern.fullmatch(lines[place])), None)
        if found is None:
            return f"the page shows {want!r}; from here on was printed:\n" + "\n".join(lines[at:])
        at, anywhere = found + 1, False
    if wanted and not anywhere and at < len(lines):
        return "the page does not show:\n" + "\n".join(lines[at:])
    return ""


def walk(steps: list[Step], python: str = "") -> None:
    """Run the steps; AssertionError names the first that fails, or prints something else than is shown."""
    base = Path(tempfile.mkdtemp(prefix="hw-"))  # short: sockets lie below it
    try:
        _walk([step for step in steps if not step.by_hand], base, python)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _walk(steps: list[Step], base: Path, python: str) -> None:
    (base / "home").mkdir()
    script = ["set -e", f"cd {base / 'home'}"]
    for number, step in enumerate(steps):
        (base / f"{number}.sh").write_text(step.command, encoding="utf-8")
        script.append(f". {base}/{number}.sh > {base}/{number}.out 2>&1; echo ended > {base}/{number}.ok")
    (base / "all.sh").write_text("\n".join(script) + "\n", encoding="utf-8")
    kept = {key: value for key, value in environment().items() if key not in ("HOME", "PYTHONPATH")}
    env = {**kept, "HOME": str(base / "home"), "PATH": f"{_programs(base, python)}:{os.environ['PATH']}"}
    shell = subprocess.Popen(
        ["bash", "--noprofile", "--norc", str(base / "all.sh")],
        env=env,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    try:
        shell.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        pass  # told below: the step that hangs has not ended
    finally:
        _end(shell)
    for number, step in enumerate(steps):
        out = base / f"{number}.out"
        printed = out.read_text(encoding="utf-8", errors="replace") if out.exists() else "(not begun)"
        ended = (base / f"{number}.ok").exists()
        assert ended, f"line {step.line}: it failed or hung:\n{step.command}\nprinted:\n{printed}"
        if step.shown:
            why = differs(step.shown, printed)
            assert not why, f"line {step.line}: {why}\n\nof:\n{step.command}"


def _programs(base: Path, python: str) -> Path:
    """`hermesd` and `python` of this checkout, or those of an environment, as first on the path."""
    if python:
        return Path(python).parent
    folder = base / "bin"
    folder.mkdir()
    for name, words in (("python", ""), ("hermesd", "-P -m hermesd ")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {words}"$@"\n')
        program.chmod(0o755)
    return folder


def _end(shell: subprocess.Popen[bytes]) -> None:
    """The shell and what it left in the background."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(shell.pid, sign)
        except ProcessLookupError:
            break
        try:
            shell.wait(10)
        except subprocess.TimeoutExpired:
            continue
    shell.wait()
