"""Completion: the script for each shell, names from the daemon, silence and speed without one."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from hermesd.__main__ import cli
from hermesd.api.v1 import admin_pb2, agent_pb2, call_pb2, confirmation_pb2, tool_pb2
from tests.unit.ctl_double import Double, run, serving


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Double]:
    with serving(tmp_path) as double:
        yield double


def completions(*words: str) -> list[str]:
    """What a shell would offer for the last word."""
    complete = BashComplete(cli, {}, "hermesd", "_HERMESD_COMPLETE")
    return [each.value for each in complete.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(shell: str) -> None:
    ran = run("completion", shell)
    assert ran.status == 0
    assert "_HERMESD_COMPLETE" in ran.out
    binary = shutil.which(shell)
    if binary is not None:
        subprocess.run([binary, "-n"], input=ran.out, text=True, check=True, timeout=10)


def test_an_unknown_shell_is_a_usage_error() -> None:
    assert run("completion", "tcsh").status == 2


def test_commands_and_flags_complete_without_a_daemon() -> None:
    assert completions("ctl", "plugins", "re") == ["revoke"]
    assert completions("ctl", "re") == ["reload", "resume"]
    assert "--dry-run" in completions("ctl", "reload", "--d")


@pytest.mark.promise("CLI-10")
def test_names_come_from_the_daemon(daemon: Double) -> None:
    daemon.answers["ListTools"] = tool_pb2.ListToolsResponse(
        tools=[tool_pb2.Tool(name="orders.query_status"), tool_pb2.Tool(name="text.count_words")]
    )
    daemon.answers["ListPlugins"] = admin_pb2.ListPluginsResponse(plugins=[admin_pb2.Plugin(name="orders")])
    flags = ("ctl", "--address", daemon.address)
    assert completions(*flags, "tools", "call", "or") == ["orders.query_status"]
    assert completions(*flags, "plugins", "trust", "") == ["orders"]


@pytest.mark.promise("CLI-10")
def test_agents_calls_and_confirmations_complete_too(daemon: Double) -> None:
    daemon.answers["ListAgents"] = agent_pb2.ListAgentsResponse(agents=[agent_pb2.Agent(name="reporter")])
    daemon.answers["ListConfirmations"] = confirmation_pb2.ListConfirmationsResponse(
        confirmations=[confirmation_pb2.Confirmation(id="3f9a1c2b")]
    )
    daemon.answers["ListCalls"] = call_pb2.ListCallsResponse(
        calls=[
            call_pb2.CallRecord(request_id="r-2", state="running"),
            call_pb2.CallRecord(request_id="r-1", state="ended"),
        ]
    )
    flags = ("ctl", "--address", daemon.address)
    for verb in ("rotate", "revoke"):
        assert completions(*flags, "agents", verb, "") == ["reporter"]
    for verb in ("show", "watch", "output", "replay"):
        assert completions(*flags, "calls", verb, "") == ["r-2", "r-1"]
    assert completions(*flags, "calls", "cancel", "") == ["r-2"]
    assert completions(*flags, "confirmations", "approve", "") == ["3f9a1c2b"]
    assert completions(*flags, "calls", "list", "--agent", "") == ["reporter"]
    assert completions(*flags, "calls", "list", "--code", "T") == ["TIMEOUT", "TOOL_ERROR"]
    assert completions(*flags, "confirmations", "list", "--state", "") == ["pending", "approved", "denied"]
    assert "rejected" in completions(*flags, "plugins", "list", "--state", "")


@pytest.mark.promise("CLI-10")
def test_without_a_daemon_there_is_nothing_and_nobody_waits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    assert completions("ctl", "--address", f"unix:{tmp_path / 'none.sock'}", "tools", "call", "") == []
    assert completions("ctl", "--address", "nonsense", "tools", "call", "") == []
    assert time.monotonic() - started < 5
    assert capfd.readouterr() == ("", "")


@pytest.mark.promise("CLI-10")
def test_a_daemon_that_hangs_does_not_hang_the_shell(daemon: Double) -> None:
    answered = threading.Event()

    def hang(_request: tool_pb2.ListToolsRequest) -> tool_pb2.ListToolsResponse:
        answered.wait(20)
        return tool_pb2.ListToolsResponse(tools=[tool_pb2.Tool(name="late.to_come")])

    daemon.answers["ListTools"] = hang
    started = time.monotonic()
    assert completions("ctl", "--address", daemon.address, "tools", "call", "") == []
    assert time.monotonic() - started < 5
    answered.set()
