"""Where it was measured: without it a figure says nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def machine() -> dict[str, object]:
    """Processor, cores, memory, Python, the libraries that matter, and how busy the machine is."""
    one, five, _ = os.getloadavg()
    return {
        "processor": _first("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "grpcio": version("grpcio"),
        "uvloop": version("uvloop"),
        "load_1m": round(one, 2),
        "load_5m": round(five, 2),
    }


def _first(path: str, key: str) -> str:
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return platform.machine()
