"""Run benchmarks: a table on the standard output, JSON in benchmarks/results/."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import calls, flood, neighbour, path, reload, start
from benchmarks.figure import Figure, table
from benchmarks.machine import machine

ALL: dict[str, Callable[[], list[Figure]]] = {
    "path": path.run,
    "calls": calls.run,
    "flood": flood.run,
    "neighbour": neighbour.run,
    "reload": reload.run,
    "start": start.run,
}
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """0; with --strict 1 when a figure misses its bound."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ALL)}; default: all")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bound is missed")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in ALL]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(ALL)}")
    missed = [
        figure for name in asked.names or ALL for figure in _measured(name) if figure.verdict == "MISSED"
    ]
    for figure in missed:
        print(f"missed: {figure.name} is {figure.value:.3f} {figure.unit}, bound {figure.bound}")
    return 1 if missed and asked.strict else 0


def _measured(name: str) -> list[Figure]:
    before = machine()
    began = time.monotonic()
    figures = ALL[name]()
    after = machine()
    load = f"load {before['load_1m']} before, {after['load_1m']} after"
    print(f"{name}: {time.monotonic() - began:.0f} s, {before['cores']} cores, {load}")
    print(table(figures), flush=True)
    print()
    RESULTS.mkdir(exist_ok=True)
    document = {
        "benchmark": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": before,
        "load_1m_after": after["load_1m"],
        "figures": [each.as_json() for each in figures],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return figures


if __name__ == "__main__":
    sys.exit(main())
