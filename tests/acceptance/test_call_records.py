"""What an operator finds out about calls, through a real daemon."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermesd.client import Client, ClientError
from tests.harness import Daemon, Home, eventually

CODE = '''
import time
from hermesd.plugin import tool, ToolContext, ToolError

@tool(side_effects="read")
def read_order(order_id: int, password: str = "") -> dict:
    """Reads."""
    return {"order": order_id, "mail": "ann@example.com"}

@tool(side_effects="read")
def fail_always() -> None:
    """Fails."""
    raise ToolError("no such order for ann@example.com")

@tool(side_effects="read")
def nap(ms: int) -> str:
    """Sleeps."""
    time.sleep(ms / 1000)
    return "rested"

@tool(side_effects="read")
def call_nap(ctx: ToolContext) -> str:
    """Calls another tool."""
    return ctx.call("orders.nap", ms=60)

@tool(side_effects="write", title="Place an order")
def place_order(path: str, order_id: int) -> str:
    """Writes."""
    with open(path, "a") as file:
        file.write(f"{order_id}\\n")
    return "placed"

@tool(side_effects="write")
def hold_on(path: str) -> None:
    """Takes its time."""
    open(path, "w").close()
    time.sleep(2)

@tool(side_effects="read")
def never_called() -> None:
    """Nobody wants it."""
'''

TRACED = '''
from hermesd.plugin import tool, ToolContext

@tool(side_effects="none")
def tell_trace(ctx: ToolContext) -> list[str]:
    """Tells."""
    return [ctx.traceparent, ctx.tracestate]
'''


@pytest.fixture
def daemon(home: Home, serve: Callable[..., Daemon]) -> Daemon:
    trusted = {"orders": {"follow": True, "grant": {"calls": ["orders.*"]}}}
    home.plugin("orders", CODE, manifest='permissions: {calls: ["orders.*"]}\n')
    home.configure({"telemetry": {"call_log": {"content": True, "redact": ["*note*"]}}}, trusted=trusted)
    return serve()


@pytest.mark.promise("REC-2")
@pytest.mark.promise("REC-1")
def test_every_call_is_recorded_with_what_was_asked_and_how_it_went(daemon: Daemon, home: Home) -> None:
    with daemon.client() as client:
        done = client.call_tool(
            "orders.read_order",
            {"order_id": 7, "password": "hunter22"},
            session_id="s-1",
            metadata={"step": "3", "api_key": "k-123456"},
        )
        failed = client.call_tool("orders.fail_always")
        unknown = client.call_tool("orders.fail_alway")
        wrong = client.call_tool("orders.read_order", {})
        calls = client.list_calls().calls
        assert [each.request_id for each in calls] == [
            each.request_id for each in (wrong, unknown, failed, done)
        ]
        record = client.get_call(done.request_id).call
    assert record == calls[3]
    assert (record.state, record.code, record.effect, record.agent) == ("ended", "OK", "none", "operator")
    assert (record.plugin, record.source, record.version) == ("orders", "python", "1.0.0")
    assert record.session_id == "s-1"
    assert json.loads(record.arguments) == {"order_id": 7, "password": "[redacted]"}
    assert json.loads(record.result) == {"order": 7, "mail": "[redacted e-mail]"}
    assert not record.arguments_whole
    assert dict(record.metadata) == {"step": "3", "api_key": "[redacted]"}
    assert record.attempts == 1
    assert abs(record.at.ToSeconds() - time.time()) < 60
    split = record.queued_ms + record.run_ms + record.downstream_ms
    assert split == pytest.approx(record.duration_ms)
    assert calls[2].code == "TOOL_ERROR"
    assert "[redacted e-mail]" in calls[2].message
    assert calls[1].source == ""
    assert calls[0].reason.startswith("/order_id: ")

    log = home.data / "logs" / "calls.jsonl"
    lines = [json.loads(each) for each in log.read_text().splitlines()]
    assert [each["code"] for each in lines] == ["OK", "TOOL_ERROR", "UNKNOWN_TOOL", "INVALID_ARGUMENT"]
    assert lines[0]["trace_id"] == record.trace_id
    kept = [*home.data.rglob("calls*"), home.log]
    for path in kept:
        assert b"hunter22" not in path.read_bytes(), path
        assert b"ann@" not in path.read_bytes(), path
    assert log.stat().st_mode & 0o77 == 0
    assert (home.data / "store").stat().st_mode & 0o77 == 0


@pytest.mark.promise("REC-3")
def test_a_call_in_flight_is_listed_and_a_nested_one_belongs_to_its_parent_and_its_trace(
    daemon: Daemon,
) -> None:
    """hermes-agent#9596: calls that no trace could follow."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    parent = f"00-{trace}-b7ad6b7169203331-01"
    with daemon.client() as client:
        long = threading.Thread(target=lambda: daemon.call("orders.nap", ms=1500))
        long.start()
        flying = eventually(lambda: [each for each in client.calls() if each.state == "running"])
        assert flying[0].tool == "orders.nap"
        assert client.get_call(flying[0].request_id).call.state == "running"
        outer = client.call_tool("orders.call_nap", metadata={"traceparent": parent})
        assert outer.ok, outer.message
        whole, inner = client.calls(trace_id=trace)
        long.join()
    assert (inner.tool, inner.parent_request_id) == ("orders.nap", outer.request_id)
    assert (inner.caller, inner.agent) == ("orders", "operator")
    assert inner.parent_span_id == whole.span_id
    assert whole.parent_span_id == "b7ad6b7169203331"
    assert whole.downstream_ms >= 50
    assert whole.run_ms < 50


