"""Limits of tools and plugins in a real daemon: what floods one holds up no other; a reload changes them."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.harness import Daemon, Home, eventually

CODE = """
import asyncio, time
from hermesd.plugin import tool

@tool(side_effects="none", timeout_ms=20000)
def wait_long(seconds: float) -> str:
    time.sleep(seconds)
    return "waited"

@tool(side_effects="none")
def answer_soon() -> str:
    return "here"

@tool(side_effects="none", rate_limit={"calls": 2, "per_s": 1})
def now_and_then() -> str:
    return "then"
"""


@pytest.fixture(params=["inprocess", "process"])
def daemon(home: Home, serve: Callable[..., Daemon], request: pytest.FixtureRequest) -> Daemon:
    home.plugin("slow", CODE)
    configure(home, request.param)
    return serve()


def configure(home: Home, isolation: str, **limits: object) -> None:
    trusted = {"slow": {"follow": True, "isolation": isolation}}
    home.configure({"defaults": {"queue_ms": 15_000}}, trusted=trusted, limits={"slow": limits}, watch=False)


@contextmanager
def flooded(daemon: Daemon, calls: int, seconds: float) -> Iterator[list[concurrent.futures.Future[str]]]:
    """So many calls of slow.wait_long at once."""

    def one() -> str:
        with daemon.client() as client:
            return str(client.call_tool("slow.wait_long", {"seconds": seconds}).code)

    with concurrent.futures.ThreadPoolExecutor(calls) as pool:
        yield [pool.submit(one) for _ in range(calls)]


@pytest.mark.promise("ADM-2")
@pytest.mark.promise("ADM-7")
def test_a_full_tool_holds_up_no_other_of_its_plugin(daemon: Daemon) -> None:
    with flooded(daemon, 20, 1.5) as answers:
        eventually(lambda: daemon.status().calls.waiting == 4, what="four calls to wait")
        began = time.monotonic()
        assert daemon.call("slow.answer_soon") == "here"
        assert time.monotonic() - began < 0.7
        full = [(each.scope, each.name, each.running, each.waiting) for each in daemon.status().crowded]
        assert full == [("tool", "slow.wait_long", 16, 4)]
        shown = daemon.ctl("status").stdout
        assert "tool slow.wait_long: 16 of 16 run, 4 waiting" in shown
    assert [each.result() for each in answers] == ["OK"] * 20


@pytest.mark.promise("ADM-5")
def test_a_reload_lets_in_who_waits(home: Home, daemon: Daemon) -> None:
    isolation = daemon.plugin("slow").isolation  # type: ignore[union-attr] # it is there
    configure(home, isolation, max_concurrency=1)
    daemon.reload()
    began = time.monotonic()
    with flooded(daemon, 6, 1.0) as answers:
        eventually(lambda: daemon.status().calls.waiting == 5, what="five calls to wait")
        assert [each.name for each in daemon.status().crowded] == ["slow"]
        configure(home, isolation)
        daemon.reload()
    assert [each.result() for each in answers] == ["OK"] * 6
    assert time.monotonic() - began < 4.5, "one after the other would take 6 s"


@pytest.mark.promise("ADM-4")
def test_rates_of_a_tool_and_of_a_plugin(home: Home, daemon: Daemon) -> None:
    isolation = daemon.plugin("slow").isolation  # type: ignore[union-attr] # it is there
    with daemon.client() as client:
        results = [client.call_tool("slow.now_and_then", {}) for _ in range(4)]
        assert [str(each.code) for each in results][:2] == ["OK", "OK"]
        refused = results[-1]
        assert (str(refused.code), refused.effect, refused.retryable) == ("RATE_LIMITED", "none", True)
        assert refused.detail["remedy"]
        time.sleep(int(refused.detail["retry_after_ms"]) / 1000)
        assert client.call_tool("slow.now_and_then", {}).ok
        assert client.call_tool("slow.answer_soon", {}).ok
        configure(home, isolation, rate={"calls": 1, "per_s": 3600})
        daemon.reload()
        assert client.call_tool("slow.answer_soon", {}).ok
        second = client.call_tool("slow.answer_soon", {})
        assert (str(second.code), second.detail["reason"]) == ("RATE_LIMITED", "rate of the plugin")
    assert "2 calls every 1 s" in daemon.ctl("tools", "show", "slow.now_and_then").stdout
