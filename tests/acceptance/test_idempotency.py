"""Idempotency keys and intents, from outside: over the API, over the command line, and across restarts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermesd.client import Client, RefusedError
from hermesd.store.high_water import was_closed
from hermesd.store.layout import DataDir
from tests.harness import Daemon, Home, eventually

Serve = Callable[..., Daemon]

CODE = """
import time
from pathlib import Path
from hermesd.plugin import ToolContext, ToolError, tool

OUT = Path({out!r})

def note(text):
    with OUT.open("a", encoding="utf-8") as file:
        file.write(text + "\\n")
    return OUT.read_text(encoding="utf-8").count("\\n")

@tool()
def place_order(item: str, seconds: float = 0.0) -> int:
    "Writes a line."
    count = note(item)
    time.sleep(seconds)
    return count

@tool(idempotent=True)
def put_order(item: str, seconds: float = 0.0) -> int:
    "Writes a line, and may be asked to again."
    count = note(item)
    time.sleep(seconds)
    return count

@tool(side_effects="read")
def count_orders() -> int:
    "Counts lines, and writes one all the same."
    return note("read")

@tool()
def fail_order() -> int:
    "Fails after a line."
    note("failed")
    raise ToolError("sold out", code="sold_out")
"""


def orders(home: Home) -> Path:
    out = home.path / "out"
    out.touch()
    home.follow("orders", isolation="process")
    home.plugin("orders", CODE.format(out=str(out)))
    return out


def lines(out: Path) -> list[str]:
    return out.read_text(encoding="utf-8").splitlines()


@pytest.mark.promise("IDM-1")
@pytest.mark.promise("IDM-2")
def test_a_key_runs_its_call_once_over_every_way_in_and_across_a_restart(home: Home, serve: Serve) -> None:
    out = orders(home)
    daemon = serve()
    with daemon.client() as client:
        first = client.call_tool("orders.place_order", {"item": "茶"}, idempotency_key="k-1")
        again = client.call_tool("orders.place_order", {"item": "茶"}, idempotency_key="k-1")
        *_, last = client.stream_call_tool("orders.place_order", {"item": "茶"}, idempotency_key="k-1")
        refused = client.call_tool("orders.place_order", {"item": "咖啡"}, idempotency_key="k-1")
        failed = client.call_tool("orders.fail_order", idempotency_key="k-1")
        failed_again = client.call_tool("orders.fail_order", idempotency_key="k-1")
        with pytest.raises(RefusedError):
            client.call_tool("orders.place_order", {"item": "x"}, idempotency_key="k" * 256)
    assert (first.data, first.effect, first.detail) == (1, "done", {})
    assert (again.data, again.effect) == (1, "done")
    assert again.detail == {"replayed": True, "replayed_from": first.request_id}
    assert again.request_id != first.request_id
    assert json.loads(last.result.detail_json)["replayed"] is True
    assert (refused.code, refused.effect) == ("INVALID_ARGUMENT", "none")
    assert "new idempotency_key" in refused.detail["remedy"]
    assert (failed.code, failed_again.code) == ("TOOL_ERROR", "TOOL_ERROR")
    assert failed_again.detail["replayed"]
    assert lines(out) == ["茶", "failed"]
    words = ("tools", "call", "orders.place_order", "item=茶", "--idempotency-key", "k-1")
    assert daemon.ctl(*words).stdout.strip() == "1"
    assert daemon.ctl_json(*words)["result"]["effect"] == "done"
    assert daemon.stop() == 0

    assert was_closed(DataDir(home.data).state_high_water)
    daemon = serve()
    assert daemon.ctl(*words).stdout.strip() == "1"
    assert daemon.ctl(*words[:3], "item=x", *words[4:]).returncode == 1
    assert lines(out) == ["茶", "failed"]


@pytest.mark.promise("IDM-3")
def test_twenty_duplicates_at_once_are_one_call(home: Home, serve: Serve) -> None:
    out = orders(home)
    daemon = serve()
    results = []

    def ask() -> None:
        with Client(home.address) as client:
            arguments = {"item": "x", "seconds": 0.3}
            results.append(client.call_tool("orders.place_order", arguments, idempotency_key="同"))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each.data for each in results] == [1] * 20
    assert sum("replayed" in each.detail for each in results) == 19
    assert lines(out) == ["x"]
    assert daemon.process.poll() is None


def test_a_daemon_that_only_reads_opens_no_database(home: Home, serve: Serve) -> None:
    orders(home)
    daemon = serve()
    assert daemon.call("orders.count_orders") == 1
    store = home.data / "store"
    assert list(store.iterdir()) == []
    assert "hermesd-state-write" not in daemon.status().threads
    daemon.call("orders.place_order", item="x")
    assert (store / "state.duckdb").exists()
    assert (store / "state.high-water").exists()
    assert daemon.status().threads["hermesd-state-write"] == 1


def test_a_key_is_new_again_after_its_window_and_is_swept(home: Home, serve: Serve) -> None:
    out = orders(home)
    home.follow("orders", isolation="process", defaults={"idempotency_window_s": 1})
    daemon = serve()
    with daemon.client() as client:
        client.call_tool("orders.place_order", {"item": "a"}, idempotency_key="k")
        assert client.call_tool("orders.place_order", {"item": "a"}, idempotency_key="k").detail["replayed"]
        eventually(
            lambda: (
                "replayed"
                not in client.call_tool("orders.place_order", {"item": "a"}, idempotency_key="k").detail
            )
        )
        assert lines(out) == ["a", "a"]
        home.follow("orders", isolation="process", defaults={"idempotency_window_s": 3600})
        daemon.reload()
        client.call_tool("orders.place_order", {"item": "b"}, idempotency_key="lasting")
        time.sleep(1.2)
        again = client.call_tool("orders.place_order", {"item": "b"}, idempotency_key="lasting")
        assert again.detail["replayed"], "a reload's window holds at once"


@pytest.mark.promise("IDM-7")
def test_a_killed_daemon_says_unknown_and_never_runs_it_again(home: Home, serve: Serve) -> None:
    """hermes-agent#88821, #106440: write-capable calls were replayed after their session had gone."""
    out = orders(home)
    daemon = serve()

    def ask(tool: str, key: str) -> None:
        with Client(home.address) as client:
            try:
                client.call_tool(tool, {"item": tool, "seconds": 30}, idempotency_key=key, timeout_ms=60_000)
            except Exception:
                return

    tools = ("orders.place_order", "orders.put_order")
    threads = [threading.Thread(target=ask, args=(each, "k")) for each in tools]
    for each in threads:
        each.start()
    eventually(lambda: len(lines(out)) == 2)
    daemon.kill()
    for each in threads:
        each.join()

    daemon = serve()
    interrupted = eventually(lambda: daemon.events("call_interrupted"))
    assert {each.subject for each in interrupted} == set(tools)
    with daemon.client() as client:
        for _ in range(2):
            arguments = {"item": "orders.place_order", "seconds": 30}
            unknown = client.call_tool("orders.place_order", arguments, idempotency_key="k")
            assert (unknown.code, unknown.effect, unknown.retryable) == ("UNAVAILABLE", "unknown", False)
            assert unknown.detail["replayed"] is True
            assert unknown.detail["reason"] == "interrupted"
            assert "before you call again" in unknown.detail["remedy"]
        other = client.call_tool("orders.place_order", {"item": "other"}, idempotency_key="k")
        assert other.code == "INVALID_ARGUMENT"
        repeated = client.call_tool(
            "orders.put_order", {"item": "orders.put_order", "seconds": 0}, idempotency_key="k"
        )
        assert (repeated.code, repeated.data) == ("OK", 3)
    assert daemon.stop() == 0
    assert not serve().events("call_interrupted"), "told once"
