"""Calls that run when somebody has agreed to them, through a real daemon and `ctl`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hermesd.terminal.exit_status import ExitStatus
from tests.harness import Daemon, Home, cli, eventually

CODE = """
from pathlib import Path
from typing import Annotated
from hermesd.plugin import tool

@tool(side_effects="destructive", title="Erase a line", when_to_use="to erase", description="Erases.")
def erase_line(text: str, count: int = 1) -> str:
    with Path(PATH).open("a", encoding="utf-8") as stream:
        stream.write(f"{text} {count}\\n")
    return text

@tool(side_effects="read", confirm="caller", when_to_use="to read", description="Reads.",
      examples=[{"user_says": "read it", "arguments": {"name": "a"}}])
def read_private(name: str) -> str:
    with Path(PATH).open("a", encoding="utf-8") as stream:
        stream.write(f"read {name}\\n")
    return name

@tool(side_effects="read", description="Calls the other one.")
def erase_through(ctx) -> str:
    return ctx.call("gone.erase_line", text="through")
"""
TOOL = "gone.erase_line"


class Erasing:
    """A daemon whose tools leave a line each time they run."""

    def __init__(self, home: Home, serve: Callable[..., Daemon], isolation: str) -> None:
        self.home, self.serve, self.isolation = home, serve, isolation
        self.file = home.path / "erased"
        home.plugin(
            "gone", CODE.replace("PATH", repr(str(self.file))), manifest="permissions:\n  calls: ['*']\n"
        )
        self.configure()
        self.daemon = serve()

    def configure(self, **defaults: Any) -> None:
        trusted = {"gone": {"follow": True, "isolation": self.isolation, "grant": {"calls": ["*"]}}}
        self.home.configure({"defaults": defaults} if defaults else None, trusted=trusted)

    def asked(self, *words: str) -> dict[str, Any]:
        """The `detail` of a call that has to be confirmed."""
        done = self.daemon.ctl("--json", "tools", "call", TOOL, *words)
        result = json.loads(done.stdout)["result"]
        assert (done.returncode, result["code"]) == (
            ExitStatus.CONFIRMATION_REQUIRED,
            "CONFIRMATION_REQUIRED",
        )
        assert (result["effect"], result["data_json"]) == ("none", "null")
        detail: dict[str, Any] = json.loads(result["detail_json"])
        return detail

    def confirmed(self, token: str, *words: str) -> int:
        return self.daemon.ctl("tools", "call", TOOL, *words, "--confirm", token).returncode

    @property
    def lines(self) -> list[str]:
        return self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []


@pytest.fixture
def erasing(home: Home, serve: Callable[..., Daemon]) -> Erasing:
    return Erasing(home, serve, "inprocess")


@pytest.mark.promise("CONF-2")
@pytest.mark.promise("CONF-3")
@pytest.mark.promise("CONF-4")
@pytest.mark.parametrize("isolation", ["inprocess", "process"])
def test_what_is_destructive_runs_once_when_it_was_confirmed(
    home: Home, serve: Callable[..., Daemon], isolation: str
) -> None:
    erasing = Erasing(home, serve, isolation)
    detail = erasing.asked("text=旧", "count:=2")
    assert detail["summary"] == 'Erase a line (gone.erase_line 1.0.0, destructive) with text="旧", count=2'
    token = detail["confirmation_token"]
    assert erasing.confirmed(token, "text=新", "count:=2") == ExitStatus.CONFIRMATION_REQUIRED
    assert erasing.lines == []
    assert erasing.confirmed(token, "count:=2", "text=旧") == ExitStatus.DONE
    assert erasing.lines == ["旧 2"]
    assert erasing.confirmed(token, "text=旧", "count:=2") == ExitStatus.CONFIRMATION_REQUIRED
    assert erasing.lines == ["旧 2"]


@pytest.mark.promise("CLI-2")
def test_a_person_is_told_what_would_happen_and_how_to_go_on(erasing: Erasing) -> None:
    done = erasing.daemon.ctl("tools", "call", TOOL, "text=x")
    assert (done.returncode, done.stdout) == (ExitStatus.CONFIRMATION_REQUIRED, "")
    assert 'summary: Erase a line (gone.erase_line 1.0.0, destructive) with text="x"' in done.stderr
    assert "confirmation_token: " in done.stderr
    assert "call again with the same arguments" in done.stderr
    shown = erasing.daemon.ctl("tools", "show", TOOL).stdout
    assert "confirmed by     operator" in shown
    streamed = erasing.daemon.ctl("tools", "call", TOOL, "text=x", "--stream")
    assert streamed.returncode == ExitStatus.CONFIRMATION_REQUIRED
    token = erasing.asked("text=x")["confirmation_token"]
    streamed = erasing.daemon.ctl("tools", "call", TOOL, "text=x", "--stream", "--confirm", token)
    assert (streamed.returncode, erasing.lines) == (ExitStatus.DONE, ["x 1"])


@pytest.mark.promise("CONF-6")
@pytest.mark.promise("CONF-7")
def test_the_operators_list_and_events_hold_no_token_and_the_events_no_arguments(erasing: Erasing) -> None:
    detail = erasing.asked("text=unmistakable")
    identity, _, secret = detail["confirmation_token"].partition(".")
    listed = erasing.daemon.ctl_json("confirmations", "list")
    [each] = listed["confirmations"]
    assert (each["id"], each["state"], each["by"], each["agent"]) == (
        identity,
        "pending",
        "caller",
        "operator",
    )
    assert (each["summary"], json.loads(each["arguments_json"])) == (
        detail["summary"],
        {"text": "unmistakable"},
    )
    people = erasing.daemon.ctl("confirmations", "list").stdout
    assert f"{identity} gone.erase_line 1.0.0: waits for its caller" in people
    refused = erasing.daemon.ctl("confirmations", "approve", identity)
    assert (refused.returncode, "its caller's own" in refused.stderr) == (ExitStatus.FAILED, True)
    denied = erasing.daemon.ctl_json("confirmations", "deny", identity, "--reason", "not today")
    assert (denied["confirmation"]["state"], denied["confirmation"]["decided_by"]) == ("denied", "operator")
    told = erasing.daemon.ctl(
        "tools", "call", TOOL, "text=unmistakable", "--confirm", detail["confirmation_token"]
    )
    assert (told.returncode, "not today" in told.stderr) == (ExitStatus.DENIED, True)
    assert [each.kind for each in erasing.daemon.events() if each.kind.startswith("confirmation")] == [
        "confirmation_requested",
        "confirmation_denied",
    ]
    everything = erasing.daemon.log_text() + str(erasing.daemon.events()) + json.dumps(listed)
    assert secret not in everything
    assert "unmistakable" not in erasing.daemon.log_text() + str(erasing.daemon.events())
    assert erasing.lines == []
    files = [each for each in erasing.home.data.rglob("*") if each.is_file()]
    assert files
    assert not [each for each in files if secret.encode() in each.read_bytes()]


@pytest.mark.promise("CONF-8")
def test_no_secret_is_shown_to_who_decides(erasing: Erasing) -> None:
    detail = erasing.asked("text=Bearer abcdefghijklmnop")
    assert 'text="Bearer [redacted token]"' in detail["summary"]
    assert "abcdefghijklmnop" not in erasing.daemon.ctl("confirmations", "list").stdout


@pytest.mark.promise("CONF-5")
def test_no_token_outlives_the_daemon(erasing: Erasing) -> None:
    token = erasing.asked("text=x")["confirmation_token"]
    erasing.daemon.kill()
    erasing.daemon = erasing.serve()
    assert erasing.daemon.ctl_json("confirmations", "list")["confirmations"] == []
    assert erasing.confirmed(token, "text=x") == ExitStatus.CONFIRMATION_REQUIRED
    assert erasing.lines == []


@pytest.mark.promise("CONF-3")
def test_what_was_confirmed_is_the_code_that_runs(erasing: Erasing) -> None:
    token = erasing.asked("text=x")["confirmation_token"]
    erasing.home.plugin(
        "gone",
        CODE.replace("PATH", repr(str(erasing.file))) + "\n# another content of the same definition\n",
        manifest="permissions:\n  calls: ['*']\n",
    )
    erasing.daemon.reload()
    assert erasing.confirmed(token, "text=x") == ExitStatus.CONFIRMATION_REQUIRED
    assert erasing.lines == []


@pytest.mark.promise("CONF-10")
def test_a_plugin_does_not_confirm(erasing: Erasing) -> None:
    with erasing.daemon.client() as client:
        result = client.call_tool("gone.erase_through")
    assert (result.code, erasing.lines) == ("DEPENDENCY_FAILED", [])
    assert "needs a confirmation" in result.message


@pytest.mark.promise("CONF-10")
def test_a_check_runs_no_example_that_needs_agreement(erasing: Erasing) -> None:
    done = cli("plugin", "check", str(erasing.home.plugins / "gone"), "--call")
    assert (done.returncode, erasing.lines) == (0, []), done.stdout + done.stderr


@pytest.mark.promise("CONF-5")
@pytest.mark.promise("HOS-9")
def test_how_long_a_confirmation_waits_is_a_live_setting(erasing: Erasing) -> None:
    erasing.configure(confirmation_ttl_s=1)
    erasing.daemon.reload()
    token = erasing.asked("text=x")["confirmation_token"]
    eventually(lambda: erasing.daemon.events("confirmation_expired"), 5, "the event of its end")
    assert erasing.confirmed(token, "text=x") == ExitStatus.CONFIRMATION_REQUIRED
    assert erasing.lines == []
