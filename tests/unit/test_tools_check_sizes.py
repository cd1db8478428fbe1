"""The size gate sees what is too long and where."""

from __future__ import annotations

from pathlib import Path

from tools.check_sizes import faults
from tools.tree import ROOT


def _write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_a_long_module_and_a_long_function_are_named_with_their_place(tmp_path: Path) -> None:
    _write(tmp_path, "hermesd/a.py", "x = 1\n" * 601)
    _write(tmp_path, "hermesd/b.py", "\n\nasync def f():\n" + "    x = 1\n" * 80)
    _write(tmp_path, "hermesd/fine.py", "def f():\n" + "    x = 1\n" * 79)
    assert faults(tmp_path) == [
        "hermesd/a.py:1: 601 lines; a module has at most 600",
        "hermesd/b.py:3: f has 81 lines; a function has at most 80",
    ]


def test_generated_code_environments_and_build_products_are_left_out(tmp_path: Path) -> None:
    for folder in ("hermesd/api/v1", ".venv/lib", "node_modules/x", "dist", "hermesd.egg-info"):
        _write(tmp_path, f"{folder}/long.py", "x = 1\n" * 700)
    assert faults(tmp_path) == []


def test_this_repository_keeps_its_bounds() -> None:
    assert faults(ROOT) == []
