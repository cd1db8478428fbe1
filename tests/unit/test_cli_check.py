"""`hermesd check`, `plugin check` and `serve`: what they hand over, and how they show the answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hermesd.daemon
from hermesd.config.effective import EffectiveValue
from hermesd.daemon.options import ServeOptions
from hermesd.errors import ConfigError, LockedError, Rejection
from hermesd.model.status import PluginStatus, Standing, State
from tests.unit.ctl_double import run

BROKEN = Rejection("广播", "invalid syntax\x1b[31m", "mend it", "b/广播.py", 3, 1)
WARNED = Rejection("orders", "tool 'orders.x_y': has no when_to_use", "say when", "orders.py", 7)


@dataclass
class Report:
    ok: bool = True
    rejected: tuple[Rejection, ...] = ()
    warnings: tuple[Rejection, ...] = ()
    plugins: tuple[PluginStatus, ...] = ()
    config: tuple[EffectiveValue, ...] = ()


@dataclass
class Engine:
    """Stands where the reload engine's check is."""

    report: Report = field(default_factory=Report)
    asked: list[Any] = field(default_factory=list)

    async def check_configuration(
        self, path: Path | None, environ: Mapping[str, str], *, effective: bool
    ) -> Report:
        self.asked.append((path, effective))
        return self.report

    async def check_plugin(self, path: Path, *, call: bool, trust: bool) -> Report:
        self.asked.append((path, call))
        return self.report


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    double = Engine()
    module: Any = ModuleType("hermesd.reload.check")
    module.check_configuration = double.check_configuration
    module.check_plugin = double.check_plugin
    if "hermesd.reload" not in sys.modules:
        monkeypatch.setitem(sys.modules, "hermesd.reload", ModuleType("hermesd.reload"))
    monkeypatch.setitem(sys.modules, "hermesd.reload.check", module)
    return double


def status(name: str = "orders") -> PluginStatus:
    standing = Standing(State.READY, datetime(2026, 1, 2, tzinfo=UTC))
    return PluginStatus(name, "1.0.0", "folder", "plugins", f"/p/{name}", standing, tools=("orders.x_y",))


def test_a_sound_configuration_is_exit_0_and_warnings_are_no_failure(engine: Engine) -> None:
    engine.report = Report(warnings=(WARNED,), plugins=(status(),))
    ran = run("check")
    assert ran.status == 0
    assert "orders.py:7: warning: tool 'orders.x_y': has no when_to_use\n    say when\n" in ran.out
    assert ran.out.endswith("ok: 0 errors, 1 warning\n")
    assert engine.asked == [(None, False)]


@pytest.mark.promise("CLI-9")
def test_a_rejection_is_exit_1_and_names_the_place_as_compilers_do(engine: Engine) -> None:
    engine.report = Report(ok=False, rejected=(BROKEN,))
    ran = run("check", "--config", "/x.yaml")
    assert ran.status == 1
    assert ran.out == "b/广播.py:3:1: error: invalid syntax\n    mend it\nrejected: 1 error, 0 warnings\n"
    assert engine.asked == [(Path("/x.yaml"), False)]


def test_effective_shows_each_value_with_its_origin(engine: Engine) -> None:
    engine.report = Report(config=(EffectiveValue("plugins.watch", True, "default"),))
    assert run("check", "--effective").out.splitlines()[1].split() == ["plugins.watch", "true", "default"]
    assert engine.asked == [(None, True)]


def test_json_is_one_document(engine: Engine) -> None:
    engine.report = Report(
        ok=False,
        rejected=(BROKEN,),
        plugins=(status(),),
        config=(EffectiveValue("plugins.dirs", ["/p"], "x.yaml:1"),),
    )
    ran = run("check", "--json")
    assert ran.status == 1
    assert ran.json["rejected"][0] == {
        "name": "广播",
        "file": "b/广播.py",
        "line": 3,
        "column": 1,
        "reason": "invalid syntax\x1b[31m",
        "remedy": "mend it",
    }
    assert ran.json["plugins"][0]["since"] == "2026-01-02T00:00:00Z"
    assert ran.json["config"] == [{"key": "plugins.dirs", "value": ["/p"], "origin": "x.yaml:1"}]


def test_plugin_check_hands_the_path_over(engine: Engine, tmp_path: Path) -> None:
    assert run("plugin", "check", str(tmp_path), "--call").status == 0
    assert engine.asked == [(tmp_path, True)]
    assert run("plugin", "check", str(tmp_path / "absent")).status == 2


def test_serve_hands_every_flag_over(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[ServeOptions] = []
    monkeypatch.setattr(hermesd.daemon, "run", lambda options: served.append(options) or 7, raising=False)
    words = [
        "--config",
        "c.yaml",
        "--data-dir",
        "d",
        "--listen",
        "unix:/a",
        "--listen",
        "127.0.0.1:7",
        "--log-format",
    ]
    assert run("serve", *words, "json", "--log-level", "DEBUG").status == 7
    assert run("serve").status == 7
    assert served == [
        ServeOptions(Path("c.yaml"), Path("d"), ("unix:/a", "127.0.0.1:7"), "json", "debug"),
        ServeOptions(),
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            LockedError("the data dir is held by pid 7", remedy="stop it"),
            "hermesd: the data dir is held by pid 7\n  stop it\n",
        ),
        (ConfigError([BROKEN]), "hermesd: b/广播.py:3:1: invalid syntax (mend it)\n"),
    ],
)
@pytest.mark.promise("CLI-9")
def test_a_daemon_that_cannot_start_says_why_and_is_exit_1(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(_options: ServeOptions) -> int:
        raise error

    monkeypatch.setattr(hermesd.daemon, "run", fail, raising=False)
    ran = run("serve")
    assert (ran.status, ran.err) == (1, said)
