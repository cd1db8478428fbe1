"""Limits of tools and plugins in a real daemon: what floods one holds up no other; a reload changes them."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hermesd.access.identity import token_sha256
from hermesd.client import Client
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


def agents(home: Home, **of_noisy: object) -> None:
    """Two agents that may call everything, and a tool with one place."""
    rights = {"tools": {"allow": ["*"]}}
    home.configure(
        {
            "server": {"agents_listen": [f"unix:{home.path}/a"]},
            "defaults": {"queue_ms": 15_000, "max_concurrency": 1},
            "agents": {
                "noisy": {"token_sha256": token_sha256("noisy"), **rights, **of_noisy},
                "quiet": {"token_sha256": token_sha256("quiet"), **rights},
            },
        },
        trusted={"slow": {"follow": True}},
        watch=False,
    )


@pytest.fixture
def shared(home: Home, serve: Callable[..., Daemon]) -> Daemon:
    home.plugin("slow", CODE)
    agents(home)
    return serve()


def wait_as(home: Home, agent: str, seconds: float) -> str:
    with Client(f"unix:{home.path}/a", token=agent) as client:
        return str(client.call_tool("slow.wait_long", {"seconds": seconds}).code)


@pytest.mark.promise("ADM-1")
def test_an_agent_that_floods_a_tool_delays_another_by_one_turn(home: Home, shared: Daemon) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        flood = [pool.submit(wait_as, home, "noisy", 0.4) for _ in range(8)]
        eventually(lambda: shared.status().calls.waiting == 7, what="the flood")
        began = time.monotonic()
        assert wait_as(home, "quiet", 0.0) == "OK"
        assert time.monotonic() - began < 1.5, "after all of the flood it would be 3 s"
        assert [each.result() for each in flood] == ["OK"] * 8


@pytest.mark.promise("ADM-2")
@pytest.mark.promise("ADM-4")
@pytest.mark.promise("ADM-5")
def test_an_agents_own_limits_bind_nobody_else(home: Home, shared: Daemon) -> None:
    agents(home, max_concurrency=1, rate={"calls": 2, "per_s": 3600})
    assert not shared.reload().rejected
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(wait_as, home, "noisy", 1.0)
        eventually(lambda: {each.scope for each in shared.status().crowded} == {"tool", "agent"})
        with Client(f"unix:{home.path}/a", token="noisy") as client:
            refused = client.call_tool("slow.answer_soon", {}, timeout_ms=100)
            assert str(refused.code) == "TIMEOUT", "it waits for the agent's one place, not for the tool's"
            assert (refused.effect, refused.attempts) == ("none", 0)
        with Client(f"unix:{home.path}/a", token="quiet") as client:
            assert client.call_tool("slow.answer_soon", {}).ok
        assert first.result() == "OK"
    assert wait_as(home, "noisy", 0.0) == "OK", "what was refused used up no rate"
    assert wait_as(home, "noisy", 0.0) == "RATE_LIMITED"
    assert wait_as(home, "quiet", 0.0) == "OK"
    assert shared.call("slow.answer_soon") == "here"
    agents(home)
    shared.reload()
    assert wait_as(home, "noisy", 0.0) == "OK"
