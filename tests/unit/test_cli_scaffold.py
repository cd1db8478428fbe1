"""`hermesd plugin new` and `init` write things that work at once, and never over what is there."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermesd.cli.scaffold import NewFile, write_new, write_new_folder
from hermesd.config.load import load_configuration
from hermesd.config.manifest import read_manifest
from hermesd.errors import AlreadyExistsError
from hermesd.model.definition import parse_definition
from hermesd.model.lint import lint
from hermesd.plugin.bind import bind_tools
from hermesd.plugin.load import load_package, package_name, unload_package
from tests.unit.ctl_double import run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["orders", "my-orders", "a_1"])
@pytest.mark.promise("CLI-11")
def test_a_new_plugin_loads_and_lints_without_a_word(tmp_path: Path, name: str) -> None:
    ran = run("plugin", "new", name, "--dir", str(tmp_path))
    assert ran.status == 0
    folder = tmp_path / name
    assert ran.out.splitlines() == [str(each) for each in sorted(folder.iterdir(), key=_order)]
    manifest = read_manifest((folder / "plugin.yaml").read_bytes(), "plugin.yaml")
    assert manifest.name == name
    assert manifest.entry
    package = package_name(name, "sha256:" + "0" * 64)
    try:
        bound = bind_tools(load_package(folder, manifest.entry, package), name)
        assert [each.name for each in bound] == [f"{name}.make_greeting"]
        parsed = parse_definition(bound[0].raw, plugin=name, version=manifest.version)
    finally:
        unload_package(package)
    assert lint(parsed.definition) == ()
    assert parsed.definition.side_effects == "none"


def _order(path: Path) -> int:
    return (
        ["plugin.yaml", f"{path.parent.name.replace('-', '_')}.py"].index(path.name)
        if (not path.name.startswith("test_"))
        else 9
    )


@pytest.mark.promise("CLI-11")
def test_the_tests_of_a_new_plugin_pass(tmp_path: Path) -> None:
    run("plugin", "new", "my-orders", "--dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "."],
        cwd=tmp_path / "my-orders",
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


@pytest.mark.promise("CLI-11")
def test_a_plugin_that_exists_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "mine.py").write_text("kept", encoding="utf-8")
    ran = run("plugin", "new", "orders", "--dir", str(tmp_path))
    assert ran.status == 1
    assert "exists already" in ran.err
    assert [each.name for each in tmp_path.iterdir()] == ["orders"]
    assert (tmp_path / "orders" / "mine.py").read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize("name", ["Orders", "memory", "../up", "", "a b", "订单"])
def test_a_name_that_is_none_is_a_usage_error(tmp_path: Path, name: str) -> None:
    assert run("plugin", "new", name, "--dir", str(tmp_path)).status == 2
    assert list(tmp_path.iterdir()) == []


def test_a_new_plugin_is_never_writable_by_others_and_appears_whole(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        write_new_folder(
            tmp_path / "deep" / "orders", {"plugin.yaml": NewFile("a"), "sub/x.py": NewFile("b")}
        )
    finally:
        os.umask(before)
    paths = [tmp_path / "deep", *(tmp_path / "deep").rglob("*")]
    assert len(paths) == 5
    assert not [each for each in paths if each.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)]


def test_a_failure_half_way_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="name"):
        write_new_folder(tmp_path / "orders", {"a": NewFile("a"), "x" * 300: NewFile("b")})
    assert list(tmp_path.iterdir()) == []


def test_one_existing_file_stops_all(tmp_path: Path) -> None:
    (tmp_path / "b").symlink_to("/nowhere")
    with pytest.raises(AlreadyExistsError, match="b exists"):
        write_new(tmp_path, {"a": NewFile("a"), "b": NewFile("b")})
    assert not (tmp_path / "a").exists()


@pytest.mark.promise("CLI-11")
def test_the_starter_configuration_loads_and_its_key_is_private(tmp_path: Path) -> None:
    ran = run("init", str(tmp_path / "conf"))
    assert ran.status == 0
    configuration = load_configuration(tmp_path / "conf" / "hermesd.yaml", environ={}, overrides={})
    assert configuration.warnings == ()
    assert configuration.plugins.dirs == (tmp_path / "conf" / "plugins",)
    assert (tmp_path / "conf" / "plugins" / "hello" / "plugin.yaml").is_file()
    key = tmp_path / "conf" / "store.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_text(encoding="ascii")) == 45


@pytest.mark.promise("CLI-11")
def test_every_commented_line_of_the_starter_configuration_is_valid(tmp_path: Path) -> None:
    run("init", str(tmp_path))
    file = tmp_path / "hermesd.yaml"
    text = re.sub(r"^#(?=\w|  +\S)", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert text.count("\n#server") == 0
    file.write_text(text, encoding="utf-8")
    configuration = load_configuration(file, environ={}, overrides={})
    # What `follow` costs is the one thing that the daemon warns about.
    assert [each.name for each in configuration.warnings] == ["plugins.trusted.hello"]
    assert configuration.server.http == "127.0.0.1:7480"
    assert configuration.plugins.trusted["hello"].follow
    assert configuration.telemetry.log_dir == tmp_path / "logs"
    assert configuration.defaults == load_configuration(None, environ={}, overrides={}).defaults
    for section, keys in {
        "agents": ("tools", "ceiling", "roles", "self_confirm", "rate", "expires"),
        "defaults": ("retry", "circuit_breaker", "result", "confirmation_ttl_s", "idempotency_window_s"),
        "telemetry": ("records", "call_log"),
    }.items():
        shown = text.partition(f"\n{section}:")[2]
        assert all(f" {key}: " in shown for key in keys), section


def test_init_twice_changes_nothing(tmp_path: Path) -> None:
    run("init", str(tmp_path))
    key = (tmp_path / "store.key").read_bytes()
    ran = run("init", str(tmp_path))
    assert ran.status == 1
    assert "hermesd.yaml exists already" in ran.err
    assert (tmp_path / "store.key").read_bytes() == key


def test_init_without_a_folder_uses_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ran = run("init")
    assert (tmp_path / "hermesd" / "hermesd.yaml").is_file()
    assert "hermesd check, then hermesd serve" in ran.err
