"""The word gate finds what speaks of somewhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check_words import faults
from tools.tree import ROOT


@pytest.mark.parametrize(
    "line",
    [
        "see /home/alice/notes",
        "from /root/src",
        "closes issue #12",
        "comes with part 5",
        "pip install -i https://pypi.org/simple",
        "https://registry.example.com/x",
        "TODO: later",
    ],
)
def test_what_means_nothing_outside_is_named_with_its_place(tmp_path: Path, line: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text(f"fine\n{line}\n")
    (fault,) = faults(tmp_path)
    assert fault.startswith("docs/a.md:2: ")


def test_a_path_beside_the_checkout_is_named(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "a.md").write_text(f"written in {tmp_path}/other\n")
    assert faults(root) == [f"a.md:1: a path beside this checkout: {tmp_path}/"]


@pytest.mark.parametrize(
    "line",
    ["caddy#5471 and watchdog#654", "/etc/hermesd /var/lib/hermesd /tmp/x", "partly, a session", "中文"],
)
def test_other_projects_trackers_and_common_paths_are_fine(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.md").write_text(line)
    assert faults(tmp_path) == []


def test_this_repository_speaks_of_itself_alone() -> None:
    assert faults(ROOT) == []
