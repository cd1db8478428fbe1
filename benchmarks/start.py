"""Whole processes: start to ready with 1,000 tools, memory at rest, and the command line."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.figure import Figure, median
from benchmarks.plugins import many_tools, write_many
from tests.harness import ROOT, Daemon, Home, environment, eventually

MANY, STARTS, REST_S = 1000, 3, 10.0
READY = re.compile(r"daemon_ready .*? (\d+) tools")
COMMANDS = 15
#: Compiled modules are kept, as those of an installed package are.
INSTALLED = {"PYTHONDONTWRITEBYTECODE": ""}


def run() -> list[Figure]:
    """Each on a home of its own."""
    folders = _with_home(_folders)
    one = _with_home(lambda home: _starts(home, lambda: _write_one(home), f"one plugin with {MANY} tools"))
    return [*folders, *one, *_with_home(_at_rest), *_with_home(_commands)]


def _with_home(measure: Callable[[Home], list[Figure]]) -> list[Figure]:
    home = Home()
    try:
        return measure(home)
    finally:
        home.remove()


def _folders(home: Home) -> list[Figure]:
    files = _bare_files(home)
    fresh, warm = _starts(home, lambda: write_many(home, MANY), f"{MANY} plugin folders")
    own = Figure(
        "the fresh one, less what the file system needs",
        fresh.value - files.value,
        "s",
        at_most=2,
        setting="a fresh data dir gets a copy of every plugin; the floor is making as many files beside it",
    )
    return [replace(fresh, at_most=None), files, own, warm]


def _write_one(home: Home) -> None:
    home.plugin("many", many_tools(MANY))
    home.follow("many")


def _starts(home: Home, write: Callable[[], object], what: str) -> list[Figure]:
    write()
    fresh = _seconds_to_ready(home)
    warm = median([_seconds_to_ready(home) for _ in range(STARTS)])
    setting = f"process start until all {MANY} tools are ready; {STARTS} warm starts"
    return [
        Figure(f"start to ready, {what}, fresh data dir", fresh, "s", at_most=2, setting=setting),
        Figure(f"start to ready, {what}, warm", warm, "s", at_most=2),
    ]


def _bare_files(home: Home) -> Figure:
    """What the file system needs for as many files as a fresh data dir gets.

    With ext4 up to ten times as much where a tree was removed in the last minutes: it passes over inodes
    that were deleted just now.
    """
    bare = home.path / "bare"
    bare.mkdir()
    began = time.perf_counter()
    for index in range(MANY):
        folder = bare / str(index)
        folder.mkdir()
        for name in ("plugin.yaml", "main.py"):
            (folder / name).write_bytes(b"x" * 200)
    seconds = time.perf_counter() - began
    return Figure(f"making {MANY} folders of 2 files there", seconds, "s", setting="the file system alone")


def _seconds_to_ready(home: Home) -> float:
    home.log.write_bytes(b"")
    began = time.perf_counter()
    daemon = Daemon(home, env=INSTALLED)
    try:
        while (found := READY.search(daemon.log_text())) is None:
            if daemon.process.poll() is not None:
                raise RuntimeError(f"the daemon ended:\n{daemon.log_text()[-4000:]}")
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        if int(found[1]) < MANY:  # slower than the commit window: the rest arrives after the first pass
            with daemon.client() as client:
                eventually(lambda: client.get_status().tools["ready"] >= MANY, 60, "all tools")
            seconds = time.perf_counter() - began
        return seconds
    finally:
        daemon.stop()


def _at_rest(home: Home) -> list[Figure]:
    """A daemon without any configuration: the bundled plugins alone."""
    home.replace(home.config, f"data_dir: {home.data}\nserver: {{listen: ['{home.address}']}}\n")
    daemon = Daemon(home, env=INSTALLED)
    try:
        eventually(lambda: READY.search(daemon.log_text()), what="the daemon")
        time.sleep(REST_S)
        text = Path(f"/proc/{daemon.pid}/smaps_rollup").read_text(encoding="ascii")
    finally:
        daemon.stop()
    megabytes = {key: int(kib) / 1024 for key, kib in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    setting = f"the bundled plugins, {REST_S:g} s after ready"
    return [
        Figure("idle: resident memory", megabytes["Rss"], "MiB", at_most=70, setting=setting),
        Figure("idle: of that its own (anonymous)", megabytes["Anonymous"], "MiB"),
    ]


def _commands(home: Home) -> list[Figure]:
    daemon = Daemon(home).wait_ready()
    hermesd = [sys.executable, "-m", "hermesd", "ctl"]
    commands: list[tuple[str, list[str], float | None]] = [
        ("python -c pass", [sys.executable, "-c", "pass"], None),
        ("hermesd ctl --help", [*hermesd, "--help"], 150),
        ("hermesd ctl status", [*hermesd, "--address", home.address, "status"], 250),
    ]
    try:
        taken: list[list[float]] = [[] for _ in commands]
        for _ in range(COMMANDS + 1):
            for index, (_, words, _) in enumerate(commands):
                taken[index].append(_process(words))
    finally:
        daemon.stop()
    setting = f"whole processes, {COMMANDS} rounds, interleaved"
    return [
        Figure(name, median(seconds[1:]) * 1000, "ms", at_most=bound, setting=setting)
        for (name, _, bound), seconds in zip(commands, taken, strict=True)
    ]


def _process(words: list[str]) -> float:
    env = {**environment(), **INSTALLED}
    began = time.perf_counter()
    subprocess.run(words, env=env, cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - began
