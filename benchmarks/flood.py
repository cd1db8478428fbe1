"""An idle tool's latency while a hundred others are flooded beyond their limits.

The flood comes from a process of its own: `python -m benchmarks.flood SOCKET`. Each flooded tool has twice as
many callers as places, each of which calls again as soon as it is answered, so that its places are always
taken and its queue is never empty.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import sys

import grpc
import uvloop

from benchmarks.figure import Figure, percentile
from benchmarks.load import CALL_TOOL, Call, Wire, one_by_one, request_for
from benchmarks.plugins import NOOP, flooded_tools, trust
from hermesd.api.v1 import tool_pb2
from tests.harness import ROOT, Daemon, Home, environment, eventually

PLUGINS, TOOLS, PLACES, SECONDS = 10, 10, 4, 1.0
CALLERS, CONNECTIONS = 2 * PLACES, 10
CALLS, SPACING_S, TURNS = 400, 0.004, 4
SETTING = (
    f"1 caller, {TURNS} turns of {CALLS} calls without and with the flood, {SPACING_S * 1000:g} ms between "
    f"them; the flood: {PLUGINS * TOOLS} async tools of {PLUGINS} plugins, {PLACES} places each, {CALLERS} "
    f"callers each, {SECONDS:g} s ± 50 % a call"
)


def run() -> list[Figure]:
    """Turn by turn without and with the flood: a drift of the machine cancels out."""
    home = Home()
    try:
        names = [f"flooded{number}" for number in range(PLUGINS)]
        trust(home, noop="inprocess", **dict.fromkeys(names, "inprocess"))
        home.plugin("noop", NOOP)
        for name in names:
            home.plugin(name, flooded_tools(TOOLS, PLACES))
        daemon = Daemon(home).wait_ready()
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(_measure(daemon))
        finally:
            daemon.stop()
    finally:
        home.remove()


async def _measure(daemon: Daemon) -> list[Figure]:
    wire = Wire(str(daemon.home.socket))
    call, waits = _noting(wire.tool("noop.say_async"))
    quiet: list[list[float]] = []
    flooded: list[list[float]] = []
    rates: list[float] = []
    try:
        await one_by_one(call, 200)
        for _ in range(TURNS):
            quiet.append(await one_by_one(call, CALLS, SPACING_S))
            flood = _Flood(daemon)
            try:
                began, before = asyncio.get_running_loop().time(), daemon.status().calls.total
                flooded.append(await one_by_one(call, CALLS, SPACING_S))
                flood.insist()
                seconds = asyncio.get_running_loop().time() - began
                rates.append((daemon.status().calls.total - before - CALLS) / seconds)
            finally:
                flood.stop()
    finally:
        await wire.close()
    ratios = [
        percentile(with_it, 0.99) / percentile(without, 0.99)
        for without, with_it in zip(quiet, flooded, strict=True)
    ]
    return [
        Figure("flood: calls that end", statistics.median(rates), "/s"),
        *_spread("idle tool, no flood", quiet),
        *_spread("idle tool, flood", flooded),
        Figure("idle tool: longest wait for a place", max(waits), "ms", at_most=0),
        Figure("idle tool: p99 in the flood", statistics.median(ratios), "×", at_most=2, setting=SETTING),
    ]


def _noting(call: Call) -> tuple[Call, list[float]]:
    """The call, and a list that gets how long each waited for a place, in milliseconds."""
    waits: list[float] = []

    async def noting() -> tool_pb2.CallToolResponse:
        answer = await call()
        waits.append(answer.result.queued_ms)
        return answer

    return noting, waits


def _spread(name: str, turns: list[list[float]]) -> list[Figure]:
    return [
        Figure(
            f"{name}: p{share * 100:.0f}",
            statistics.median(percentile(turn, share) for turn in turns) * 1000,
            "ms",
        )
        for share in (0.5, 0.99)
    ]


class _Flood:
    """The process that floods; it has begun when every tool is full and has calls that wait."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.flood", str(daemon.home.socket)], env=environment(), cwd=ROOT
        )
        eventually(self._full, timeout_s=30.0, what="the flood")

    def insist(self) -> None:
        """RuntimeError when some tool is not full, or nobody waits for it."""
        if not self._full():
            raise RuntimeError("the flood ended too early")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        eventually(lambda: self._daemon.status().calls.inflight == 0, timeout_s=30.0, what="the flood to end")

    def _full(self) -> bool:
        full = [each for each in self._daemon.status().crowded if each.scope == "tool" and each.waiting]
        return len(full) >= 0.95 * PLUGINS * TOOLS


async def _flood(socket: str) -> None:
    # A channel's calls share a connection, and a connection has a bound of its own.
    options = (("grpc.use_local_subchannel_pool", 1),)
    channels = [grpc.aio.insecure_channel(f"unix:{socket}", options=options) for _ in range(CONNECTIONS)]

    async def caller(number: int) -> None:
        send = channels[number % CONNECTIONS].unary_unary(
            CALL_TOOL,
            request_serializer=tool_pb2.CallToolRequest.SerializeToString,
            response_deserializer=tool_pb2.CallToolResponse.FromString,
        )
        tool = number % (PLUGINS * TOOLS)
        name = f"flooded{tool % PLUGINS}.wait_{tool // PLUGINS}"
        chance = random.Random(number)
        await asyncio.sleep(chance.uniform(0, SECONDS))
        while True:
            answer = await send(request_for(name, f"{chance.uniform(0.5, 1.5) * SECONDS:.3f}"), timeout=60.0)
            if answer.result.code not in ("OK", "OVERLOADED"):
                raise RuntimeError(f"{name} answered {answer.result.code}: {answer.result.message}")

    async with asyncio.TaskGroup() as group:
        for number in range(PLUGINS * TOOLS * CALLERS):
            group.create_task(caller(number))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_flood(sys.argv[1]))
        except KeyboardInterrupt:
            sys.exit(0)
