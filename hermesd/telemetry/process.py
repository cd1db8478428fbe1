"""What the daemon and its children cost: memory, processor, descriptors, threads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """One process. `cpu_percent` is of one processor, since the previous sample (0 at the first)."""

    name: str
    pid: int
    rss_bytes: int
    cpu_percent: float
    fds: int
    threads: int


class ProcessTable:
    """Samples processes by name; remembers each between samples, so that its processor time is a rate.

    A process id that was used again by another process counts as a new one.
    """

    def __init__(self) -> None:
        self._known: dict[int, psutil.Process] = {}

    def sample(self, children: Mapping[str, int]) -> list[ProcessFigures]:
        """The figures of the daemon itself, named "hermesd", then of each child that still exists."""
        wanted = {"hermesd": os.getpid(), **children}
        self._known = {pid: known for pid, known in self._known.items() if pid in wanted.values()}
        figures = (self._figures(name, pid) for name, pid in wanted.items())
        return [each for each in figures if each is not None]

    def _figures(self, name: str, pid: int) -> ProcessFigures | None:
        try:
            process = self._known.get(pid)
            if process is None or not process.is_running():
                process = psutil.Process(pid)
                process.cpu_percent()  # the first answer has no previous sample and starts the interval
                self._known[pid] = process
            with process.oneshot():
                return ProcessFigures(
                    name=name,
                    pid=pid,
                    rss_bytes=process.memory_info().rss,
                    cpu_percent=process.cpu_percent(),
                    fds=process.num_fds(),
                    threads=process.num_threads(),
                )
        except (psutil.Error, OSError):  # it ended, or belongs to another user now
            self._known.pop(pid, None)
            return None


def resident_bytes(pid: int) -> int:
    """The resident set of a process; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
