"""From the start of a daemon to its end: where it listens, what it holds, what it says, how it stops."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from hermesd.client import Client
from tests.harness import ROOT, Daemon, Home, environment, eventually, refused
from tests.plugins import lasting, word

Serve = Callable[..., Daemon]


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.promise("FLT-16")
def test_without_any_file_it_starts_listens_and_serves_its_own_tools(home: Home) -> None:
    runtime, state = home.path / "run", home.path / "state"
    runtime.mkdir(mode=0o700)
    env = {
        "HOME": str(home.path),
        "XDG_CONFIG_HOME": str(home.path / "config"),
        "XDG_STATE_HOME": str(state),
        "XDG_RUNTIME_DIR": str(runtime),
        "RUNTIME_DIRECTORY": str(runtime),
        "STATE_DIRECTORY": str(state),
    }
    home.socket = runtime / "hermesd.sock"
    daemon = Daemon(home, env=env, config=False).wait_ready()
    try:
        assert stat.S_IMODE(home.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        assert daemon.call("text.count_stats", text="three small words")
        assert daemon.status().config_files == []
        listed = subprocess.run(
            [sys.executable, "-m", "hermesd", "ctl", "tools", "list"],
            env={**environment(), **env},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert listed.returncode == 0, listed.stderr
        assert "text.count_stats" in listed.stdout
        assert daemon.stop() == 0
        assert not home.socket.exists()
        assert not list((home.path / "config").rglob("*")), "nothing of the operator's is written"
    finally:
        if daemon.process.poll() is None:
            daemon.kill()


@pytest.mark.promise("FLT-17")
def test_a_second_daemon_ends_with_the_name_of_the_holder_and_the_first_never_notices(
    home: Home, serve: Serve
) -> None:
    """grpc#16920, grpc#16005, rayfed#124: two servers bound one address in silence."""
    home.configure({"server": {"http": "127.0.0.1:0"}})
    daemon = serve()
    http = daemon.events("http_started")[0].subject
    inode = home.socket.stat().st_ino
    for options in (
        (),  # the same data dir
        ("--data-dir", str(home.path / "other")),  # the same socket
    ):
        status, told = refused(home, *options)
        assert status == 1, told
        assert f"pid {daemon.pid}" in told or f"process {daemon.pid}" in told, told
        assert "Traceback" not in told, told
    home.configure({"server": {"http": http}})
    status, told = refused(
        home, "--data-dir", str(home.path / "other"), "--listen", f"unix:{home.path}/other.sock"
    )
    assert status == 1, told
    assert http in told, told
    assert str(daemon.pid) in told, told
    assert "Traceback" not in told, told
    assert home.socket.stat().st_ino == inode
    assert daemon.status().state == "ready"
    assert not _orphans(home)


def _orphans(home: Home) -> list[psutil.Process]:
    """Launchers of daemons that ended."""
    return [
        each
        for each in psutil.process_iter(["cmdline", "ppid"])
        if each.info["ppid"] == 1 and any("launcher_main" in word for word in each.info["cmdline"] or [])
    ]


@pytest.mark.promise("FLT-17")
def test_a_dead_daemons_socket_is_replaced_and_a_strange_one_left_alone(home: Home, serve: Serve) -> None:
    first = serve()
    first.kill()
    assert home.socket.exists()
    second = serve()
    assert second.status().pid == second.pid
    assert second.stop() == 0
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(home.socket))
        stranger.listen()
        status, told = refused(home)
        assert status == 1
        assert str(os.getpid()) in told
    assert home.socket.exists()


