"""A no-op call through the whole path, beside the echo: latency of one caller, throughput of 32."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import uvloop

from benchmarks.echo import Echo
from benchmarks.figure import Figure, median, spread
from benchmarks.load import PAYLOAD, Call, Wire, interleaved, per_second
from benchmarks.plugins import NOOP, trust
from tests.harness import Daemon, Home

ROUNDS, COUNT = 20, 150
CALLERS, BURST, BURSTS = 32, 3200, 5
#: Tool and the bound of its p50 beside the echo. An async tool in a worker takes one hop more than a sync
#: one, to the plugin's own loop, and has no bound.
TOOLS: dict[str, tuple[str, float | None]] = {
    "in process, sync": ("noop.say_sync", 1.6),
    "in process, async": ("noop.say_async", 1.6),
    "worker process, sync": ("noopw.say_sync", 1.8),
    "worker process, async": ("noopw.say_async", None),
}
ONE = f"1 caller, back to back, {ROUNDS} rounds of {COUNT} calls, interleaved"
MANY = f"{CALLERS} callers, back to back, {BURSTS} rounds of {BURST} calls, interleaved"


def run() -> list[Figure]:
    """Start the daemon and the echo, and measure both from one client process."""
    home = Home()
    try:
        trust(home, noop="inprocess", noopw="process")
        home.plugin("noop", NOOP)
        home.plugin("noopw", NOOP)
        daemon = Daemon(home).wait_ready()
        try:
            echo = Echo(home.path, _answer(daemon))
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    return runner.run(_measure(str(home.socket), str(echo.socket)))
            finally:
                echo.stop()
        finally:
            daemon.stop()
    finally:
        home.remove()


def _answer(daemon: Daemon) -> bytes:
    """What the daemon answers to one call: the echo's answers have its size."""
    with daemon.client() as client:
        return client.call_tool("noop.say_sync", {"text": PAYLOAD}).response.SerializeToString()


async def _measure(daemon: str, echo: str) -> list[Figure]:
    wire = Wire(daemon, echo)
    try:
        calls = [wire.echo("noop.say_sync"), *(wire.tool(name) for name, _ in TOOLS.values())]
        return [*await _latency(calls), *await _throughput(calls)]
    finally:
        await wire.close()


async def _latency(calls: Sequence[Call]) -> list[Figure]:
    """The echo comes first in `calls`. A ratio is taken within each round; its median is the figure."""
    floor, *measured = await interleaved(calls, ROUNDS, COUNT)
    figures = spread("echo", [second for each in floor for second in each], ONE)
    for (name, (_, bound)), rounds in zip(TOOLS.items(), measured, strict=True):
        figures += spread(name, [second for each in rounds for second in each])
        ratio = median([median(mine) / median(peer) for mine, peer in zip(rounds, floor, strict=True)])
        figures.append(Figure(f"{name}: p50 beside the echo", ratio, "×", at_most=bound))
    return figures


async def _throughput(calls: Sequence[Call]) -> list[Figure]:
    rates: list[list[float]] = [[] for _ in calls]
    for _ in range(BURSTS):
        for index, call in enumerate(calls):
            rates[index].append(await per_second(call, CALLERS, BURST))
    floor, *measured = rates
    figures = [Figure("echo: throughput", median(floor), "calls/s", setting=MANY)]
    for name, mine in zip(TOOLS, measured, strict=True):
        figures.append(Figure(f"{name}: throughput", median(mine), "calls/s"))
        share = median([one / peer for one, peer in zip(mine, floor, strict=True)])
        figures.append(Figure(f"{name}: throughput beside the echo", share, "×", at_least=0.5))
    return figures
