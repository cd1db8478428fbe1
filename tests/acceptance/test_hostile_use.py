"""Clients, plugins and files that mean no good, or were made by mistake, against a real daemon."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

import grpc
import pytest

from hermesd.api.v1 import tool_pb2, tool_pb2_grpc
from tests.harness import ROOT, Daemon, Home, cli, environment, eventually

CODE = '''
import asyncio
import threading
import time
from hermesd.plugin import tool, ToolContext, ToolError

LEFT = []

class Untellable(BaseException):
    def __str__(self):
        raise self
    __repr__ = __str__

@tool(side_effects="read")
def raise_worst(kind: str) -> str:
    """Fails."""
    raise Untellable if kind == "untellable" else ToolError("no", detail={"page": "x" * 20_000_000})

@tool(side_effects="read")
async def araise_worst() -> str:
    """Fails."""
    raise Untellable

@tool(side_effects="read")
async def exit_behind() -> str:
    """Leaves a task behind that exits."""
    async def leave():
        raise SystemExit(4)
    LEFT.append(asyncio.get_running_loop().create_task(leave()))
    await asyncio.sleep(0.05)
    return "done"

@tool(side_effects="read")
async def wait_short() -> str:
    """Waits."""
    await asyncio.sleep(0.05)
    return "waited"

@tool(side_effects="read")
def call_late(ctx: ToolContext) -> str:
    """Leaves a thread behind that calls a tool."""
    def late():
        time.sleep(0.2)
        try:
            LEFT.append(ctx.call("worst.wait_short"))
        except Exception as error:
            LEFT.append(f"refused: {error}")
    LEFT.clear()
    threading.Thread(target=late).start()
    return "left"

@tool(side_effects="read")
def show_left() -> list[str]:
    """What came of it."""
    return [str(each) for each in LEFT]
'''
MANIFEST = 'permissions: {calls: ["worst.*"]}\n'


@pytest.fixture(params=["inprocess", "process"])
def worst(request: pytest.FixtureRequest, home: Home, serve: Callable[..., Daemon]) -> Daemon:
    """A daemon with the worst of plugins, in either place."""
    entry = {"follow": True, "isolation": request.param, "grant": {"calls": ["worst.*"]}}
    home.configure({"defaults": {"max_concurrency": 2}}, trusted={"worst": entry})
    home.plugin("worst", CODE, manifest=MANIFEST)
    return serve()


@pytest.mark.promise("HOS-1")
def test_errors_that_cannot_be_told_and_tasks_that_exit_are_answered_at_once_and_cost_nothing(
    worst: Daemon,
) -> None:
    with worst.client() as client:
        # More often than the plugin has threads.
        for _ in range(12):
            assert client.call_tool("worst.raise_worst", {"kind": "untellable"}).code == "TOOL_ERROR"
            assert client.call_tool("worst.araise_worst", {}).code == "TOOL_ERROR"
        for _ in range(2):
            assert client.call_tool("worst.exit_behind", {}).data == "done"
            assert client.call_tool("worst.wait_short", {}).data == "waited"


@pytest.mark.promise("HOS-2")
def test_an_error_with_twenty_megabytes_of_detail_is_an_envelope(worst: Daemon) -> None:
    with worst.client() as client:
        result = client.call_tool("worst.raise_worst", {"kind": "large"})
    assert result.code == "TOOL_ERROR"
    assert result.detail["cut"] == 1


@pytest.mark.promise("HOS-5")
def test_a_thread_that_outlives_its_call_can_call_no_tool(worst: Daemon) -> None:
    assert worst.call("worst.call_late") == "left"
    left = eventually(lambda: worst.call("worst.show_left"), what="the late call")
    assert left[0].startswith("refused: CANCELLED")


@pytest.mark.promise("HOS-3")
def test_a_folder_whose_name_is_no_text_is_told_and_costs_no_answer(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    for name in (b"\xff\xfe", b"\x1b[31mred", b"a\nb", b"\xe2\x80\xaeabc"):
        folder = os.fsencode(home.plugins) + b"/" + name
        os.mkdir(folder)
        with open(folder + b"/plugin.yaml", "wb") as file:
            file.write(b"name: orders\nversion: 1.0.0\nentry: orders.py\n")
    daemon = serve()
    for words in (("status",), ("plugins", "list"), ("reload",), ("events",), ("--json", "status")):
        told = daemon.ctl(*words)
        assert told.returncode in (0, 1), told.stderr
        assert not set("\x1b\u202e\ufeff") & set(told.stdout + told.stderr)
    assert "\x1b" not in daemon.log_text()


@pytest.mark.promise("HOS-4")
def test_a_thousand_calls_at_once_on_one_connection_are_all_answered(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    home.configure(
        {"defaults": {"max_concurrency": 10000, "queue_ms": 20000, "timeouts_ms": {"python": 20000}}}
    )
    daemon = serve()

    async def storm() -> set[str]:
        async with grpc.aio.insecure_channel(home.address) as channel:
            stub = tool_pb2_grpc.ToolServiceStub(channel)
            request = tool_pb2.CallToolRequest(name="text.count_stats", arguments_json='{"text": "a b"}')
            answers = await asyncio.gather(*(stub.CallTool(request, timeout=30) for _ in range(1000)))
            return {each.result.code for each in answers}

    assert asyncio.run(storm()) == {"OK"}
    assert daemon.call("text.count_stats", text="a b")["words"] == 2


@pytest.mark.promise("HOS-6")
def test_a_daemon_whose_address_is_taken_says_so_in_one_line(home: Home) -> None:
    home.socket.write_text("no socket")
    command = [sys.executable, "-m", "hermesd", "serve", "--config", str(home.config)]
    told = subprocess.run(
        command, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=30, check=False
    )
    assert told.returncode == 1
    assert "Traceback" not in told.stderr
    assert told.stderr.splitlines()[-1].startswith(f"hermesd: address unix:{home.socket}")
    assert home.socket.read_text() == "no socket"


@pytest.mark.promise("HOS-7")
def test_a_plugin_that_switches_logging_off_does_not_silence_the_daemon(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    home.follow("quiet")
    home.plugin(
        "quiet",
        """
        import logging.config
        logging.config.dictConfig({"version": 1})
        logging.basicConfig(force=True)
        logging.disable(logging.CRITICAL)
        """,
    )
    daemon = serve()
    eventually(lambda: "log_restored" in daemon.ctl("events").stdout, what="the log to be put back")
    daemon.stop()
    assert "daemon_stopped" in daemon.log_text() or "stopped" in daemon.log_text().splitlines()[-1]


@pytest.mark.promise("HOS-8")
def test_a_plugin_with_an_exit_handler_that_hangs_keeps_no_daemon_from_ending(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    home.follow("sticky")
    home.plugin(
        "sticky",
        """
        import atexit, threading, time
        atexit.register(time.sleep, 60)
        threading.Thread(target=time.sleep, args=(60,)).start()
        """,
    )
    assert serve().stop(10) == 0


@pytest.mark.promise("HOS-6")
@pytest.mark.parametrize(
    "words", [[b"time.get_now\xff"], [b"time.get_now", b"--timeout-ms", b"99999999999999999999"]]
)
def test_arguments_that_cannot_travel_are_a_usage_error(
    home: Home, serve: Callable[..., Daemon], words: list[bytes]
) -> None:
    serve()
    command = [sys.executable, "-m", "hermesd", "ctl", "--address", home.address, "tools", "call", *words]
    told = subprocess.run(command, capture_output=True, env=environment(), cwd=ROOT, timeout=30, check=False)
    assert told.returncode == 2
    assert b"Traceback" not in told.stderr


@pytest.mark.promise("HOS-6")
@pytest.mark.parametrize("streams", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_daemon_that_is_started_with_closed_streams_serves(home: Home, streams: str) -> None:
    command = f'exec "{sys.executable}" -m hermesd serve --config "{home.config}" {streams}'
    process = subprocess.Popen(["/bin/sh", "-c", command], env=environment(), cwd=ROOT)
    try:
        told = ["ctl", "--address", home.address, "--json", "tools", "call", "text.count_stats", "text=a b"]
        eventually(lambda: home.socket.exists() and cli(*told).returncode == 0, 20, "a call to be answered")
    finally:
        process.terminate()
        assert process.wait(20) == 0


@pytest.mark.promise("HOS-6")
def test_output_that_cannot_be_written_is_told_without_a_traceback() -> None:
    for words in ("--help", "completion bash"):
        command = f'"{sys.executable}" -m hermesd {words} >/dev/full'
        told = subprocess.run(
            ["/bin/sh", "-c", command],
            capture_output=True,
            env=environment(),
            cwd=ROOT,
            timeout=30,
            check=False,
        )
        assert told.returncode == 1
        assert b"Traceback" not in told.stderr
        assert b"cannot be written" in told.stderr
