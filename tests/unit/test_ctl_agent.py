"""`ctl agents`: what is asked of the daemon, and what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermesd.api.v1 import agent_pb2
from tests.unit.ctl_double import Double, serving

AGENT = agent_pb2.Agent(
    name="reporter", state="active", origin="config", roles=["agent"], ceiling="read", place="/etc/h.yaml:3",
    tools=agent_pb2.ToolRights(allow=["orders.*", "text.*"], deny=["*.delete_*"]),
)  # fmt: skip


@pytest.fixture
def double(tmp_path: Path) -> Iterator[Double]:
    with serving(tmp_path) as made:
        yield made


def test_the_token_stands_alone_on_stdout(double: Double) -> None:
    double.answers["AddAgent"] = agent_pb2.AddAgentResponse(agent=AGENT, token="hermesd_abc")
    ran = double.run(
        "agents", "add", "reporter", "--allow", "orders.*", "--allow", "text.*", "--deny", "*.delete_*",
        "--role", "clerk", "--ceiling", "read", "--self-confirm", "--expires", "2030-01-01T08:00:00+08:00",
    )  # fmt: skip
    assert (ran.status, ran.out) == (0, "hermesd_abc\n")
    assert "shown this once" in ran.err
    asked = double.last
    assert (asked.name, list(asked.roles), asked.ceiling, asked.self_confirm) == (
        "reporter", ["clerk"], "read", True,
    )  # fmt: skip
    assert (list(asked.tools.allow), list(asked.tools.deny)) == (["orders.*", "text.*"], ["*.delete_*"])
    assert asked.expires.ToDatetime(UTC) == datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("text", "seconds"), [("30d", 30 * 86400), ("12h", 43200), ("5m", 300)])
def test_an_end_may_be_said_from_now(double: Double, text: str, seconds: int) -> None:
    double.answers["AddAgent"] = agent_pb2.AddAgentResponse(agent=AGENT, token="t")
    assert double.run("agents", "add", "reporter", "--expires", text).status == 0
    left = double.last.expires.ToDatetime(UTC) - datetime.now(UTC)
    assert abs(left - timedelta(seconds=seconds)) < timedelta(seconds=60)


@pytest.mark.parametrize("text", ["soon", "", "d", "99999999999999d", "2027-13-01"])
def test_what_is_no_end_is_a_usage_error(double: Double, text: str) -> None:
    assert double.run("agents", "add", "reporter", "--expires", text).status == 2
    assert double.requests == []


def test_an_agent_without_tools_is_said_to_have_none(double: Double) -> None:
    double.answers["AddAgent"] = agent_pb2.AddAgentResponse(agent=AGENT, token="t")
    assert "no tool exists" in double.run("agents", "add", "reporter").err


def test_json_is_the_response(double: Double) -> None:
    double.answers["RotateAgent"] = agent_pb2.RotateAgentResponse(agent=AGENT, token="hermesd_new")
    document = double.run("--json", "agents", "rotate", "reporter").json
    assert (document["token"], document["agent"]["name"]) == ("hermesd_new", "reporter")
    double.answers["RevokeAgent"] = agent_pb2.RevokeAgentResponse()
    assert double.run("--json", "agents", "revoke", "reporter").json == {}
    assert double.last.name == "reporter"


def test_the_list_shows_rights_and_who_spoke(double: Double) -> None:
    pages = {"": (["a"], "next"), "next": (["b"], "")}

    def page(request: agent_pb2.ListAgentsRequest) -> agent_pb2.ListAgentsResponse:
        names, token = pages[request.page_token]
        agents = []
        for name in names:
            each = agent_pb2.Agent()
            each.CopyFrom(AGENT)
            each.name = name
            agents.append(each)
        return agent_pb2.ListAgentsResponse(agents=agents, next_page_token=token)

    double.answers["ListAgents"] = page
    out = double.run("agents", "list").out
    for shown in ("a ", "b ", "orders.* text.*", "*.delete_*", "read", "never", "/etc/h.yaml:3"):
        assert shown in out
    assert [each["name"] for each in double.run("agents", "list", "--json").json["agents"]] == ["a", "b"]


def test_whoami_shows_the_token_and_what_it_gives(double: Double, tmp_path: Path) -> None:
    double.answers["WhoAmI"] = agent_pb2.WhoAmIResponse(name="reporter", kind="agent", ceiling="read")
    (tmp_path / "token").write_text("geheim\n")
    out = double.run("--token-file", str(tmp_path / "token"), "agents", "whoami").out
    assert "reporter" in out
    assert "allow    -\n" in out
    assert double.metadata[-1]["authorization"] == "Bearer geheim"


def test_files_of_tls_that_cannot_be_read_are_a_usage_error(double: Double, tmp_path: Path) -> None:
    ran = double.run("--ca-file", str(tmp_path / "absent"), "agents", "whoami")
    assert (ran.status, "absent" in ran.err) == (2, True)
    ran = double.run("--cert-file", str(tmp_path / "absent"), "agents", "whoami")
    assert (ran.status, "belong together" in ran.err) == (2, True)
