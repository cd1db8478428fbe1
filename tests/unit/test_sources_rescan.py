"""Looking again at the plugins that events told of comes to what a scan would, or says that it cannot."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hermesd.sources.folder import FolderSource
from hermesd.sources.source import RootState, Scan


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "plugins"
    for name in ("a", "b", "c"):
        drop(root, name)
    (root / "single.py").write_text("")
    return root


def drop(root: Path, name: str) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "plugin.yaml").write_text(f"name: {name}\n")


def rescan(source: FolderSource, before: Scan, *places: Path) -> Scan | None:
    return source.rescan(before, [str(each) for each in places])


def test_a_change_is_found_and_what_is_equal_stays_the_same_object(root: Path) -> None:
    source = FolderSource([root])
    before = source.scan()
    (root / "b" / "main.py").write_text("x = 1")
    (root / "single.py").write_text("y = 1")
    found = rescan(source, before, root / "b" / "main.py", root / "single.py")
    assert found == source.scan()
    assert found is not None
    same = [each.label for each, old in zip(found.found, before.found, strict=True) if each is old]
    assert same == ["a", "c"]


def test_nothing_but_what_lies_at_the_places_is_looked_at(root: Path) -> None:
    source = FolderSource([root])
    before = source.scan()
    (root / "c" / "main.py").write_text("x = 1")
    assert rescan(source, before, root / "a" / "plugin.yaml") == before


def test_names_that_no_scan_looks_at_change_nothing(root: Path) -> None:
    (root / ".git").mkdir()
    source = FolderSource([root])
    before = source.scan()
    assert rescan(source, before, root / ".git" / "index.lock", root / ".gone") == before


@pytest.mark.parametrize(
    "change",
    [
        lambda root: drop(root, "d"),
        lambda root: shutil.rmtree(root / "d", ignore_errors=True),
        lambda root: (root / "d").write_text("no plugin"),
    ],
    ids=["added", "not there", "of no kind"],
)
def test_a_place_in_no_known_plugin_is_for_a_scan(root: Path, change: Callable[[Path], object]) -> None:
    source = FolderSource([root])
    before = source.scan()
    change(root)
    assert rescan(source, before, root / "d" / "plugin.yaml") is None


@pytest.mark.parametrize(
    "change",
    [
        lambda root: shutil.rmtree(root / "a"),
        lambda root: (root / "a" / "plugin.yaml").unlink(),
        lambda root: root.chmod(0o700),
        lambda root: (root.rename(root.with_name("old")), drop(root, "a")),
        shutil.rmtree,
    ],
    ids=["removed", "no plugin any more", "mode", "exchanged", "directory gone"],
)
def test_what_only_a_scan_can_tell_is_left_to_it(root: Path, change: Callable[[Path], object]) -> None:
    source = FolderSource([root])
    before = source.scan()
    change(root)
    assert rescan(source, before, root / "a" / "plugin.yaml") is None


def test_a_place_outside_and_a_directory_itself_are_for_a_scan(root: Path, tmp_path: Path) -> None:
    source = FolderSource([root])
    before = source.scan()
    assert rescan(source, before, tmp_path / "hermesd.yaml") is None
    assert rescan(source, before, root) is None
    assert source.rescan(before, [""]) is None


def test_a_plugin_behind_a_link_is_always_looked_at(root: Path, tmp_path: Path) -> None:
    drop(tmp_path / "elsewhere", "linked")
    os.symlink(tmp_path / "elsewhere" / "linked", root / "linked")
    source = FolderSource([root])
    before = source.scan()
    (tmp_path / "elsewhere" / "linked" / "main.py").write_text("x = 1")
    found = rescan(source, before, root / "a" / "plugin.yaml")
    assert found == source.scan()
    assert found != before


def test_a_scan_of_other_directories_is_no_base(root: Path, tmp_path: Path) -> None:
    before = FolderSource([root]).scan()
    assert rescan(FolderSource([root, tmp_path / "more"]), before, root / "a") is None
    absent = FolderSource([tmp_path / "more"])
    assert absent.scan().roots[0].state is RootState.ABSENT
    assert rescan(absent, absent.scan()) is None
