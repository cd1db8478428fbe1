"""`ctl status`, `config`, `reload`, `events` and the rest that speak of the daemon as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from hermesd.api.v1 import admin_pb2
from tests.unit.ctl_double import Double, Refusal, run, serving


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Double]:
    with serving(tmp_path) as double:
        yield double


def status_answer() -> admin_pb2.GetStatusResponse:
    answer = admin_pb2.GetStatusResponse(
        version="0.1.0", state="ready", pid=12, uptime_s=4000, generation=3, tools={"ready": 2}
    )
    answer.git.commit = "0123456789abcdef"
    answer.git.dirty = True
    answer.calls.total = 2**40
    answer.plugins.add(name="orders", version="1.0.0", state="ready", tools=["orders.query_status"])
    refused = answer.plugins.add(name="广播", version="1.0.0", state="rejected", reason="does not load")
    refused.rejections.add(
        name="广播", file="b/广播.py", line=3, column=1, reason="invalid syntax", remedy="mend it"
    )
    answer.reload.last_result = "rejected"
    answer.reload.rejected.append(refused.rejections[0])
    answer.warnings.add(name="store", reason="store.key: this build does not have that feature yet")
    return answer


def test_what_needs_attention_comes_before_what_is_fine(daemon: Double) -> None:
    daemon.answers["GetStatus"] = status_answer()
    ran = daemon.run("status")
    assert ran.status == 0
    assert ran.out.startswith("hermesd 0.1.0: ready, up 1h 6m, pid 12\n")
    assert ran.out.index("Needs attention") < ran.out.index("orders")
    assert ran.out.count("b/广播.py:3:1: invalid syntax") == 1
    assert "mend it" in ran.out
    assert "commit 0123456789ab, with changes" in ran.out
    assert "does not have that feature yet" in ran.out


def test_a_daemon_without_trouble_shows_no_attention(daemon: Double) -> None:
    daemon.answers["GetStatus"] = admin_pb2.GetStatusResponse(version="0.1.0", state="ready")
    assert "attention" not in daemon.run("status").out


@pytest.mark.promise("CLI-1")
def test_json_is_one_document_with_the_protos_names_and_numbers_as_numbers(daemon: Double) -> None:
    daemon.answers["GetStatus"] = status_answer()
    document = daemon.run("--json", "status").json
    assert document["calls"] == {"inflight": 0, "total": 2**40, "waiting": 0}
    assert document["git"] == {"commit": "0123456789abcdef", "dirty": True}
    assert document["uptime_s"] == 4000
    assert document["plugins"][1]["rejections"][0]["line"] == 3
    assert document["config_files"] == []


@pytest.mark.promise("CLI-3")
def test_flags_stand_before_or_after_the_verb(daemon: Double) -> None:
    daemon.answers["ListPlugins"] = admin_pb2.ListPluginsResponse(generation=7)
    address = ("--address", daemon.address)
    expected = {"plugins": [], "next_page_token": "", "generation": 7}
    for words in (
        ("ctl", *address, "--json", "plugins", "list"),
        ("ctl", "plugins", *address, "--json", "list"),
        ("ctl", "plugins", "list", *address, "--json"),
        ("ctl", "--json", "plugins", "list", *address),
    ):
        assert run(*words).json == expected


def test_the_address_nearest_the_end_wins(daemon: Double) -> None:
    daemon.answers["Drain"] = admin_pb2.DrainResponse()
    assert run("ctl", "--address", "unix:/nowhere.sock", "drain", "--address", daemon.address).status == 0


@pytest.mark.promise("CLI-2")
def test_no_daemon_is_exit_3_and_names_the_addresses_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERMESD_ADDRESS", raising=False)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "one"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "two"))
    ran = run("ctl", "--json", "status")
    assert ran.status == 3
    assert ran.out == ""
    assert str(tmp_path / "one") in ran.err
    assert str(tmp_path / "two") in ran.err
    assert "hermesd serve" in ran.err


def test_a_wrong_address_is_a_usage_error(daemon: Double) -> None:
    ran = run("ctl", "--address", "nonsense", "status")
    assert ran.status == 2
    assert "nonsense" in ran.err


@pytest.mark.promise("CLI-2")
def test_what_the_caller_may_not_do_is_exit_4(daemon: Double) -> None:
    daemon.answers["GetStatus"] = Refusal(grpc.StatusCode.PERMISSION_DENIED, "for the operator only", "ask")
    ran = daemon.run("status")
    assert ran.status == 4
    assert ran.err == "hermesd: for the operator only\n  ask\n"


def test_every_other_refusal_is_exit_1_with_its_remedy(daemon: Double) -> None:
    daemon.answers["GetPlugin"] = Refusal(
        grpc.StatusCode.NOT_FOUND, "no plugin \x1b[31m'x'", "ctl plugins list"
    )
    ran = daemon.run("plugins", "show", "x")
    assert (ran.status, ran.err) == (1, "hermesd: no plugin 'x'\n  ctl plugins list\n")


def test_the_token_travels_with_every_request(daemon: Double, tmp_path: Path) -> None:
    daemon.answers["Drain"] = admin_pb2.DrainResponse()
    token = tmp_path / "token"
    token.write_text("s3cret\n", encoding="ascii")
    assert daemon.run("drain", "--token-file", str(token)).status == 0
    assert daemon.metadata[-1]["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff", b"a" * 20_000])
def test_a_file_that_holds_no_token_is_refused_before_anything_is_sent(
    daemon: Double, tmp_path: Path, content: bytes
) -> None:
    token = tmp_path / "token"
    token.write_bytes(content)
    assert daemon.run("drain", "--token-file", str(token)).status == 2
    assert daemon.run("drain", "--token-file", str(tmp_path / "absent")).status == 2
    assert daemon.requests == []


def test_the_effective_configuration_shows_who_spoke(daemon: Double) -> None:
    answer = admin_pb2.GetConfigResponse(digest="sha256:ab", files=["/etc/hermesd/hermesd.yaml"])
    answer.values.add(key="server.drain_timeout_s", value_json="30", origin="default")
    daemon.answers["GetConfig"] = answer
    assert daemon.run("config").out == "sha256:ab\n/etc/hermesd/hermesd.yaml\n"
    assert daemon.run("config", "--effective").out.splitlines()[1].split() == [
        "server.drain_timeout_s",
        "30",
        "default",
    ]
    assert daemon.run("config", "--effective", "--json").json["values"][0]["value_json"] == "30"


def reload_answer(**more: object) -> admin_pb2.ReloadResponse:
    return admin_pb2.ReloadResponse(
        revision="sha256:ab", generation=4, added=["a"], kept=["b", "c"], duration_ms=12.4, **more
    )


def test_a_reload_without_rejections_is_done(daemon: Double) -> None:
    daemon.answers["Reload"] = reload_answer()
    ran = daemon.run("reload", "--atomic", "--no-wait", "--if-revision", "sha256:xy", "orders")
    assert ran.status == 0
    assert daemon.last == admin_pb2.ReloadRequest(
        name="orders", atomic=True, no_wait=True, if_revision="sha256:xy"
    )
    assert ran.out == "added    a\ngeneration 4: 1 added, 0 changed, 0 removed, 2 kept, 0 rejected (12 ms)\n"


@pytest.mark.promise("CLI-9")
def test_a_reload_with_a_rejection_is_exit_1_and_names_the_place(daemon: Double) -> None:
    answer = reload_answer(pending=["slow"])
    answer.rejected.add(
        name="x", file="x.yaml", line=2, column=5, reason="unknown key", remedy="did you mean y?"
    )
    daemon.answers["Reload"] = answer
    ran = daemon.run("reload")
    assert ran.status == 1
    assert ran.out.startswith("x.yaml:2:5: unknown key\n    did you mean y?\n")
    assert "pending  slow" in ran.out
    ran = daemon.run("reload", "--json")
    assert ran.status == 1
    assert ran.json["rejected"][0]["column"] == 5


def test_a_dry_run_says_that_nothing_changed(daemon: Double) -> None:
    daemon.answers["Reload"] = reload_answer(dry_run=True)
    assert "nothing changed" in daemon.run("reload", "--dry-run").out


def test_a_lost_race_is_exit_1(daemon: Double) -> None:
    daemon.answers["Reload"] = Refusal(grpc.StatusCode.ABORTED, "the revision is sha256:cd")
    assert daemon.run("reload", "--if-revision", "sha256:ab").status == 1


def test_drain_resume_and_stop_say_what_is_so_now(daemon: Double) -> None:
    daemon.answers |= {
        "Drain": admin_pb2.DrainResponse(),
        "Resume": admin_pb2.ResumeResponse(),
        "Shutdown": admin_pb2.ShutdownResponse(),
    }
    assert "no new calls" in daemon.run("drain").out
    assert "again" in daemon.run("resume").out
    assert "stopping" in daemon.run("stop").out
    assert daemon.run("--json", "stop").json == {}


def test_dump_prints_the_daemons_own_json(daemon: Double) -> None:
    daemon.answers["DumpState"] = admin_pb2.DumpStateResponse(state_json='{"tasks": ["\\u202e"]}')
    assert daemon.run("dump").json == {"tasks": ["\u202e"]}
    assert "\u202e" not in daemon.run("dump").out
    assert json.loads(daemon.run("dump", "--json").json["state_json"]) == {"tasks": ["\u202e"]}


@pytest.mark.promise("CLI-1")
def test_events_are_one_a_line_and_the_first_is_started(daemon: Double) -> None:
    started = admin_pb2.WatchEventsResponse(seq=6)
    started.started.generation = 2
    event = admin_pb2.WatchEventsResponse(seq=7)
    event.event.seq = 7
    event.event.kind = "plugin.ready"
    event.event.subject = "订单"
    event.event.message = "serves\x1b[2J 1.0.0"
    event.event.at.FromJsonString("2026-01-02T03:04:05.678Z")
    daemon.answers["WatchEvents"] = [started, event]
    ran = daemon.run("events", "-n", "5")
    assert ran.out == "2026-01-02T03:04:05.678000Z plugin.ready       订单: serves 1.0.0\n"
    assert daemon.last == admin_pb2.WatchEventsRequest(recent=5, no_follow=True)
    lines = [
        json.loads(each)
        for each in daemon.run("events", "--json", "--follow", "--after-seq", "6").out.splitlines()
    ]
    assert daemon.last == admin_pb2.WatchEventsRequest(after_seq=6)
    assert lines[0] == {"seq": 6, "started": {"generation": 2}}
    assert lines[1]["event"]["seq"] == 7


def test_a_watch_that_fell_behind_is_exit_1(daemon: Double) -> None:
    daemon.answers["WatchEvents"] = Refusal(grpc.StatusCode.OUT_OF_RANGE, "events before 9 are gone")
    assert daemon.run("events", "--after-seq", "1").status == 1


def test_an_unknown_verb_names_the_nearest() -> None:
    ran = run("ctl", "relaod")
    assert ran.status == 2
    assert "did you mean 'reload'?" in ran.err


def test_calls_that_wait_for_the_operator_need_attention(daemon: Double) -> None:
    answer = admin_pb2.GetStatusResponse(state="ready", confirmations=2)
    daemon.answers["GetStatus"] = answer
    assert "2 calls wait for your agreement: hermesd ctl confirmations list" in daemon.run("status").out


@pytest.mark.promise("ADM-7")
def test_full_limits_and_who_waits_behind_them_are_shown(daemon: Double) -> None:
    answer = status_answer()
    answer.calls.inflight, answer.calls.waiting = 19, 3
    answer.crowded.add(scope="tool", name="orders.query_status", running=16, places=16, waiting=3)
    answer.crowded.add(scope="plugin", name="orders", running=64, places=64)
    daemon.answers["GetStatus"] = answer
    shown = daemon.run("status").out
    assert "19 in flight, 3 of them waiting" in shown
    assert "tool orders.query_status: 16 of 16 run, 3 waiting" in shown
    assert "plugin orders: 64 of 64 run\n" in shown
