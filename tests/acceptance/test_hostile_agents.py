"""Agents that mean no good, against a real daemon: what they do costs them, and nobody else."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable

import grpc
import psutil
import pytest

from hermesd.api.v1 import tool_pb2, tool_pb2_grpc
from hermesd.client import Client
from tests.harness import Daemon, Home

CODE = """
import asyncio
from hermesd.plugin import tool, ToolContext

@tool(side_effects="write", timeout_ms=30000, max_concurrency=100)
async def wait_long(seconds: float, text: str = "") -> str:
    "Waits."
    await asyncio.sleep(seconds)
    return "waited"

@tool(side_effects="read", timeout_ms=30000)
def tell_much(ctx: ToolContext, count: int, size: int) -> int:
    "Tells."
    for number in range(count):
        ctx.progress(number, count, "x" * size)
        ctx.log("x" * size, more=["x" * size])
    return count

@tool(side_effects="read")
def count_items(items: list[int]) -> int:
    "Counts."
    return len(items)
"""
MIB = 1024 * 1024


@pytest.fixture(params=["inprocess", "process"])
def loud(request: pytest.FixtureRequest, home: Home, serve: Callable[..., Daemon]) -> Daemon:
    home.plugin("loud", CODE)
    home.follow("loud", isolation=request.param)
    return serve()


class Agent:
    """One that speaks the protocol itself, with messages as large as it likes."""

    def __init__(self, daemon: Daemon) -> None:
        with daemon.client() as client:
            self.token = client.add_agent("loud", allow=["*"], ceiling="destructive").token
        self._address = daemon.home.address

    def calls(self, *requests: tool_pb2.CallToolRequest) -> list[str]:
        """The codes of calls that are made at once, or the status that refused them."""

        async def one(stub: tool_pb2_grpc.ToolServiceStub, request: tool_pb2.CallToolRequest) -> str:
            metadata = [("authorization", f"Bearer {self.token}")]
            try:
                answer = await stub.CallTool(request, metadata=metadata, timeout=60)
            except grpc.aio.AioRpcError as error:
                return str(error.code().name)
            return str(answer.result.code)

        async def every() -> list[str]:
            options = [("grpc.max_send_message_length", -1)]
            async with grpc.aio.insecure_channel(self._address, options=options) as channel:
                stub = tool_pb2_grpc.ToolServiceStub(channel)
                return await asyncio.gather(*(one(stub, each) for each in requests))

        return asyncio.run(every())


def request(name: str, arguments: str, **more: object) -> tool_pb2.CallToolRequest:
    return tool_pb2.CallToolRequest(name=name, arguments_json=arguments, **more)  # type: ignore[arg-type]


@pytest.mark.promise("HOS-11")
def test_large_arguments_are_held_no_longer_than_their_calls_and_never_too_many(loud: Daemon) -> None:
    agent, process = Agent(loud), psutil.Process(loud.pid)
    large = json.dumps({"seconds": 0, "text": "x" * (15 * MIB)})
    before = process.memory_info().rss
    with loud.client() as client:
        for number in range(12):
            detached = request("loud.wait_long", large, detach=True, request_id=f"{number}")
            assert agent.calls(detached) == ["OK"]
            assert client.wait_for_call(f"{number}").ok
    waiting = json.dumps({"seconds": 2, "text": "x" * (15 * MIB)})
    codes = agent.calls(*(request("loud.wait_long", waiting) for _ in range(8)))
    assert set(codes) <= {"OK", "RESOURCE_EXHAUSTED"}
    assert codes.count("OK") <= 4
    assert process.memory_info().rss - before < 1000 * MIB
    assert agent.calls(request("loud.wait_long", large)) == ["OK"]


@pytest.mark.promise("HOS-11")
def test_a_million_values_are_refused_and_hold_nobody_up(loud: Daemon) -> None:
    agent = Agent(loud)
    many = f'{{"items": [{",".join(["1"] * 7_000_000)}]}}'
    slowest, ended = [0.0], threading.Event()

    def watch() -> None:
        with loud.client() as client:
            while not ended.is_set():
                began = time.monotonic()
                assert client.call_tool("text.count_stats", {"text": "a"}).ok
                slowest[0] = max(slowest[0], time.monotonic() - began)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        assert agent.calls(*(request("loud.count_items", many) for _ in range(3))) == ["INVALID_ARGUMENT"] * 3
    finally:
        ended.set()
        watching.join()
    assert slowest[0] < 1.5, "reading them all took 3.6 s"


@pytest.mark.promise("OUT-7")
def test_nobody_takes_all_the_places_of_detached_calls(loud: Daemon) -> None:
    codes = Agent(loud).calls(
        *(
            request(
                "loud.wait_long", '{"seconds": 5}', detach=True, idempotency_key="k", request_id=f"{each}"
            )
            for each in range(300)
        )
    )
    assert codes.count("RESOURCE_EXHAUSTED") == 50
    with loud.client() as client:
        assert client.call_tool("text.count_stats", {"text": "a"}, detach=True).ok


@pytest.mark.promise("OUT-9")
def test_a_tool_that_tells_megabytes_to_a_reader_that_is_slow_fills_no_memory(loud: Daemon) -> None:
    agent, process = Agent(loud), psutil.Process(loud.pid)
    before = process.memory_info().rss
    with Client(loud.home.address, token=agent.token) as client:
        stream = client.stream_call_tool("loud.tell_much", {"count": 400, "size": 500_000}, timeout_ms=25_000)
        next(stream)
        time.sleep(3)
        assert process.memory_info().rss - before < 150 * MIB
        *_, last = stream
        assert "ok" in str(last)
