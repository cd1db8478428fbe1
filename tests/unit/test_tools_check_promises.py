"""The promise gate ties docs/promises.md and the tests together, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check_promises import faults

TABLE = "# Promises\n\n| id | promise |\n|---|---|\n| OPS-1 | Health is open. |\n| OPS-2 | 中文 works. |\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "docs/promises.md").write_text(TABLE)
    return tmp_path


def _test(root: Path, *decorators: str) -> None:
    lines = [f"@pytest.mark.{each}\ndef test_{number}(): ..." for number, each in enumerate(decorators)]
    (root / "tests/test_x.py").write_text("import pytest\n" + "\n".join(lines))


def test_every_promise_tested_is_well(root: Path) -> None:
    _test(root, 'promise("OPS-1")', 'promise("OPS-2")', "fault")
    assert faults(root) == []


def test_a_promise_without_a_test_is_named(root: Path) -> None:
    _test(root, 'promise("OPS-1")')
    assert faults(root) == ["docs/promises.md:6: no test names OPS-2"]


def test_an_unknown_id_and_one_that_is_no_literal_are_named(root: Path) -> None:
    _test(root, 'promise("OPS-1")', 'promise("OPS-2")', 'promise("OPS-9")', "promise(NAME)")
    assert faults(root) == [
        "tests/test_x.py:6: OPS-9 is not in docs/promises.md",
        "tests/test_x.py:8: a promise is named by one literal text",
    ]


def test_an_id_given_twice_is_named(root: Path) -> None:
    (root / "docs/promises.md").write_text(TABLE + "| OPS-1 | Again. |\n")
    _test(root, 'promise("OPS-1")', 'promise("OPS-2")')
    assert faults(root) == ["docs/promises.md:7: OPS-1 stands at line 5 already"]


def test_a_page_without_promises_is_a_fault_not_a_pass(root: Path) -> None:
    (root / "docs/promises.md").write_text("# Promises\n")
    assert faults(root) == ["docs/promises.md:1: holds no promise"]
