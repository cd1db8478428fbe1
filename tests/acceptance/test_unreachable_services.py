"""A service behind a tool goes away and comes back; what its callers and the operator see, from outside."""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness import Daemon, Home, eventually

CODE = '''
import asyncio, os, signal, time, urllib.error
from pathlib import Path
from hermesd.plugin import tool, ToolError

def down(ctx) -> bool:
    with open(ctx.settings["log"], "a") as log:
        log.write(ctx.tool + "\\n")
    return Path(ctx.settings["down"]).exists()

@tool(side_effects="read", retryable=True, retry={"backoff_ms": 20}, timeout_ms=2000)
def read_flaky(ctx, good_at: int) -> int:
    """Answers at that attempt."""
    if ctx.attempt < good_at:
        raise urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))
    return ctx.attempt

@tool(retryable=True)
def write_row(ctx) -> str:
    """Writes, and does not know whether it arrived."""
    down(ctx)
    raise ConnectionResetError("reset by peer")

@tool(side_effects="read", circuit_breaker={"consecutive_failures": 3, "open_ms": 400, "half_open_calls": 1})
def query_status(ctx) -> str:
    """Asks the service."""
    if down(ctx):
        raise ToolError("the service is away", code="UNAVAILABLE")
    return "up"

@tool(side_effects="read", circuit_breaker={"consecutive_failures": 2}, fallback={"value": ["nothing known"]})
def list_open(ctx) -> list[str]:
    """Asks the service."""
    if down(ctx):
        raise TimeoutError
    return ["a"]

@tool(side_effects="read", timeout_ms=250)
def copy_slowly(ctx, steps: int, tell: bool = True) -> float:
    """Takes 100 ms a step."""
    for done in range(steps):
        time.sleep(0.1)
        if tell:
            ctx.progress(done + 1, steps)
    return ctx.remaining_s

@tool(side_effects="read", timeout_ms=250)
async def wait_slowly(ctx, steps: int) -> float:
    """Takes 100 ms a step."""
    for done in range(steps):
        await asyncio.sleep(0.1)
        ctx.progress(done + 1, steps)
    return ctx.remaining_s

@tool(side_effects="read")
def end_process(ctx) -> None:
    """Ends the process that it runs in."""
    os.kill(os.getpid(), signal.SIGKILL)

@tool(side_effects="read")
def end_process_too(ctx) -> None:
    """Ends the process that it runs in."""
    os.kill(os.getpid(), signal.SIGKILL)
'''


class Shop:
    """A daemon with one plugin, whose service is up or down."""

    def __init__(self, home: Home, serve: Callable[..., Daemon], isolation: str) -> None:
        self.home, self.isolation = home, isolation
        self.down = home.path / "down"
        self.calls = home.path / "calls"
        home.plugin("shop", CODE, manifest="settings: {type: object}\n")
        self.configure()
        self.daemon = serve()

    def configure(self, **defaults: Any) -> None:
        trusted = {"shop": {"follow": True, "isolation": self.isolation}}
        settings = {"shop": {"down": str(self.down), "log": str(self.calls)}}
        text = {"defaults": defaults} if defaults else None
        self.home.configure(text, trusted=trusted, settings=settings, watch=False)

    def call(self, tool: str, **arguments: Any) -> Any:
        with self.daemon.client() as client:
            return client.call_tool(f"shop.{tool}", arguments)

    def code(self, tool: str, **arguments: Any) -> str:
        return str(self.call(tool, **arguments).code)

    def state(self, tool: str) -> Any:
        return self.daemon.ctl_json("tools", "show", f"shop.{tool}")["tool"]


@pytest.fixture(params=["inprocess", "process"])
def shop(request: pytest.FixtureRequest, home: Home, serve: Callable[..., Daemon]) -> Shop:
    return Shop(home, serve, request.param)


@pytest.mark.promise("RES-1")
def test_attempts_go_on_until_one_is_answered(shop: Shop) -> None:
    result = shop.call("read_flaky", good_at=3)
    assert (result.code, result.data, result.attempts) == ("OK", 3, 3)
    given_up = shop.call("read_flaky", good_at=9)
    assert (given_up.code, given_up.attempts, given_up.effect) == ("TOOL_ERROR", 3, "none")
    assert given_up.detail["reason"] == "connection"
    shop.configure(retry={"max_attempts": 4})
    assert shop.daemon.ctl("reload").returncode == 0
    assert shop.call("read_flaky", good_at=4).attempts == 4


@pytest.mark.promise("RES-2")
def test_a_write_is_sent_once(shop: Shop) -> None:
    result = shop.call("write_row")
    assert (result.code, result.attempts, result.effect) == ("TOOL_ERROR", 1, "unknown")
    assert shop.calls.read_text().split() == ["shop.write_row"]


@pytest.mark.promise("RES-7")
@pytest.mark.promise("RES-8")
@pytest.mark.promise("RES-11")
def test_a_service_that_goes_away_is_left_alone_and_found_again(shop: Shop) -> None:
    shop.down.touch()
    assert [shop.code("query_status") for _ in range(4)] == [*["UNAVAILABLE"] * 3, "CIRCUIT_OPEN"]
    refused = shop.call("query_status")
    assert (refused.code, refused.retryable, refused.effect) == ("CIRCUIT_OPEN", True, "none")
    assert 0 < refused.detail["retry_after_ms"] <= 400
    assert refused.detail["remedy"]
    assert len(shop.calls.read_text().split()) == 3, "what is open is not called"
    state = shop.state("query_status")
    assert state["state"] == "degraded"
    assert "3 calls in a row failed" in state["reason"]
    assert "shop.query_status" in shop.daemon.ctl("tools", "list", "--ready").stdout
    assert [each.subject for each in shop.daemon.events("circuit_opened")] == ["shop.query_status"]
    assert [each["name"] for each in shop.daemon.state()["circuits"]] == ["shop.query_status"]
    shop.down.unlink()
    eventually(lambda: shop.code("query_status") == "OK", 5, "the service to be found again")
    assert shop.state("query_status")["state"] == "ready"
    assert [each.subject for each in shop.daemon.events("circuit_closed")] == ["shop.query_status"]


