"""Another tool's latency while a worker-process plugin burns a core."""

from __future__ import annotations

import asyncio

import uvloop

from benchmarks.echo import Echo
from benchmarks.figure import Figure, percentile
from benchmarks.load import PAYLOAD, Wire, one_by_one
from benchmarks.plugins import BURNER, NOOP, trust
from tests.harness import Daemon, Home

CALLS, SPACING_S = 1000, 0.002
SETTING = f"1 caller, {CALLS} calls, {SPACING_S * 1000:g} ms between them; the burner is a process of its own"


def run() -> list[Figure]:
    """One plugin burns in a worker, another is called; the echo is called meanwhile too, as the floor."""
    home = Home()
    try:
        trust(home, noop="inprocess", burner="process")
        home.plugin("noop", NOOP)
        home.plugin("burner", BURNER)
        daemon = Daemon(home).wait_ready()
        try:
            with daemon.client() as client:
                answer = client.call_tool("noop.say_sync", {"text": PAYLOAD}).response.SerializeToString()
            echo = Echo(home.path, answer)
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    return runner.run(_measure(str(home.socket), str(echo.socket)))
            finally:
                echo.stop()
        finally:
            daemon.stop()
    finally:
        home.remove()


async def _measure(daemon: str, echo: str) -> list[Figure]:
    wire = Wire(daemon, echo)
    call, floor = wire.tool("noop.say_sync"), wire.echo("noop.say_sync")
    try:
        await one_by_one(call, 200)
        quiet = await one_by_one(call, CALLS, SPACING_S)
        burning = asyncio.create_task(_burn(wire))
        await asyncio.sleep(1.0)
        mine: list[float] = []
        peer: list[float] = []
        for _ in range(5):
            mine += await one_by_one(call, CALLS // 5, SPACING_S)
            peer += await one_by_one(floor, CALLS // 5, SPACING_S)
        if burning.done():
            raise RuntimeError("the burner ended too early")
        burning.cancel()
    finally:
        await wire.close()
    return [
        Figure("other tool, nothing burns: p99", percentile(quiet, 0.99) * 1000, "ms"),
        Figure("echo, a worker burns: p99", percentile(peer, 0.99) * 1000, "ms"),
        Figure(
            "other tool, a worker burns: p99",
            percentile(mine, 0.99) * 1000,
            "ms",
            at_most=10,
            setting=SETTING,
        ),
    ]


async def _burn(wire: Wire) -> None:
    await wire.tool("burner.burn_core", "25")()
