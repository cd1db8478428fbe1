"""An operator who reads the log, `status` and a reload's answer misses nothing and reads nothing twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.harness import Daemon, Home, cli, eventually

CODE = '''
from hermesd.plugin import tool

@tool(side_effects="none", idempotent=True, when_to_use="to greet")
def say_word() -> str:
    """Greets."""
    return "WORD"
'''


@pytest.mark.promise("DOC-2")
def test_content_that_waits_for_trust_is_told_by_the_log_by_status_and_by_a_reload(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    home.plugin("greeter", CODE.replace("WORD", "hello"))
    daemon = serve()
    first = daemon.ctl("reload")
    assert first.returncode == 0
    assert "greeter: warning: not trusted" in first.stdout
    assert "hermesd ctl plugins trust greeter --digest sha256:" in first.stdout

    assert daemon.ctl("plugins", "trust", "greeter", "--yes").returncode == 0
    assert "greeter" not in daemon.ctl("reload").stdout
    home.plugin("greeter", CODE.replace("WORD", "bye"))
    waits = eventually(lambda: "plugin_waiting greeter: " in daemon.log_text() and daemon.ctl("reload"))
    assert waits.returncode == 0, "what waits for trust is no rejection"
    assert "greeter: warning: " in waits.stdout
    status = daemon.ctl("status").stdout
    assert "greeter: warning: " in status.split("address", 1)[0], status
    assert daemon.log_text().count("plugin_waiting greeter") == 1, "each thing is told once"
    assert daemon.call("greeter.say_word") == "hello"


@pytest.mark.promise("DOC-6")
def test_since_is_when_it_came_to_be_so(home: Home, serve: Callable[..., Daemon]) -> None:
    daemon = serve()
    by_now = datetime.now(UTC)
    time.sleep(0.3)
    for plugin in daemon.ctl_json("plugins", "list")["plugins"]:
        since = datetime.fromisoformat(plugin["since"])
        assert since <= by_now, plugin["name"]


@pytest.mark.promise("DOC-1")
def test_the_log_of_a_start_is_short_and_says_each_thing_once(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    daemon = serve()
    text = daemon.log_text()
    assert len(text.splitlines()) <= 10, text
    assert "seq=" not in text
    assert "plugin_unavailable files: " in text, "what cannot be called is not called ready"
    assert "daemon_ready" in text
    assert "of 15 tools ready, 0 rejected" in text, text
    assert max(len(line) for line in text.splitlines()) < 250, text


def test_checking_one_plugin_speaks_of_that_plugin_alone(home: Home) -> None:
    home.configure(
        trusted={"other": {"follow": True}},
        settings={"files": {"roots": [str(home.path)]}, "gone": {"a": 1}},
    )
    folder = home.plugin("greeter", CODE.replace("tool(", "tool(when_not_to_use='never', "))
    checked = cli("plugin", "check", "--trust", str(folder), env={"HERMESD_CONFIG": str(home.config)})
    assert checked.returncode == 0
    assert checked.stdout.endswith("ok: 0 errors, 0 warnings\n"), checked.stdout


@pytest.mark.promise("DOC-7")
def test_a_tool_whose_plugin_was_switched_off_or_untrusted_says_so_and_is_not_unknown(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    """hermes-agent#5304: availability as a silent filter."""
    home.plugin("greeter", CODE)
    daemon = serve()
    assert daemon.ctl("plugins", "trust", "greeter", "--yes").returncode == 0
    assert daemon.call("greeter.say_word") == "WORD"
    for take, give, told in (
        (("disable", "greeter"), ("enable", "greeter"), "hermesd ctl plugins enable greeter"),
        (("untrust", "greeter"), ("trust", "greeter", "--yes"), "hermesd ctl plugins trust greeter"),
    ):
        daemon.ctl("plugins", *take)
        with daemon.client() as client:
            result = client.call_tool("greeter.say_word")
            listed = {tool.name: tool.state for tool in client.tools(include_unavailable=True)}
        assert (result.code, result.effect) == ("UNAVAILABLE", "none")
        assert told in result.detail["remedy"]
        assert listed["greeter.say_word"] in ("disabled", "unavailable")
        assert daemon.ctl("plugins", *give).returncode == 0
        assert daemon.call("greeter.say_word") == "WORD"


def test_a_check_tells_a_fault_once(home: Home) -> None:
    folder = home.plugin("greeter", CODE.replace("side_effects", "sideeffects"))
    checked = cli("plugin", "check", "--trust", str(folder))
    assert checked.returncode == 1
    assert checked.stdout.endswith("rejected: 1 error, 0 warnings\n"), checked.stdout
    assert "did you mean 'side_effects'?" in checked.stdout


def test_the_hints_of_plugin_new_and_init_can_be_followed(home: Home) -> None:
    made = cli("plugin", "new", "dice", "--dir", str(home.path))
    hint = next(line for line in made.stderr.splitlines() if line.startswith("next: hermesd "))
    followed = cli(*hint.removeprefix("next: hermesd ").split())
    assert followed.stdout.endswith("ok: 0 errors, 0 warnings\n"), followed.stdout
    assert "dice" in followed.stdout
    assert "ready" in followed.stdout
    begun = cli("init", str(home.path / "play"))
    hint = next(line for line in begun.stderr.splitlines() if line.startswith("next: hermesd "))
    checked = cli(*hint.removeprefix("next: hermesd ").partition(",")[0].split())
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_check_says_as_the_daemon_does_that_a_bundled_plugin_is_not_configured(home: Home) -> None:
    report = json.loads(cli("check", "--config", str(home.config), "--json").stdout)
    files = next(each for each in report["plugins"] if each["name"] == "files")
    assert (files["state"], files["reason"]) == ("unavailable", "no root folder is configured")
    home.configure(settings={"files": {"roots": [str(home.path)]}})
    report = json.loads(cli("check", "--config", str(home.config), "--json").stdout)
    assert next(each for each in report["plugins"] if each["name"] == "files")["state"] == "ready"
    assert not home.data.exists(), "a check touches nothing"