@pytest.mark.promise("REC-3")
@pytest.mark.parametrize("isolation", ["inprocess", "process"])
def test_a_tool_is_given_the_trace_to_hand_on(
    home: Home, serve: Callable[..., Daemon], isolation: str
) -> None:
    home.follow("traced", isolation=isolation)
    home.plugin("traced", TRACED)
    daemon = serve()
    given = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "vendor=1"}
    with daemon.client() as client:
        result = client.call_tool("traced.tell_trace", metadata=given)
        record = client.get_call(result.request_id).call
        assert result.data == [f"00-{'a' * 32}-{record.span_id}-01", "vendor=1"]
        alone = client.call_tool("traced.tell_trace")
        record = client.get_call(alone.request_id).call
    assert alone.data == [f"00-{record.trace_id}-{record.span_id}-00", ""]
    assert record.parent_span_id == ""


@pytest.mark.promise("REC-4")
def test_stats_tell_durations_failures_unused_and_miscalled_tools(daemon: Daemon) -> None:
    with daemon.client() as client:
        for number in range(20):
            client.call_tool("orders.read_order", {"order_id": number})
        for _ in range(3):
            client.call_tool("orders.read_order", {"order_id": "x"})
            client.call_tool("orders.fail_always")
        client.call_tool("orders.made_up")
        stats = client.get_call_stats(tool="orders.*")
    assert stats.calls == 27
    assert dict(stats.codes) == {"OK": 20, "INVALID_ARGUMENT": 3, "TOOL_ERROR": 3, "UNKNOWN_TOOL": 1}
    assert [(each.tool, each.calls) for each in stats.tools] == [
        ("orders.read_order", 23), ("orders.fail_always", 3),
    ]  # fmt: skip
    assert 0 < stats.tools[0].p50_ms <= stats.tools[0].p95_ms <= stats.tools[0].p99_ms
    assert list(stats.unused_tools) == [
        "orders.call_nap",
        "orders.hold_on",
        "orders.nap",
        "orders.never_called",
        "orders.place_order",
    ]
    assert [(each.tool, each.code, each.count, each.calls) for each in stats.miscalled] == [
        ("orders.read_order", "INVALID_ARGUMENT", 3, 23), ("orders.made_up", "UNKNOWN_TOOL", 1, 1),
    ]  # fmt: skip
    shown = daemon.ctl("calls", "stats", "--since", "1h").stdout
    assert "orders.never_called" in shown
    assert "TOOL_ERROR 3" in shown


