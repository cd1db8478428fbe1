"""Each setting that the reference calls live takes effect with the reload that reads it."""

import concurrent.futures
import http.client
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness import Daemon, Home, eventually

pytestmark = pytest.mark.promise("HOS-9")

CODE = '''
import time
from hermesd.plugin import tool

@tool(side_effects="read", when_to_use="to wait", description="Waits as long as it is told to, then says so.")
def wait_long(seconds: float) -> str:
    time.sleep(seconds)
    return "waited"

@tool(side_effects="read", timeout_class="batch")
def wait_batch(seconds: float) -> str:
    """Waits."""
    time.sleep(seconds)
    return "waited"
'''


class Live:
    """A daemon whose configuration is written and reloaded key by key."""

    def __init__(self, home: Home, serve: Callable[..., Daemon], isolation: str = "inprocess") -> None:
        self.home, self.isolation = home, isolation
        home.plugin("slow", CODE)
        self.write()
        self.daemon = serve()

    def write(self, text: dict[str, Any] | None = None, **plugins: Any) -> None:
        trusted = {"slow": {"follow": True, "isolation": self.isolation}}
        self.home.configure(text, **({"trusted": trusted, "watch": False} | plugins))

    def reload(self, text: dict[str, Any] | None = None, **plugins: Any) -> str:
        self.write(text, **plugins)
        answer = self.daemon.ctl("reload")
        return answer.stdout + answer.stderr

    def code(self, tool: str, seconds: float) -> str:
        with self.daemon.client() as client:
            return str(client.call_tool(tool, {"seconds": seconds}).code)

    def codes(self, calls: int, seconds: float) -> list[str]:
        with concurrent.futures.ThreadPoolExecutor(calls) as pool:
            return sorted(pool.map(lambda _: self.code("slow.wait_long", seconds), range(calls)))


@pytest.fixture
def live(home: Home, serve: Callable[..., Daemon]) -> Live:
    return Live(home, serve)


def test_timeouts_and_queues_of_calls(live: Live) -> None:
    assert live.code("slow.wait_long", 0.3) == "OK"
    live.reload({"defaults": {"timeouts_ms": {"python": 100, "batch": 150}}})
    assert (live.code("slow.wait_long", 0.3), live.code("slow.wait_batch", 0.3)) == ("TIMEOUT", "TIMEOUT")
    live.reload({"defaults": {"max_timeout_ms": 100}})
    assert (live.code("slow.wait_long", 0.3), live.code("slow.wait_batch", 0.3)) == ("TIMEOUT", "TIMEOUT")
    live.reload({"defaults": {"max_concurrency": 1, "queue_ms": 0}})
    assert live.codes(3, 0.4) == ["OK", "OVERLOADED", "OVERLOADED"]
    live.reload({"defaults": {"max_concurrency": 1, "queue_ms": 2000}})
    assert live.codes(3, 0.2) == ["OK", "OK", "OK"]


def test_more_calls_at_once_find_as_many_threads(home: Home, serve: Callable[..., Daemon]) -> None:
    live = Live(home, serve)
    live.reload({"defaults": {"max_concurrency": 2}}, max_stray_threads=1)
    live.reload({"defaults": {"max_concurrency": 12}}, max_stray_threads=1)
    began = time.monotonic()
    assert live.codes(12, 1.0) == ["OK"] * 12
    assert time.monotonic() - began < 3.5  # in four turns of three it would be 4 s


def test_what_plugins_are_allowed(live: Live) -> None:
    live.reload({"defaults": {"timeouts_ms": {"python": 50}}}, max_stray_threads=1)
    assert live.code("slow.wait_long", 3) == "TIMEOUT"
    eventually(lambda: live.code("slow.wait_long", 0) == "UNAVAILABLE", what="the stray thread to count")
    answer = live.reload({"defaults": {"description_chars": {"warn": 10, "max": 2000}}})
    shown = live.daemon.ctl_json("plugins", "show", "slow")["plugin"]
    assert any("characters" in each or "longer" in each for each in shown["warnings"]), (answer, shown)
    assert "rejected" in live.reload({"defaults": {"description_chars": {"warn": 1, "max": 10}}})
    assert live.daemon.ctl("reload").returncode == 1


