"""Agents whose calls wait for the operator, through a real daemon: token, ctl, restart, revocation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermesd.client import Client
from hermesd.client.result import CallResult
from hermesd.terminal.exit_status import ExitStatus
from tests.harness import Daemon, Home

CODE = """
from pathlib import Path
from hermesd.plugin import tool

@tool(side_effects="destructive", title="Erase a line", when_to_use="to erase", description="Erases.")
def erase_line(text: str) -> str:
    with Path(PATH).open("a", encoding="utf-8") as stream:
        stream.write(f"{text}\\n")
    return text
"""
TOOL = "gone.erase_line"


class Agents:
    """A daemon, and agents that may do everything that its one tool does."""

    def __init__(self, home: Home, serve: Callable[..., Daemon]) -> None:
        self.file = home.path / "erased"
        home.plugin("gone", CODE.replace("PATH", repr(str(self.file))))
        home.follow("gone")
        self.daemon = serve()
        self.tokens = {
            "reporter": self._add("reporter"),
            "writer": self._add("writer"),
            "deputy": self._add("deputy", self_confirm=True),
        }

    def _add(self, name: str, **rights: Any) -> str:
        with self.daemon.client() as client:
            return client.add_agent(name, allow=["*"], ceiling="destructive", **rights).token

    def call(self, agent: str, token: str = "", text: str = "x") -> CallResult:
        with Client(self.daemon.home.address, token=self.tokens[agent]) as client:
            return client.call_tool(TOOL, {"text": text}, confirmation_token=token)

    @property
    def lines(self) -> list[str]:
        return self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []


@pytest.fixture
def agents(home: Home, serve: Callable[..., Daemon]) -> Agents:
    return Agents(home, serve)


@pytest.mark.promise("CONF-1")
@pytest.mark.promise("CONF-6")
def test_the_operator_is_told_and_decides(agents: Agents) -> None:
    asked = agents.call("reporter")
    assert (asked.code, asked.detail["confirm"]) == ("CONFIRMATION_REQUIRED", "operator")
    token = asked.confirmation_token
    assert agents.daemon.status().confirmations == 1
    assert "1 call waits for your agreement" in agents.daemon.ctl("status").stdout
    assert agents.call("reporter", token).code == "CONFIRMATION_REQUIRED"
    identity = agents.daemon.ctl_json("confirmations", "list")["confirmations"][0]["id"]
    assert agents.daemon.ctl("confirmations", "approve", identity).returncode == ExitStatus.DONE
    assert agents.call("writer", token).code == "CONFIRMATION_REQUIRED"
    assert agents.lines == []
    assert agents.call("reporter", token).data == "x"
    assert agents.call("reporter", token).code == "CONFIRMATION_REQUIRED"
    assert agents.lines == ["x"]


@pytest.mark.promise("CONF-6")
def test_an_agent_resolves_nothing_and_a_deputy_only_its_own(agents: Agents) -> None:
    token = agents.call("reporter").confirmation_token
    for agent in agents.tokens:
        with Client(agents.daemon.home.address, token=agents.tokens[agent]) as client:
            for attempt in (client.approve_confirmation, client.deny_confirmation):
                with pytest.raises(Exception, match="operator"):
                    attempt(token)
    assert agents.call("deputy", token).code == "CONFIRMATION_REQUIRED"
    assert agents.call("reporter", token).code == "CONFIRMATION_REQUIRED"
    own = agents.call("deputy").confirmation_token
    assert agents.call("deputy", own).code == "OK"
    assert agents.lines == ["x"]


@pytest.mark.promise("CONF-5")
def test_what_was_approved_for_an_agent_ends_with_its_token(agents: Agents) -> None:
    """Another agent of the same name is another agent."""
    token = agents.call("reporter").confirmation_token
    with agents.daemon.client() as client:
        client.approve_confirmation(token)
        agents.tokens["reporter"] = client.rotate_agent("reporter").token
    assert agents.call("reporter", token).code == "CONFIRMATION_REQUIRED"
    assert agents.lines == []