def test_health_reflection_and_http_say_what_is(home: Home, serve: Serve) -> None:
    home.configure({"server": {"http": "127.0.0.1:0"}})
    daemon = serve()
    with grpc.insecure_channel(home.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "hermesd.api.v1.ToolService", "hermesd.api.v1.AdminService"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING, service
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        listed = next(iter(reflection.ServerReflectionInfo(iter([request]), timeout=5)))
        names = {each.name for each in listed.list_services_response.service}
        assert {"hermesd.api.v1.ToolService", "hermesd.api.v1.AdminService"} <= names
    base = f"http://{daemon.events('http_started')[0].subject}"
    assert get(f"{base}/healthz")[0] == 200
    status, body = get(f"{base}/readyz")
    assert status == 200
    assert json.loads(body)["generation"] >= 1
    daemon.call("text.count_stats", text="x")
    status, body = get(f"{base}/metrics")
    assert status == 200
    assert 'hermesd_tool_calls_total{code="OK",source="python",tool="text.count_stats"} 1.0' in body
    assert "hermesd_config_last_reload_successful 1.0" in body
    assert get(f"{base}/else")[0] == 401
    assert daemon.ctl("drain").returncode == 0
    status, body = get(f"{base}/readyz")
    assert status == 503
    assert "draining" in body
    assert get(f"{base}/healthz")[0] == 200
    assert daemon.ctl("tools", "call", "text.count_stats", "text=x").returncode != 0
    assert daemon.ctl("resume").returncode == 0
    assert get(f"{base}/readyz")[0] == 200
    assert daemon.call("text.count_stats", text="x")


def test_json_logs_are_one_object_a_line_whatever_plugins_say(home: Home, serve: Serve) -> None:
    home.follow("loud", "broken", secrets={"TOKEN": "hush-hush-hush"})
    home.plugin(
        "loud",
        """
        import logging, sys, threading
        from hermesd.plugin import ToolContext, tool

        @tool(side_effects="read")
        def shout(ctx: ToolContext) -> str:
            "Shouts."
            print("out\\nof line \\x1b[31m")
            sys.stderr.write("err\\n{")
            logging.getLogger("loud").warning("two\\nlines 世界")
            threading.Thread(target=print, args=("a thread's\\nown {",)).start()
            print(ctx.secret("TOKEN"))
            logging.getLogger("loud").error("token " + ctx.secret("TOKEN"))
            ctx.log("told\\n{", level="warning", number=1)
            raise RuntimeError("first\\nsecond")
        """,
        manifest="permissions: {secrets: [TOKEN]}\n",
    )
    home.plugin("broken", "raise ValueError('a\\nb')\n")
    daemon = serve("--log-format", "json", "--log-level", "debug")
    with daemon.client() as client:
        assert client.call_tool("loud.shout").code == "TOOL_ERROR"
    daemon.process.send_signal(signal.SIGHUP)
    daemon.process.send_signal(signal.SIGUSR1)
    eventually(lambda: '"state"' in daemon.log_text(), what="the dump")
    assert daemon.stop() == 0
    lines = daemon.log_text().splitlines()
    parsed = [json.loads(line) for line in lines]
    assert all(isinstance(each, dict) for each in parsed)
    events = [each.get("event") for each in parsed]
    for event in (
        "daemon_started",
        "plugin_found",
        "file_found",
        "tool_ready",
        "daemon_ready",
        "daemon_stopped",
    ):
        assert event in events, event
    assert any(each.get("message") == "a thread's" for each in parsed)
    said = (home.data / "logs" / "plugins" / "loud.jsonl").read_text()
    for text in ("of line", "err", "lines 世界", "told"):
        assert text in said, text
    assert "shout" in said
    assert "hush" not in said + daemon.log_text(), "a secret is in no log"
    dump = next(each for each in parsed if "state" in each and isinstance(each["state"], dict))
    assert dump["state"]["threads"]


@pytest.mark.promise("FLT-18")
def test_a_stop_drains_what_runs_then_cuts_it_and_tells_the_caller(home: Home, serve: Serve) -> None:
    """grpc#37239: what a server cuts has ended, clean-up included, when the stop ends."""
    marker = home.path / "cleaned"
    home.follow("slow", server={"drain_timeout_s": 1.5})
    home.plugin(
        "slow",
        lasting("x")
        + f'''
@tool(side_effects="write", timeout_ms=60000)
async def clean_up(ctx: ToolContext) -> str:
    """Cleans up after itself."""
    try:
        await asyncio.sleep(50)
    finally:
        open({str(marker)!r}, "w").write("cleaned")
    return "never"
''',
    )
    daemon = serve()
    results: dict[str, Any] = {}

    def call(tool: str, **arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                with daemon.client() as client:
                    results[tool] = client.call_tool(tool, arguments, timeout_s=30)
            except Exception as error:
                results[tool] = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    threads = [
        call("slow.write_slowly", seconds=0.8),
        call("slow.clean_up"),
        call("slow.block_hard", seconds=50),
    ]
    eventually(lambda: daemon.status().calls.inflight == 3)
    begun = time.monotonic()
    assert daemon.stop() == 0
    took = time.monotonic() - begun
    for thread in threads:
        thread.join(5)
    assert 1.2 < took < 8, took
    assert results["slow.write_slowly"].ok, "what ends within the drain is answered"
    cut = results["slow.clean_up"]
    assert (cut.code, cut.effect) == ("UNAVAILABLE", "unknown")
    assert "stopped" in cut.message
    assert cut.detail["remedy"]
    assert results["slow.block_hard"].code == "UNAVAILABLE"
    assert results["slow.block_hard"].effect == "none"
    assert marker.read_text() == "cleaned"


@pytest.mark.promise("FLT-18")
def test_a_second_signal_stops_at_once(home: Home, serve: Serve) -> None:
    """uvicorn#2943, #1160, #1069: a join without end; a second signal that is lost."""
    home.follow("slow", server={"drain_timeout_s": 60})
    home.plugin("slow", lasting("x"))
    daemon = serve()
    results: list[Any] = []

    def run() -> None:
        with daemon.client() as client:
            results.append(client.call_tool("slow.write_slowly", {"seconds": 50}, timeout_s=60))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    eventually(lambda: daemon.status().calls.inflight == 1)
    daemon.process.send_signal(signal.SIGTERM)
    eventually(lambda: "daemon_stopping" in daemon.log_text(), what="the stop to begin")
    time.sleep(0.5)
    assert daemon.process.poll() is None, "it drains"
    begun = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(10) == 0
    assert time.monotonic() - begun < 5
    thread.join(5)
    assert (results[0].code, results[0].effect) == ("UNAVAILABLE", "unknown")


def test_a_stop_right_after_the_start_and_during_a_reload_ends(home: Home) -> None:
    """patroni#3598 and others: signals at the wrong moment."""
    home.follow("slow")
    home.plugin("slow", "import time\ntime.sleep(3)\n" + word("x"))
    early = Daemon(home)
    eventually(lambda: "daemon_started" in early.log_text(), 20)
    begun = time.monotonic()
    assert early.stop() == 0
    assert time.monotonic() - begun < 8
    daemon = Daemon(home).wait_ready()
    home.replace(home.plugins / "slow" / "slow.py", "import time\ntime.sleep(9)\n" + word("y"))
    for _ in range(3):
        daemon.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    begun = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begun < 12


def test_a_hup_between_other_signals_is_a_reload_and_systemd_hears_both_ends_of_it(
    home: Home, serve: Serve
) -> None:
    """patroni#3598, ergo#2454, sd-notify#17, trapperkeeper#110: RELOADING without MONOTONIC_USEC.

    systemd#37515, #19300: RELOADING that is never followed by READY.
    """
    home.follow("bad")
    home.plugin("bad", "raise ValueError\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(home.path / "notify"))
        manager.settimeout(10)
        daemon = serve(env={"NOTIFY_SOCKET": str(home.path / "notify")})
        seen: list[str] = []
        while not any("READY=1" in each for each in seen):
            seen.append(manager.recv(65536).decode())
        home.replace(home.config, "server: [\n")  # a reload that fails is a reload
        daemon.process.send_signal(signal.SIGHUP)
        begun = time.monotonic_ns() // 1000
        told: list[str] = []
        while not any("READY=1" in each for each in told):
            told.append(manager.recv(65536).decode())
        reloading = next(each for each in told if "RELOADING=1" in each)
        stamp = int(re.search(r"MONOTONIC_USEC=(\d+)", reloading)[1])
        assert abs(stamp - begun) < 5_000_000
        assert daemon.stop() == 0
        rest: list[str] = []
        while not any("STOPPING=1" in each for each in rest):
            rest.append(manager.recv(65536).decode())


def test_no_child_inherits_what_belongs_to_the_daemon_alone(home: Home, serve: Serve) -> None:
    """systemd#25961, #27291, #24516: a child that inherits NOTIFY_SOCKET speaks for the daemon.

    systemd#35227, #25237, #24291: a credential is read once, at the start.
    """
    credentials = home.path / "credentials"
    credentials.mkdir(mode=0o700)
    (credentials / "token").write_text("first")
    home.configure(
        {"secrets": {"TOKEN": f"${{file:{credentials / 'token'}}}"}},
        trusted={"spy": {"follow": True, "isolation": "process"}},
    )
    home.plugin(
        "spy",
        """
        import os
        from hermesd.plugin import ToolContext, tool

        @tool(side_effects="read")
        def list_names(ctx: ToolContext) -> list[str]:
            "Lists names."
            return sorted(os.environ)

        @tool(side_effects="read")
        def measure(ctx: ToolContext) -> int:
            "Measures the secret."
            return len(ctx.secret("TOKEN"))
        """,
        manifest="permissions: {secrets: [TOKEN]}\n",
    )
    mine = {
        "NOTIFY_SOCKET": str(home.path / "none"),
        "WATCHDOG_USEC": "30000000",
        "LISTEN_FDS": "0",
        "CREDENTIALS_DIRECTORY": str(credentials),
        "HERMESD_TEST_KEPT": "1",
    }
    daemon = serve(env=mine)
    names = set(daemon.call("spy.list_names"))
    assert not names & (mine.keys() - {"HERMESD_TEST_KEPT"}), names
    assert daemon.call("spy.measure") == len("first")
    for child in daemon.descendants():
        assert not child.environ().keys() & (mine.keys() - {"HERMESD_TEST_KEPT"}), child
    assert "first" not in daemon.log_text()


def test_a_successors_socket_survives_the_end_of_the_one_before(home: Home, serve: Serve) -> None:
    """gunicorn#476, #2856, #3285: one that exits removed the new one's socket, or named another main pid."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(home.path / "notify"))
        manager.settimeout(5)
        daemon = serve(env={"NOTIFY_SOCKET": str(home.path / "notify")})
        daemon.process.send_signal(signal.SIGHUP)
        eventually(lambda: any(each.subject == "signal" for each in daemon.events("reload_finished")))
        assert daemon.status().pid == daemon.pid, "it never becomes another process"
        home.socket.unlink()
        with socket.socket(socket.AF_UNIX) as successor:
            successor.bind(str(home.socket))
            successor.listen()
            inode = home.socket.stat().st_ino
            assert daemon.stop() == 0
            assert home.socket.stat().st_ino == inode
        manager.setblocking(False)
        told = []
        while True:
            try:
                told.append(manager.recv(65536).decode())
            except BlockingIOError:
                break
        assert any("READY=1" in each for each in told)
        assert not any("MAINPID" in each for each in told)


@pytest.mark.promise("API-14")
@pytest.mark.parametrize("whole_folder", [False, True])
def test_a_socket_that_is_removed_is_made_again_and_who_is_connected_stays(
    home: Home, serve: Serve, whole_folder: bool
) -> None:
    folder = home.path / "run"
    address = f"unix:{folder}/s"
    home.configure({"server": {"listen": [home.address, address], "http": "127.0.0.1:0"}})
    daemon = serve()
    readyz = f"http://{daemon.events('http_started')[0].subject}/readyz"
    with Client(address) as before:
        assert before.call_tool("time.get_now").ok
        if whole_folder:
            shutil.rmtree(folder)
        else:
            (folder / "s").unlink()
        assert get(readyz)[0] == 503
        assert any(each.name == address for each in daemon.status().warnings)
        eventually(lambda: daemon.events("address_reopened"), what="the socket to be made again")
        assert before.call_tool("time.get_now").ok
        with Client(address) as after:
            assert after.call_tool("time.get_now").ok
            assert (folder / "s").stat().st_mode & 0o777 == 0o600
            assert get(readyz)[0] == 200
            assert [each.subject for each in daemon.events("address_lost")] == [address]
            assert daemon.stop() == 0
    assert list(folder.iterdir()) == []
