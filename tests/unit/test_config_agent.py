"""Agents and their addresses in the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermesd.config.configuration import AgentEntry, Configuration, Tls, ToolRights
from hermesd.config.load import load_configuration
from hermesd.errors import ConfigError

SHA = "ab" * 32


def load(folder: Path, text: str) -> Configuration:
    path = folder / "hermesd.yaml"
    path.write_text(text, encoding="utf-8")
    return load_configuration(path, environ={})


@pytest.mark.promise("IDN-8")
def test_an_agent_is_read_with_all_its_rights(tmp_path: Path) -> None:
    configuration = load(
        tmp_path,
        f"""
server:
  agents_listen: ["unix:a.sock", "127.0.0.1:7443", "[::1]:7443", "localhost:0", "0.0.0.0:443"]
  tls: {{cert: c.pem, key: k.pem, client_ca: /etc/ca.pem}}
agents:
  reporter:
    token_sha256: {SHA}
    roles: [agent, clerk]
    tools: {{allow: ["orders.*"], deny: ["*.delete_*"]}}
    ceiling: read
    self_confirm: true
    expires: 2027-06-30
  zhang: {{tools: {{allow: ["*"]}}, expires: "2027-06-30T08:00:00+08:00"}}
""",
    )
    assert configuration.agents == {
        "reporter": AgentEntry(
            SHA, ("agent", "clerk"), ToolRights(("orders.*",), ("*.delete_*",)), "read", True,
            expires="2027-06-30T00:00:00+00:00",
        ),
        "zhang": AgentEntry(tools=ToolRights(("*",)), expires="2027-06-30T00:00:00+00:00"),
    }  # fmt: skip
    assert configuration.server.agents_listen[0] == f"unix:{tmp_path}/a.sock"
    assert configuration.server.tls == Tls(tmp_path / "c.pem", tmp_path / "k.pem", Path("/etc/ca.pem"))
    assert configuration.warnings == ()
    assert SHA not in repr(configuration)


@pytest.mark.promise("IDN-10")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("server: {agents_listen: ['0.0.0.0:1']}", "needs server.tls"),
        ("server: {agents_listen: ['[::]:1']}", "needs server.tls"),
        ("server: {agents_listen: ['host.example:1']}", "needs server.tls"),
        ("server: {agents_listen: ['7443']}", "neither unix:PATH nor HOST:PORT"),
        ("server: {agents_listen: [':7443']}", "neither unix:PATH nor HOST:PORT"),
        ("server: {agents_listen: ['127.0.0.1:x']}", "neither unix:PATH nor HOST:PORT"),
        ("server: {agents_listen: ['127.0.0.1:70000']}", "neither unix:PATH nor HOST:PORT"),
        ("server: {agents_listen: ['::1:7443']}", "needs brackets"),
        ("server: {agents_listen: ['unix:']}", "the path is empty"),
        ("server: {agents_listen: ['127.0.0.1:1', '127.0.0.1:1']}", "one address twice"),
        ("server: {listen: ['unix:/a'], agents_listen: ['unix:/a']}", "the operator's address too"),
        ("server: {tls: {cert: c}}", "needs server.tls.key"),
        ("server: {tls: {key: c}}", "needs server.tls.cert"),
        ("server: {tls: {client_ca: c}}", "needs server.tls.cert"),
        ("agents: {Reporter: {}}", "no agent's name"),
        ("agents: {operator: {}}", "the daemon's own"),
        ("agents: {a: {token_sha256: geheim}}", "no SHA-256"),
        ("agents: {a: {ceiling: all}}", "expected one of none, read"),
        ("agents: {a: {expires: soon}}", "no date"),
        ("agents: {a: {tools: {alow: []}}}", "'allow'"),
        (f"agents: {{a: {{token_sha256: {SHA}}}, b: {{token_sha256: {SHA}}}}}", "the token of a too"),
    ],
)
def test_what_would_not_hold_is_refused_at_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    [rejection] = caught.value.rejections
    assert told in str(rejection)
    assert (rejection.line, bool(rejection.remedy)) == (1, True)
    assert "geheim" not in str(rejection)


def test_an_agent_that_nobody_can_be_and_one_without_tools_are_said_aloud(tmp_path: Path) -> None:
    configuration = load(tmp_path, "agents: {a: {tools: {allow: ['*']}}, b: {token_sha256: " + SHA + "}}")
    told = {each.name: each.reason for each in configuration.warnings}
    assert "nobody can be a" in told["agents.a"]
    assert "no tool exists for b" in told["agents.b"]
