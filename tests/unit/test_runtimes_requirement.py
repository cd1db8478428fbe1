"""What a tool requires is looked for where its code would find it, and nothing is run to find out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hermesd.model.requirement import Kind, Requirement
from hermesd.runtimes.requirement import Surroundings
from tests.core_doubles import spec


def around(root: Path, **environ: str) -> Surroundings:
    made = spec(
        root=root, secrets={"TOKEN": "s", "EMPTY": ""}, settings={"db": {"url": "x", "zero": 0}, "none": ""}
    )
    return Surroundings(made, environ)


@pytest.mark.promise("DEF-3")
@pytest.mark.parametrize(
    ("kind", "there", "missing", "told"),
    [
        ("env", "HERE", "GONE", "GONE is not set"),
        ("command", "sh", "no-such-command", "no-such-command is not on the daemon's PATH"),
        ("command", "/bin/sh", "/bin/no-such", "/bin/no-such is not on"),
        ("file", "data/有.txt", "data/none.txt", "data/none.txt does not exist"),
        ("file", "/", "/no/such/file", "/no/such/file does not exist"),
        ("python", "json.decoder", "json.nothing", "json.nothing is not installed"),
        ("python", "sys", "no_such_module", "no_such_module is not installed"),
        ("python", "jsonschema_rs", "sys.nothing", "sys.nothing is not installed"),
        ("secret", "TOKEN", "OTHER", "OTHER is not granted to orders"),
        ("secret", "TOKEN", "EMPTY", "EMPTY is not granted"),
        ("setting", "db.url", "db.name", "db.name is empty"),
        ("setting", "db.zero", "none", "none is empty"),
        ("setting", "db", "db.url.deeper", "db.url.deeper is empty"),
    ],
)
def test_what_is_there_is_found_and_what_is_not_is_named_with_a_remedy(
    tmp_path: Path, kind: Kind, there: str, missing: str, told: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "有.txt").touch()
    found = around(tmp_path, HERE="1", PATH="/usr/bin:/bin")
    assert found.lacking(Requirement(kind, there)) is None
    reason, remedy = found.lacking(Requirement(kind, missing)) or ("", "")
    assert told in reason
    assert remedy
    assert found.lacking(Requirement(kind, missing, "ask Ann")) == (reason, "ask Ann")


def test_looking_for_a_module_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "bursting"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit")
    (package / "inner.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    found = around(tmp_path)
    assert found.lacking(Requirement("python", "bursting.inner")) is None
    assert found.lacking(Requirement("python", "bursting.other")) is not None
    assert "bursting" not in sys.modules


def test_all_that_is_missing_is_named(tmp_path: Path) -> None:
    needs = (Requirement("env", "A"), Requirement("secret", "TOKEN"), Requirement("env", "B"))
    reason, _ = around(tmp_path).first_lacking(needs) or ("", "")
    assert "variable A" in reason
    assert "variable B" in reason
    assert around(tmp_path).first_lacking(needs[1:2]) is None
