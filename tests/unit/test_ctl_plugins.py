"""`ctl plugins`: nothing is trusted that nobody has seen, and what is pinned is printed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from hermesd.api.v1 import admin_pb2
from hermesd.ctl import plugin_trust
from hermesd.terminal.screen import Screen
from tests.unit.ctl_double import Double, serving

FOUND = "sha256:" + "ab" * 32


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Double]:
    with serving(tmp_path) as double:
        yield double


def plugin(**more: Any) -> admin_pb2.Plugin:
    fields: dict[str, Any] = {
        "name": "orders",
        "version": "1.2.0",
        "state": "unavailable",
        "reason": "is not trusted",
        "remedy": "hermesd ctl plugins trust orders",
        "found_digest": FOUND,
        "path": "/etc/hermesd/plugins/orders",
        "files": ["orders.py", "plugin.yaml"],
        "permissions_json": '{"network": ["api.example.com:443"], "read": [], "memory_mb": 256}',
    }
    return admin_pb2.Plugin(**(fields | more))


def trusting(daemon: Double) -> None:
    daemon.answers["GetPlugin"] = admin_pb2.GetPluginResponse(plugin=plugin())
    daemon.answers["TrustPlugin"] = admin_pb2.TrustPluginResponse(
        plugin=plugin(state="ready", reason="", remedy="", digest=FOUND, isolation="inprocess")
    )


def test_the_list_shows_those_in_trouble_first_with_the_place(daemon: Double) -> None:
    answer = admin_pb2.ListPluginsResponse(
        plugins=[plugin(name="a", state="ready", reason=""), plugin(name="b")]
    )
    answer.plugins[1].rejections.add(file="b/b.py", line=3, column=1, reason="invalid syntax")
    daemon.answers["ListPlugins"] = answer
    lines = daemon.run("plugins", "list", "--state", "rejected").out.splitlines()
    assert [each.split()[0] for each in lines] == ["PLUGIN", "b", "a", "b/b.py:3:1:"]


def test_every_page_is_in_the_one_document(daemon: Double) -> None:
    def page(request: admin_pb2.ListPluginsRequest) -> admin_pb2.ListPluginsResponse:
        number = int(request.page_token or 0)
        return admin_pb2.ListPluginsResponse(
            plugins=[plugin(name=f"p{number}")],
            next_page_token=str(number + 1) if number < 2 else "",
            generation=5,
        )

    daemon.answers["ListPlugins"] = page
    document = daemon.run("plugins", "list", "--json").json
    assert [each["name"] for each in document["plugins"]] == ["p0", "p1", "p2"]
    assert document["next_page_token"] == ""
    assert document["generation"] == 5


def test_show_names_files_permissions_and_what_waits(daemon: Double) -> None:
    daemon.answers["GetPlugin"] = admin_pb2.GetPluginResponse(
        plugin=plugin(digest="sha256:cd", tools=["orders.x_y"])
    )
    out = daemon.run("plugins", "show", "orders").out
    for text in ("is not trusted", "hermesd ctl plugins trust orders", FOUND, "sha256:cd", "orders.py"):
        assert text in out
    assert "network: api.example.com:443" in out
    assert "memory_mb: 256" in out
    assert "read" not in out


@pytest.mark.promise("CLI-4")
def test_in_a_pipe_nothing_is_trusted_without_a_digest(daemon: Double) -> None:
    trusting(daemon)
    ran = daemon.run("plugins", "trust", "orders")
    assert ran.status == 2
    assert f"--digest {FOUND}" in ran.err
    assert len(daemon.requests) == 1


def test_yes_pins_exactly_what_was_there(daemon: Double) -> None:
    trusting(daemon)
    ran = daemon.run("plugins", "trust", "orders", "--yes", "--isolation", "process")
    assert ran.status == 0
    assert daemon.last == admin_pb2.TrustPluginRequest(
        name="orders", digest=FOUND, isolation="process", action="trust"
    )
    assert f"pinned       {FOUND}" in ran.out
    assert "orders.py" in ran.out
    assert "network: api.example.com:443" in ran.out
    assert "orders is ready" in ran.out


def test_a_digest_that_is_given_is_pinned_without_a_question(daemon: Double) -> None:
    trusting(daemon)
    ran = daemon.run("plugins", "trust", "orders", "--digest", "sha256:ef", "--json")
    assert ran.json["plugin"]["digest"] == FOUND
    assert len(daemon.requests) == 1
    assert daemon.last.digest == "sha256:ef"


@pytest.mark.promise("CLI-4")
def test_on_a_terminal_the_content_is_shown_and_no_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    screen = Screen(out, io.StringIO(), width=100)
    asked: list[tuple[str, bool]] = []

    def confirm(text: str, *, default: bool, err: bool) -> bool:
        asked.append((text, default))
        return len(asked) > 1

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(click, "confirm", confirm)
    with pytest.raises(click.Abort):
        plugin_trust._agreed(screen, plugin(), follow=False, yes=False)
    assert plugin_trust._agreed(screen, plugin(), follow=True, yes=False) == FOUND
    assert FOUND in out.getvalue()
    assert "orders.py" in out.getvalue()
    assert asked[0][1] is False
    assert "every later change" in asked[1][0]


def test_a_plugin_without_content_cannot_be_trusted(daemon: Double) -> None:
    daemon.answers["GetPlugin"] = admin_pb2.GetPluginResponse(
        plugin=plugin(found_digest="", reason="unreadable")
    )
    ran = daemon.run("plugins", "trust", "orders", "--yes")
    assert ran.status == 1
    assert "unreadable" in ran.err


def test_untrust_says_where_the_plugin_stands(daemon: Double) -> None:
    daemon.answers["TrustPlugin"] = admin_pb2.TrustPluginResponse(plugin=plugin())
    assert "orders is unavailable: is not trusted" in daemon.run("plugins", "untrust", "orders").out
    assert daemon.last == admin_pb2.TrustPluginRequest(name="orders", action="untrust")


def test_grant_and_revoke_name_what_they_change(daemon: Double) -> None:
    daemon.answers["GetPlugin"] = admin_pb2.GetPluginResponse(plugin=plugin())
    daemon.answers["GrantPlugin"] = admin_pb2.GrantPluginResponse(plugin=plugin())
    ran = daemon.run(
        "plugins",
        "grant",
        "orders",
        "--network",
        "a:1",
        "--network",
        "b:2",
        "--secret",
        "T",
        "--memory-mb",
        "9",
    )
    assert ran.status == 0
    assert daemon.last.action == "grant"
    assert json.loads(daemon.last.permissions_json) == {
        "network": ["a:1", "b:2"],
        "secrets": ["T"],
        "memory_mb": 9,
    }
    daemon.run("plugins", "grant", "orders", "--all")
    assert json.loads(daemon.last.permissions_json)["network"] == ["api.example.com:443"]
    daemon.run("plugins", "revoke", "orders", "--call", "text.*")
    assert daemon.last.action == "revoke"
    assert json.loads(daemon.last.permissions_json) == {"calls": ["text.*"]}
    daemon.run("plugins", "revoke", "orders", "--all")
    assert daemon.last.permissions_json == ""


@pytest.mark.parametrize("verb", ["grant", "revoke"])
def test_to_grant_or_revoke_nothing_or_both_is_a_usage_error(daemon: Double, verb: str) -> None:
    assert daemon.run("plugins", verb, "orders").status == 2
    assert daemon.run("plugins", verb, "orders", "--all", "--read", "/x").status == 2
    assert daemon.requests == []


def test_a_plugin_that_asks_for_nothing_is_granted_nothing(daemon: Double) -> None:
    daemon.answers["GetPlugin"] = admin_pb2.GetPluginResponse(plugin=plugin(permissions_json='{"read": []}'))
    assert daemon.run("plugins", "grant", "orders", "--all").status == 1
    assert len(daemon.requests) == 1


def test_enable_disable_and_rollback_say_what_serves(daemon: Double) -> None:
    ready = plugin(state="ready", reason="", digest="sha256:cd")
    daemon.answers["SetPlugin"] = admin_pb2.SetPluginResponse(plugin=ready)
    daemon.answers["RollbackPlugin"] = admin_pb2.RollbackPluginResponse(plugin=ready)
    daemon.run("plugins", "disable", "orders")
    assert daemon.last == admin_pb2.SetPluginRequest(name="orders", enabled=False)
    daemon.run("plugins", "enable", "orders")
    assert daemon.last == admin_pb2.SetPluginRequest(name="orders", enabled=True)
    assert "serves 1.2.0 sha256:cd" in daemon.run("plugins", "rollback", "orders", "sha256:cd").out
    assert daemon.last.digest == "sha256:cd"


def test_history_marks_what_serves(daemon: Double) -> None:
    answer = admin_pb2.ListPluginHistoryResponse()
    answer.contents.add(digest="sha256:b", version="2.0.0", serving=True)
    answer.contents.add(digest="sha256:a", version="1.0.0")
    daemon.answers["ListPluginHistory"] = answer
    lines = daemon.run("plugins", "history", "orders").out.splitlines()
    assert lines[1].startswith("*")
    assert "sha256:a" in lines[2]


def test_log_lines_carry_tool_request_session_and_attempt(daemon: Double) -> None:
    entry = admin_pb2.ReadPluginLogResponse(seq=1)
    line = entry.line
    line.level, line.tool, line.request_id, line.session_id = "warning", "orders.x_y", "r-1", "s-1"
    line.attempt, line.message, line.fields_json = 2, "慢\x1b[31m", '{"ms": 7}'
    daemon.answers["ReadPluginLog"] = [entry]
    out = daemon.run("plugins", "logs", "orders", "-n", "5", "-f").out
    assert '[orders.x_y r-1 session s-1 attempt 2] 慢 {"ms": 7}\n' in out
    assert daemon.last == admin_pb2.ReadPluginLogRequest(name="orders", lines=5, follow=True)
    assert json.loads(daemon.run("plugins", "logs", "orders", "--json").out)["line"]["attempt"] == 2


def test_a_traceback_in_the_log_is_printed_as_python_prints_it(daemon: Double) -> None:
    entry = admin_pb2.ReadPluginLogResponse(seq=1)
    entry.line.level, entry.line.message = "error", "KeyError: '城'"
    trace = "Traceback (most recent call last):\n  File \"w.py\", line 3\x1b[2J, in get\nKeyError: '城'\n"
    entry.line.fields_json = json.dumps({"trace": trace, "ms": 7})
    daemon.answers["ReadPluginLog"] = [entry]
    lines = daemon.run("plugins", "logs", "orders").out.splitlines()
    assert lines[0].endswith("KeyError: '城' {\"ms\": 7}")
    assert lines[1] == "    Traceback (most recent call last):"
    assert lines[2].startswith('      File "w.py", line 3')
    assert "\x1b" not in lines[2]
    assert lines[3] == "    KeyError: '城'"
