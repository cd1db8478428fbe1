"""What operators see and decide is what is so: health, states since when, grants, metrics, failed starts."""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.harness import Daemon, Home, cli, eventually

CODE = """
from hermesd.plugin import tool, ToolContext

@tool(side_effects="none", when_to_use="to greet")
def say_word(ctx: ToolContext) -> str:
    "Greets."
    return ctx.call("text.count_stats", text="a b") and ctx.secret("WORD")
"""
ASKS = "permissions: {secrets: [WORD], calls: ['text.*']}\n"


def _plugin(daemon: Daemon, name: str) -> dict[str, Any]:
    with daemon.client() as client:
        answer = client.get_plugin(name).plugin
    found: dict[str, Any] = MessageToDict(
        answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return found


def _health(daemon: Daemon) -> str:
    with grpc.insecure_channel(daemon.home.address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.promise("SEE-1")
def test_health_says_not_serving_while_the_daemon_drains(serve: Callable[..., Daemon]) -> None:
    daemon = serve()
    assert _health(daemon) == "SERVING"
    assert daemon.ctl("drain").returncode == 0
    assert _health(daemon) == "NOT_SERVING"
    assert daemon.ctl("resume").returncode == 0
    assert _health(daemon) == "SERVING"


@pytest.mark.promise("SEE-2")
def test_a_start_that_fails_names_the_holder_of_the_address_without_a_traceback(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    port = _free_port()
    home.configure({"server": {"http": f"127.0.0.1:{port}"}})
    daemon = serve()
    other = Home()
    try:
        other.configure({"server": {"http": f"127.0.0.1:{port}"}})
        for options in (["--config", str(home.config)], ["--config", str(other.config)]):
            refused = cli("serve", "--data-dir", str(other.data), *options)
            assert refused.returncode == 1
            assert str(daemon.pid) in refused.stderr
            assert "Traceback" not in refused.stderr
    finally:
        other.remove()


@pytest.mark.promise("SEE-3")
def test_a_grant_adds_a_revocation_takes_away_and_both_can_be_seen(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    home.configure({"secrets": {"WORD": "open sesame"}})
    home.plugin("greeter", CODE, manifest=ASKS)
    daemon = serve()
    assert daemon.ctl("plugins", "trust", "greeter", "--yes").returncode == 0
    assert daemon.call("greeter.say_word") == "***"  # it may have it, and nobody else sees it

    assert daemon.ctl("plugins", "grant", "greeter", "--secret", "WORD").returncode == 0
    assert daemon.call("greeter.say_word") == "***"
    shown = _plugin(daemon, "greeter")
    assert shown["granted_json"] == shown["permissions_json"] != "{}"

    assert daemon.ctl("plugins", "revoke", "greeter", "--secret", "WORD").returncode == 0
    shown = _plugin(daemon, "greeter")
    assert shown["granted_json"] == '{"calls":["text.*"]}'
    assert "WORD (not granted)" in daemon.ctl("plugins", "show", "greeter").stdout
    refused = daemon.ctl_json("tools", "call", "greeter.say_word")["result"]
    assert refused["code"] == "PERMISSION_DENIED"

    effective = daemon.ctl("config", "--effective")
    assert effective.returncode == 0, effective.stderr
    assert re.search(r"state\.plugins\.greeter\.permissions .*text\.\*.* ctl, operator", effective.stdout)
    assert "sesame" not in effective.stdout + daemon.log_text()


@pytest.mark.promise("SEE-4")
def test_a_state_is_as_old_as_what_caused_it_not_as_the_first_look_at_it(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    home.plugin("greeter", CODE, manifest=ASKS)
    daemon = serve()
    with daemon.client() as client:
        events = {each.kind: each for each in _events(client) if each.subject == "greeter"}
    since = datetime.fromisoformat(_plugin(daemon, "greeter")["since"])
    happened = events["plugin_unavailable"].at.ToDatetime(since.tzinfo)
    assert abs((since - happened).total_seconds()) < 0.25

    assert daemon.ctl("plugins", "trust", "greeter", "--yes").returncode == 0
    home.replace(home.plugins / "greeter" / "greeter.py", CODE.replace("to greet", "to say hello"))
    waits = eventually(lambda: (found := _plugin(daemon, "greeter"))["reason"] and found)
    assert waits["state"] == "ready"
    assert waits["reason"] == "the content changed; the last trusted one goes on serving"
    assert waits["found_digest"] in waits["remedy"]
    assert "greeter is ready" in daemon.ctl("status").stdout.partition("address")[0]


def _events(client: Any) -> list[Any]:
    return [each.event for each in client.watch_events(recent=1000, follow=False) if each.HasField("event")]


@pytest.mark.promise("SEE-5")
def test_metrics_count_what_happened_and_nothing_else(home: Home, serve: Callable[..., Daemon]) -> None:
    home.configure(
        {"server": {"http": f"127.0.0.1:{_free_port()}"}},
        trusted={"greeter": {"follow": True, "isolation": "process"}},
    )
    home.plugin("greeter", CODE)
    daemon = serve()
    for name in ("text.no_such", "text.count_stats"):  # an unknown tool, and arguments that are missing
        daemon.ctl("tools", "call", name)
    token = home.path / "token"
    token.write_text("made-up")
    assert daemon.ctl("--token-file", str(token), "status").returncode == 4
    home.plugin("greeter", CODE + "(\n")
    assert daemon.ctl("reload", "--dry-run").returncode == 1
    home.plugin("greeter", CODE)
    assert daemon.ctl("reload").returncode == 0

    found = _metrics(home)
    assert found["hermesd_tool_inflight"] == 0
    assert found["hermesd_denials_total"] == 1
    assert found["hermesd_generation"] == daemon.ctl_json("status")["generation"]
    assert found["hermesd_config_last_reload_successful"] == 1
    assert found['hermesd_child_rss_bytes{server="launcher"}'] > 1_000_000
    assert found['hermesd_child_rss_bytes{server="plugin greeter"}'] > 1_000_000
    daemon.ctl("plugins", "disable", "greeter")
    assert 'hermesd_child_rss_bytes{server="plugin greeter"}' not in _metrics(home)


def _metrics(home: Home) -> Mapping[str, float]:
    match = re.search(r"127\.0\.0\.1:\d+", home.config.read_text(encoding="utf-8"))
    assert match is not None
    with urllib.request.urlopen(f"http://{match.group()}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


@pytest.mark.promise("SEE-8")
def test_what_is_handed_to_a_model_can_be_called_by_the_name_it_has_there(
    serve: Callable[..., Daemon],
) -> None:
    daemon = serve()
    for kind, names in {
        "openai": lambda each: each["function"]["name"],
        "anthropic": lambda each: each["name"],
        "mcp": lambda each: each["name"],
    }.items():
        listed = json.loads(daemon.ctl("tools", "list", "--format", kind).stdout)
        found = {names(each) for each in listed}
        assert ("text.count_stats" if kind == "mcp" else "text__count_stats") in found
        assert not any("files" in each for each in found), "what cannot be called is not handed over"
    called = daemon.ctl("tools", "call", "text__count_stats", "text=one two")
    assert json.loads(called.stdout)["words"] == 2
    tools = daemon.ctl_json("tools", "list")
    assert tools["tokens"] == sum(each["tokens"] for each in tools["tools"]) > 0


@pytest.mark.promise("SEE-6")
def test_what_this_build_lacks_is_named_wherever_a_plugin_asks_for_it(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    home.follow("needy", "words")
    home.plugin(
        "needy",
        "from hermesd.plugin import tool\n\n@tool\ndef get_it() -> int: return 1\n",
        manifest='requirements: ["python-dateutil>=2.9"]\n',
    )
    words = home.plugins / "words"
    words.mkdir(mode=0o755)
    home.replace(
        words / "plugin.yaml",
        "name: words\nversion: 1.0.0\ntools: [{name: words.get_it, type: http, url: 'https://host/'}]\n",
    )
    daemon = serve()
    notices = daemon.ctl_json("reload")["notices"]
    assert any(each["name"] == "needy" and "requirements" in each["reason"] for each in notices)
    shown = _plugin(daemon, "words")
    assert (shown["state"], shown["reason"]) == ("unavailable", "declarative tools are not in this build")
    assert shown["remedy"]


@pytest.mark.promise("SEE-7")
def test_check_and_reload_say_the_same_of_every_rejection(home: Home, serve: Callable[..., Daemon]) -> None:
    """supervisor#969, #592: what a check reads and what a reload applies must not differ."""
    home.follow("single", "whole", "unnamed")
    home.replace(home.plugins / "single.py", "def f(:\n")
    home.plugin(
        "whole",
        "from hermesd.plugin import tool\n\n@tool(timeout_class='bacth')\ndef get_it() -> int: return 1\n",
    )
    home.plugin("unnamed", "x = 1\n", manifest="foo: 1\n")
    home.replace(home.plugins / "bad-name!.py", "x = 1\n")
    daemon = serve()
    told = daemon.ctl_json("reload")["rejected"]
    env = {"HERMESD_CONFIG": str(home.config)}
    checked = cli("check", "--json", env=env)
    assert checked.returncode == 1

    def key(each: Mapping[str, object]) -> str:
        return str(sorted(each.items()))

    assert sorted(map(key, json.loads(checked.stdout)["rejected"])) == sorted(map(key, told))
    assert any("did you mean 'batch'?" in str(each["reason"]) for each in told)


@pytest.mark.promise("SEE-9")
def test_code_that_nobody_trusts_is_linted_and_never_run(home: Home) -> None:
    ran = home.path / "ran"
    home.plugin(
        "greeter",
        f"open({str(ran)!r}, 'w').close()\nfrom hermesd.plugin import tool\n\n@tool\ndef say(word): ...\n",
    )
    env = {"HERMESD_CONFIG": str(home.config)}
    checked = cli("plugin", "check", str(home.plugins / "greeter"), "--call", env=env)
    assert checked.returncode == 0
    assert "was not run: not trusted" in checked.stdout
    assert "greeter/greeter.py:5: warning: tool 'greeter.say': has no description" in checked.stdout
    home.plugin("greeter", "def f(:\n")
    refused = cli("plugin", "check", str(home.plugins / "greeter"), env=env)
    assert refused.returncode == 1
    assert "greeter/greeter.py:1:7: error: SyntaxError" in refused.stdout
    assert not ran.exists()


@pytest.mark.promise("SEE-9")
def test_a_check_of_what_changed_since_it_was_trusted_judges_what_lies_there(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    """What was trusted goes on serving; an author who asks about an edit must not hear that all is well."""
    home.configure()
    home.plugin("greeter", CODE)
    daemon = serve()
    assert daemon.ctl("plugins", "trust", "greeter", "--yes").returncode == 0
    env = {"HERMESD_CONFIG": str(home.config)}
    home.plugin("greeter", CODE + "\nimport no_such_module\n")
    unrun = cli("plugin", "check", str(home.plugins / "greeter"), env=env)
    assert "warning: was not run: the content changed" in unrun.stdout
    assert "what lies there was not examined: the content changed" in cli("check", env=env).stdout
    home.plugin("greeter", "def f(:\n")
    broken = cli("plugin", "check", str(home.plugins / "greeter"), env=env)
    assert broken.returncode == 1
    assert "greeter/greeter.py:1:7: error: SyntaxError" in broken.stdout


@pytest.mark.promise("SEE-10")
def test_a_setting_that_is_called_live_holds_without_a_restart(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    http = {"server": {"http": f"127.0.0.1:{_free_port()}"}}
    home.configure(http, trusted={"greeter": {"follow": True}})
    home.plugin("greeter", CODE)
    daemon = serve()
    assert _metrics(home)["hermesd_generation"] >= 1

    shut = {**http, "telemetry": {"metrics_open": "never"}}
    home.configure(shut, trusted={"greeter": {"follow": True}}, settle_ms=1500)
    assert daemon.ctl("reload").returncode == 0
    with pytest.raises(urllib.error.HTTPError, match="401"):
        _metrics(home)
    before = _plugin(daemon, "greeter")["digest"]
    home.plugin("greeter", CODE.replace("to greet", "to say hello"))
    began = time.monotonic()
    eventually(lambda: _plugin(daemon, "greeter")["digest"] != before, what="the edit to settle")
    assert time.monotonic() - began > 1.0


@pytest.mark.promise("SEE-11")
@pytest.mark.parametrize("isolation", ["inprocess", "process"])
def test_a_tool_has_threads_for_as_many_calls_as_it_says(
    home: Home, serve: Callable[..., Daemon], isolation: str
) -> None:
    home.follow("crowd", isolation=isolation, defaults={"max_concurrency": 2})
    home.plugin(
        "crowd",
        """
        import threading
        from hermesd.plugin import tool

        ALL_HERE = threading.Barrier(30)

        @tool(side_effects="none", max_concurrency=30)
        def meet_others() -> int:
            return ALL_HERE.wait(2.5)
        """,
    )
    daemon = serve()
    with daemon.client() as client, ThreadPoolExecutor(30) as crowd:
        results = list(crowd.map(lambda _: client.call_tool("crowd.meet_others", {}), range(30)))
    assert {each.code for each in results} == {"OK"}


@pytest.mark.promise("SEE-13")
def test_one_busy_thread_does_not_make_all_others_wait_and_start_up_is_collected_once(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    code = """
    import gc
    import sys
    from hermesd.plugin import tool

    @tool(side_effects="none")
    def tell_tuning() -> dict:
        return {"switch_s": sys.getswitchinterval(), "frozen": gc.get_freeze_count() > 1000}
    """
    home.configure(
        trusted={
            "near": {"follow": True},
            "far": {"follow": True, "isolation": "process"},
        }
    )
    home.plugin("near", code)
    home.plugin("far", code)
    daemon = serve()
    for name in ("near", "far"):
        assert daemon.call(f"{name}.tell_tuning") == {"switch_s": pytest.approx(0.001), "frozen": True}