def test_dirs_trust_settings_and_secrets(live: Live) -> None:
    live.reload(trusted={})
    assert live.code("slow.wait_long", 0) in ("UNAVAILABLE", "UNKNOWN_TOOL")
    live.reload()
    assert live.code("slow.wait_long", 0) == "OK"
    live.reload(dirs=[])
    assert live.code("slow.wait_long", 0) == "UNKNOWN_TOOL"


def test_the_pace_of_the_watcher(home: Home, serve: Callable[..., Daemon]) -> None:
    live = Live(home, serve)
    live.daemon.stop()
    live.write(watch=True)
    live.daemon = serve()
    live.reload(watch=True, settle_ms=1500, unsettled_s=1.5)
    home.plugin("slow", CODE.replace("waited", "changed"))
    time.sleep(0.8)
    assert live.daemon.call("slow.wait_long", seconds=0) == "waited"
    eventually(lambda: live.daemon.call("slow.wait_long", seconds=0) == "changed", what="the edit to serve")


@pytest.mark.parametrize("isolation", ["process"])
def test_idle_workers_are_stopped_by_the_new_time(
    home: Home, serve: Callable[..., Daemon], isolation: str
) -> None:
    live = Live(home, serve, isolation)
    assert live.code("slow.wait_long", 0) == "OK"
    assert live.daemon.ctl_json("plugins", "show", "slow")["plugin"].get("pid", 0)
    live.reload(idle_stop_s=0.2)
    eventually(
        lambda: not live.daemon.ctl_json("plugins", "show", "slow")["plugin"].get("pid", 0),
        what="the worker to stop",
    )


def test_how_long_plugins_may_take(live: Live) -> None:
    live.home.plugin("slow", CODE + "\ntime.sleep(3)\n")
    began = time.monotonic()
    assert "0.3 s" in live.reload(prepare_timeout_s=0.3)
    assert time.monotonic() - began < 3
    live.home.plugin("slow", CODE + "\ndef hermesd_shutdown():\n    time.sleep(4)\n")
    live.reload(close_timeout_s=0.2)
    live.home.plugin("slow", CODE)
    began = time.monotonic()
    live.reload(close_timeout_s=0.2)
    assert time.monotonic() - began < 3, "the plugin's own end takes 4 s"
    assert live.daemon.stop() == 0


def test_the_window_of_a_pass(live: Live) -> None:
    live.home.plugin("slow", CODE + "\ntime.sleep(1.5)\n")
    live.write(commit_window_s=0)
    answer = live.daemon.ctl_json("reload", "--no-wait")
    assert answer["pending"] == ["slow"]


def test_the_contents_that_are_kept(live: Live) -> None:
    for number in range(4):
        live.home.plugin("slow", CODE, version=f"1.0.{number}")
        live.reload(kept_contents=5)
    assert len(live.daemon.ctl_json("plugins", "history", "slow")["contents"]) >= 4
    kept = len(list((live.home.data / "plugins").glob("[0-9a-f]*")))
    live.home.plugin("slow", CODE, version="1.1.0")
    live.reload(kept_contents=1)
    assert len(list((live.home.data / "plugins").glob("[0-9a-f]*"))) < kept


def test_who_may_read_the_metrics(home: Home, serve: Callable[..., Daemon]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    listen = {"server": {"http": f"127.0.0.1:{port}"}}
    home.configure(listen)
    daemon = serve()
    assert _status(port) == 200
    home.configure({**listen, "telemetry": {"metrics_open": "never"}})
    daemon.ctl("reload")
    assert _status(port) == 401


def test_how_long_a_stop_drains(live: Live) -> None:
    live.reload({"server": {"drain_timeout_s": 0.2}, "defaults": {"timeouts_ms": {"python": 30_000}}})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        cut = pool.submit(live.code, "slow.wait_long", 15)
        eventually(lambda: live.daemon.ctl_json("status")["calls"].get("inflight"), what="the call to run")
        began = time.monotonic()
        assert live.daemon.stop() == 0
        assert time.monotonic() - began < 4
        assert cut.result() == "UNAVAILABLE"


def _status(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().status
    finally:
        connection.close()
