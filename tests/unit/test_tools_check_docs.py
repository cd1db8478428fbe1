"""The documentation gate finds names that the code has and the documents do not."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tools import check_docs
from tools.check_docs import Check, event_faults, faults, settings
from tools.tree import ROOT


def _write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_a_name_must_stand_in_its_document_as_a_whole_word(tmp_path: Path) -> None:
    _write(tmp_path, "docs/a.md", "`drain_timeout_s` and reloading, ctl-x")
    check = Check("thing", lambda _: {"server.drain_timeout_s", "reload", "ctl"}, ("docs/*.md",))
    assert faults(tmp_path, (check,)) == [
        "docs/*.md: thing ctl is not documented",
        "docs/*.md: thing reload is not documented",
    ]


def test_a_check_that_finds_nothing_is_a_fault(tmp_path: Path) -> None:
    assert "stale" in faults(tmp_path, (Check("thing", lambda _: set(), ("docs/*.md",)),))[0]


def test_settings_are_the_nested_dataclasses_of_the_configuration(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "hermesd/config/configuration.py",
        "class Limits:\n    message_mb: int = 1\n\n"
        "class Server:\n    http: str = ''\n    limits: Limits = x\n    _own: int = 0\n\n"
        "class Configuration:\n    server: Server\n    digest: str\n",
    )
    assert settings(tmp_path) == {"include", "data_dir", "secrets", "server.http", "server.limits.message_mb"}


def test_the_codes_metrics_and_kinds_of_this_code_are_found() -> None:
    assert {"OK", "SANDBOX_KILLED"} <= check_docs.codes(ROOT)
    assert {"hermesd_tool_calls_total", "hermesd_build_info"} <= check_docs.metrics(ROOT)
    assert {"plugin_rejected", "daemon_ready"} <= check_docs.event_kinds(ROOT)


def test_detail_keys_are_found_however_they_are_written(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "hermesd/x.py",
        "raise Refused(code, 'x', reason='a', **more)\n"
        "Outcome(code, detail={'remedy': 'a', other: 1})\n"
        "detail = {'faults': []}\ndetail['hint'] = 1\ndetails['no'] = {'neither': 1}\n",
    )
    assert check_docs.detail_keys(tmp_path) == {"reason", "remedy", "faults", "hint"}


def test_metrics_and_event_kinds_are_documented() -> None:
    chosen = tuple(each for each in check_docs.CHECKS if each.kind in ("metric", "event kind"))
    assert faults(ROOT, chosen) == []


def test_commands_are_listed_with_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = click.Command("trust")
    cli = click.Group(
        "hermesd", {"ctl": click.Group("ctl", {"plugins": click.Group("plugins", {"trust": leaf})})}
    )
    monkeypatch.setattr(check_docs.importlib, "import_module", lambda _: type("module", (), {"cli": cli}))
    assert check_docs.commands(ROOT) == {"ctl plugins trust"}


def test_events_that_are_told_must_be_declared_and_declared_ones_told(tmp_path: Path) -> None:
    _write(tmp_path, "hermesd/telemetry/event.py", "KINDS: object = f({'a_b': 1, 'c_d': 2})\n")
    _write(
        tmp_path,
        "hermesd/x.py",
        "self._events.emit('e_f', s)\nself._events.emit('a_b', s)\nctx.emit('log', {})\n",
    )
    assert event_faults(tmp_path) == [
        "hermesd/x.py:1: event kind e_f is not declared",
        "hermesd/telemetry/event.py: nothing tells of c_d",
    ]
