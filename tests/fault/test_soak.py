"""Hours of ordinary life in one process: nothing may grow. `make soak`, for SOAK_MINUTES (default 20)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import psutil
import pytest

from hermesd.client import ClientError
from tests.harness import Daemon, Home, eventually
from tests.plugins import word

MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
CALLERS = 4
#: What the allocator and caches may still take after the warm-up.
SLACK_BYTES = 16 * 1024 * 1024


@dataclass
class Figures:
    """What must stay flat."""

    rss: int
    fds: int
    threads: int
    children: int

    @classmethod
    def of(cls, daemon: Daemon) -> Figures:
        process = psutil.Process(daemon.pid)
        return cls(
            process.memory_info().rss, process.num_fds(), process.num_threads(), len(daemon.descendants())
        )


@pytest.mark.soak
def test_memory_threads_and_descriptors_stay_flat_for_as_long_as_it_runs(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    """hermes-agent#18438, #58817: eight gigabytes within an hour."""
    home.follow("a", "b")
    home.configure(trusted={"a": {"follow": True}, "w": {"follow": True, "isolation": "process"}})
    home.plugin("a", word("0"))
    home.plugin("w", word("0"))
    daemon = serve()
    stop = threading.Event()
    lost: list[str] = []
    done = [0] * CALLERS

    def call(index: int) -> None:
        while not stop.is_set():
            try:
                with daemon.client() as client:
                    for _ in range(200):
                        result = client.call_tool("w.say_word" if index % 2 else "a.say_word")
                        done[index] += 1
                        # A worker that was just killed answers UNAVAILABLE; nothing else may fail.
                        if not result.ok and (index % 2 == 0 or result.code != "UNAVAILABLE"):
                            lost.append(f"{result.tool}: {result.code} {result.message}")
            except ClientError as error:
                lost.append(str(error))

    threads = [threading.Thread(target=call, args=(index,), daemon=True) for index in range(CALLERS)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + MINUTES * 60
    settled: Figures | None = None
    rounds = 0
    while time.monotonic() < until or settled is None:
        rounds += 1
        home.plugin("a", word(str(rounds)))
        home.plugin("w", word(str(rounds)))
        eventually(partial(_says, daemon, str(rounds)), 20, f"round {rounds} to serve")
        if rounds % 5 == 0:
            home.replace(home.plugins / "a" / "a.py", "def broken(:\n")
            daemon.ctl("reload")
        worker = daemon.plugin("w")
        if rounds % 7 == 0 and worker is not None and worker.pid:
            os.kill(worker.pid, signal.SIGKILL)
        if rounds == 20:
            settled = Figures.of(daemon)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert lost == []
    last = eventually(lambda: _calm(daemon, settled), 30, "the figures to come down")
    print(f"{rounds} rounds, {sum(done)} calls: {settled} then {last}")
    assert daemon.stop() == 0


def _says(daemon: Daemon, wanted: str) -> bool:
    return bool(daemon.call("a.say_word") == wanted)


def _calm(daemon: Daemon, settled: Figures) -> Figures | None:
    """The figures once what was replaced has drained; None while they are above what they were."""
    now = Figures.of(daemon)
    flat = (
        now.rss <= settled.rss + SLACK_BYTES
        and now.fds <= settled.fds + 4
        and now.threads <= settled.threads + 4
        and now.children <= settled.children + 1
    )
    return now if flat else None
