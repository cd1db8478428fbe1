"""Callers: the same client code towards the daemon and towards the echo, so that only servers differ."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc

from benchmarks.echo import METHOD
from hermesd.api.v1 import tool_pb2

CALL_TOOL = "/hermesd.api.v1.ToolService/CallTool"
PAYLOAD = "x" * 64

#: One call, to its answer.
Call = Callable[[], Awaitable[tool_pb2.CallToolResponse]]


class Wire:
    """Channels to the daemon and to the echo."""

    def __init__(self, daemon: str, echo: str = "") -> None:
        self._channels = [grpc.aio.insecure_channel(f"unix:{each}") for each in (daemon, echo) if each]

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    def tool(self, name: str, text: str = PAYLOAD) -> Call:
        """Call the tool `name` and insist on its answer."""
        send, request = self._sender(0, CALL_TOOL), request_for(name, text)

        async def call() -> tool_pb2.CallToolResponse:
            answer: tool_pb2.CallToolResponse = await send(request, timeout=30.0)
            if answer.result.code != "OK":
                raise RuntimeError(f"{name} answered {answer.result.code}: {answer.result.message}")
            return answer

        return call

    def echo(self, name: str) -> Call:
        """Send the echo what `tool(name)` sends the daemon."""
        send, request = self._sender(1, METHOD), request_for(name, PAYLOAD)

        async def call() -> tool_pb2.CallToolResponse:
            answer: tool_pb2.CallToolResponse = await send(request, timeout=30.0)
            if answer.result.code != "OK":
                raise RuntimeError("the echo does not answer what the daemon answered")
            return answer

        return call

    def _sender(self, index: int, path: str) -> Any:
        return self._channels[index].unary_unary(
            path,
            request_serializer=tool_pb2.CallToolRequest.SerializeToString,
            response_deserializer=tool_pb2.CallToolResponse.FromString,
        )


def request_for(name: str, text: str) -> tool_pb2.CallToolRequest:
    return tool_pb2.CallToolRequest(name=name, arguments_json=f'{{"text": "{text}"}}')


async def one_by_one(call: Call, count: int, spacing_s: float = 0.0) -> list[float]:
    """Seconds of each of `count` calls of one caller, with a pause after each."""
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        seconds.append(time.perf_counter() - began)
        if spacing_s:
            await asyncio.sleep(spacing_s)
    return seconds


async def interleaved(calls: Sequence[Call], rounds: int, count: int) -> list[list[list[float]]]:
    """One caller, A B C A B C …: for each of `calls` its rounds of `count` durations.

    The parts of one round are measured within the same second, so that all see the same machine.
    """
    seconds: list[list[list[float]]] = [[] for _ in calls]
    for call in calls:
        await one_by_one(call, 200)  # warm
    for _ in range(rounds):
        for index, call in enumerate(calls):
            seconds[index].append(await one_by_one(call, count))
    return seconds


async def per_second(call: Call, callers: int, count: int) -> float:
    """Calls per second of `callers` that call back to back, `count` calls in all."""

    async def caller() -> None:
        for _ in range(count // callers):
            await call()

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count // callers * callers / (time.perf_counter() - began)