@pytest.mark.promise("REC-5")
def test_a_replay_runs_the_same_again_and_what_may_change_something_only_when_confirmed(
    daemon: Daemon, tmp_path: Path
) -> None:
    placed = tmp_path / "placed"
    with daemon.client() as client:
        read = client.call_tool("orders.nap", {"ms": 1})
        write = client.call_tool("orders.place_order", {"path": str(placed), "order_id": 7})
        secret = client.call_tool("orders.read_order", {"order_id": 1, "password": "hunter22"})
        again = client.replay_call(read.request_id)
        assert again.data == "rested"
        assert client.get_call(again.request_id).call.metadata["replay_of"] == read.request_id
        refused = client.replay_call(write.request_id)
        assert (refused.code, refused.effect) == ("CONFIRMATION_REQUIRED", "none")
        assert "Place an order" in refused.detail["summary"]
        token = refused.detail["confirmation_token"]
        other = client.replay_call(
            write.request_id, {"path": str(placed), "order_id": 8}, confirmation_token=token
        )
        assert other.code == "CONFIRMATION_REQUIRED"
    assert placed.read_text() == "7\n"
    asked = daemon.ctl("calls", "replay", write.request_id)
    assert asked.returncode == 5
    token = next(line.split()[1] for line in asked.stderr.splitlines() if "confirmation_token" in line)
    done = daemon.ctl("calls", "replay", write.request_id, "--confirm", token)
    assert (done.returncode, done.stdout.strip()) == (0, '"placed"')
    assert placed.read_text() == "7\n7\n"
    assert daemon.ctl("calls", "replay", write.request_id, "--confirm", token).returncode == 5
    lacking = daemon.ctl("calls", "replay", secret.request_id)
    assert lacking.returncode == 1
    assert "redacted" in lacking.stderr
    assert daemon.ctl("calls", "replay", secret.request_id, "order_id:=2").returncode == 0


@pytest.mark.promise("REC-6")
def test_records_outlive_the_daemon_and_settings_of_the_call_log_are_live(
    daemon: Daemon, home: Home, serve: Callable[..., Daemon]
) -> None:
    daemon.call("orders.nap", ms=1)
    assert daemon.ctl("calls", "list").returncode == 0
    home.configure({"telemetry": {"call_log": {"content": False}}}, trusted={"orders": {"follow": True}})
    assert daemon.ctl("reload").returncode == 0
    daemon.call("orders.nap", ms=2)
    assert daemon.stop() == 0
    lines = [json.loads(each) for each in (home.data / "logs" / "calls.jsonl").read_text().splitlines()]
    assert ["arguments" in each for each in lines] == [True, False]
    again = serve()
    again.call("orders.nap", ms=3)
    listed = again.ctl_json("calls", "list", "--tool", "orders.*")["calls"]
    assert [json.loads(each["arguments"])["ms"] for each in listed] == [3, 2, 1]
    assert len({each["fingerprint"] for each in listed}) == 3
    assert [len(again.ctl_json("calls", "list", "-n", str(each))["calls"]) for each in (1, 2, 9)] == [1, 2, 3]


@pytest.mark.promise("REC-2")
def test_a_call_that_a_kill_interrupted_is_recorded_as_of_unknown_fate(
    daemon: Daemon, home: Home, serve: Callable[..., Daemon], tmp_path: Path
) -> None:
    held = tmp_path / "held"
    with daemon.client() as client:
        asked = threading.Thread(target=_ignore, args=(client, str(held)))
        asked.start()
        eventually(held.exists)
        daemon.kill()
        asked.join()
    again = serve()
    [call] = eventually(lambda: again.ctl_json("calls", "list", "--tool", "orders.hold_on")["calls"])
    assert (call["request_id"], call["code"], call["effect"]) == ("held-1", "UNAVAILABLE", "unknown")
    assert (call["reason"], call["agent"]) == ("interrupted", "operator")
    assert again.ctl("calls", "replay", "held-1").returncode == 1


def _ignore(client: Client, path: str) -> None:
    with contextlib.suppress(ClientError):
        client.call_tool("orders.hold_on", {"path": path}, request_id="held-1", timeout_s=10)
