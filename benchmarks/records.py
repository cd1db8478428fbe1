"""What records cost a call, and how many a second the thread and the disk behind them keep up with."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.figure import Figure, percentile
from hermesd.clock import SystemClock, uuid7
from hermesd.config.load import load_configuration
from hermesd.daemon.recording import Recording
from hermesd.model.call import Caller, CallRequest, Code, Outcome, Result
from hermesd.model.record import CallFilter
from hermesd.serving.catalogue import Catalogue
from hermesd.serving.course import Course
from hermesd.serving.envelope import envelope
from hermesd.store.layout import DataDir
from hermesd.telemetry.event import EventLog

RATE, SECONDS = 5_000, 4
TICK_S = 0.01
OPERATOR = Caller("operator", "operator")


def run() -> list[Figure]:
    """Feed ended calls at a steady rate and look what the loop felt of it."""
    sys.setswitchinterval(0.001)  # as the daemon does
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_measure(Path(directory)))


async def _measure(directory: Path) -> list[Figure]:
    small = await _flood(directory / "small", "small", _arguments(1), RATE * 0.9)
    return small + await _flood(directory / "large", "2 KiB", _arguments(30), None)


async def _flood(directory: Path, name: str, arguments: str, at_least: float | None) -> list[Figure]:
    """Only the small ones have bounds: what a whole 2 KiB a side costs is looked through, not promised."""
    clock = SystemClock()
    layout = DataDir(directory)
    layout.prepare()
    configuration = load_configuration(None, environ={}, overrides={})
    dropped: list[int] = []
    recording = Recording(
        layout,
        layout.logs,
        configuration=lambda: configuration,
        events=EventLog(clock),
        clock=clock,
        dropped=dropped.append,
    )
    takes: list[float] = []
    late: list[float] = []
    began = time.perf_counter()
    try:
        for tick in range(int(SECONDS / TICK_S)):
            due = began + tick * TICK_S
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            late.append(max(0.0, time.perf_counter() - due))
            for _ in range(int(RATE * TICK_S)):
                course, result = _ended(clock, arguments)
                before = time.perf_counter()
                recording.take(course, result)
                takes.append(time.perf_counter() - before)
        fed = time.perf_counter() - began
        stats = await recording.stats(OPERATOR, CallFilter())
        settled = time.perf_counter() - began - fed
    finally:
        recording.close(10.0)
    setting = f"{RATE}/s for {SECONDS} s, {len(arguments)} characters a side"
    kept = stats.calls / (fed + settled)
    must = at_least is not None
    return [
        Figure(f"records, {name}: kept", kept, "/s", at_least=at_least, setting=setting),
        Figure(f"records, {name}: dropped", sum(dropped), "", at_most=0 if must else None),
        Figure(f"records, {name}: on disk after the last", settled, "s", at_most=1.0 if must else None),
        Figure(f"records, {name}: cost of a call p50", percentile(takes, 0.5) * 1e6, "µs"),
        Figure(f"records, {name}: the loop was late p99", percentile(late, 0.99) * 1e3, "ms"),
    ]


def _arguments(rows: int) -> str:
    return json.dumps({"rows": [{"id": each, "text": "some words about an order"} for each in range(rows)]})


def _ended(clock: SystemClock, arguments: str) -> tuple[Course, Result]:
    request = CallRequest("orders.read_order", arguments, uuid7(clock), OPERATOR)
    now = clock.monotonic()
    course = Course(request, None, now, Catalogue.empty())
    return course, envelope(course, Outcome(Code.OK, arguments), now + 0.001)