def test_the_operator_resets_a_circuit(shop: Shop) -> None:
    shop.configure(circuit_breaker={"consecutive_failures": 2, "open_ms": 600_000})
    assert shop.daemon.ctl("reload").returncode == 0
    assert [shop.code("write_row") for _ in range(3)] == ["TOOL_ERROR", "TOOL_ERROR", "CIRCUIT_OPEN"]
    told = shop.daemon.ctl("tools", "reset", "shop.write_row")
    assert (told.returncode, told.stdout.strip()) == (0, "shop.write_row is called again; it is ready")
    assert shop.code("write_row") == "TOOL_ERROR"
    answer = shop.daemon.ctl_json("tools", "reset", "shop.query_status")
    assert (answer["tool"]["name"], answer.get("reset", False)) == ("shop.query_status", False)
    assert shop.daemon.ctl("tools", "reset", "shop.nothing").returncode == 1
    assert [each.subject for each in shop.daemon.events("circuit_reset")] == ["shop.write_row"]


@pytest.mark.promise("RES-14")
def test_a_fallback_answers_meanwhile(shop: Shop) -> None:
    shop.down.touch()
    assert [shop.code("list_open") for _ in range(2)] == ["TOOL_ERROR", "TOOL_ERROR"]
    result = shop.call("list_open")
    assert (result.code, result.data, result.detail["degraded"]) == ("OK", ["nothing known"], True)


@pytest.mark.promise("RES-12")
def test_a_reload_leaves_an_open_circuit_open_and_new_content_closes_it(shop: Shop) -> None:
    shop.down.touch()
    for _ in range(2):
        shop.code("list_open")
    shop.configure(queue_ms=900)
    assert shop.daemon.ctl("reload").returncode == 0
    assert shop.call("list_open").detail.get("degraded") is True
    shop.home.plugin("shop", CODE + "\n# mended\n", manifest="settings: {type: object}\n")
    assert shop.daemon.ctl("reload").returncode == 0
    assert shop.code("list_open") == "TOOL_ERROR"


@pytest.mark.promise("RES-17")
@pytest.mark.parametrize("tool", ["copy_slowly", "wait_slowly"])
def test_a_tool_that_gets_on_may_take_longer(shop: Shop, tool: str) -> None:
    result = shop.call(tool, steps=6)
    assert result.code == "OK", result.message
    assert 0.15 < result.data <= 0.25, "the tool sees its deadline move"
    with shop.daemon.client() as client:
        hurried = client.call_tool(f"shop.{tool}", {"steps": 6}, timeout_ms=400)
    assert (hurried.code, 350 < hurried.duration_ms < 600) == ("TIMEOUT", True)
    shop.configure(max_timeout_ms=400)
    assert shop.daemon.ctl("reload").returncode == 0
    assert shop.code(tool, steps=6) == "TIMEOUT"


def test_a_tool_that_tells_nothing_has_its_timeout(shop: Shop) -> None:
    began = time.monotonic()
    assert shop.code("copy_slowly", steps=20, tell=False) == "TIMEOUT"
    assert time.monotonic() - began < 1.5


@pytest.mark.promise("RES-13")
def test_a_process_that_keeps_ending_is_left_alone(home: Home, serve: Callable[..., Daemon]) -> None:
    shop = Shop(home, serve, "process")
    shop.configure(circuit_breaker={"consecutive_failures": 3, "open_ms": 600_000})
    assert shop.daemon.ctl("reload").returncode == 0
    for tool in ("end_process", "end_process_too", "end_process"):
        result = shop.call(tool)
        assert (result.code, result.effect) == ("UNAVAILABLE", "none"), result.message
    other = shop.call("query_status")
    assert other.code == "CIRCUIT_OPEN"
    assert "shop, which runs shop.query_status" in other.message
    assert shop.daemon.ctl("tools", "reset", "shop.query_status").returncode == 0
    eventually(lambda: shop.code("query_status") == "OK", 10, "a new process")


def test_metrics_tell_of_attempts_and_circuits(home: Home, serve: Callable[..., Daemon]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shop = Shop.__new__(Shop)
    shop.home, shop.isolation = home, "inprocess"
    shop.down, shop.calls = home.path / "down", home.path / "calls"
    home.plugin("shop", CODE, manifest="settings: {type: object}\n")
    shop.down.touch()
    home.configure(
        {"server": {"http": f"127.0.0.1:{port}"}},
        trusted={"shop": {"follow": True}},
        settings={"shop": {"down": str(shop.down), "log": str(shop.calls)}},
    )
    shop.daemon = serve()
    shop.call("read_flaky", good_at=3)
    for _ in range(3):
        shop.call("query_status")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        text = response.read().decode()
    assert "hermesd_tool_retries_total 2.0" in text
    assert 'hermesd_circuit_state{plugin="shop",tool="shop.query_status"} 2.0' in text
    assert "hermesd_tool_inflight 0.0" in text
