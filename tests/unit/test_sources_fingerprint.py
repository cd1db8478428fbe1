"""Equal fingerprints mean that nothing changed; every change of content changes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hermesd.sources.fingerprint import file_fingerprint, folder_fingerprint


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "orders" / "lib").mkdir(parents=True)
    (tmp_path / "orders" / "plugin.yaml").write_text("name: orders\n")
    (tmp_path / "orders" / "lib" / "a.py").write_text("a = 1\n")
    return tmp_path / "orders"


def same_size_same_time(plugin: Path) -> None:
    """cpython#75953: an edit within the same second and of the same size."""
    path = plugin / "lib" / "a.py"
    times = path.stat()
    path.write_text("a = 2\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def replaced_by_rename(plugin: Path) -> None:
    (plugin / ".new").write_text("name: orders\n")
    os.replace(plugin / ".new", plugin / "plugin.yaml")


CHANGES: list[Callable[[Path], object]] = [
    same_size_same_time,
    replaced_by_rename,
    lambda plugin: (plugin / "lib" / "b.py").write_text(""),
    lambda plugin: (plugin / "lib" / "a.py").unlink(),
    lambda plugin: (plugin / "lib" / "a.py").chmod(0o755),
    lambda plugin: (plugin / "lib").chmod(0o777),
    lambda plugin: plugin.chmod(0o777),
    lambda plugin: (plugin / "lib").rename(plugin / "库"),
    lambda plugin: (plugin / "data").symlink_to("/etc/hostname"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_content_or_mode_shows(plugin: Path, change: Callable[[Path], object]) -> None:
    before = folder_fingerprint(plugin)
    assert folder_fingerprint(plugin) == before
    change(plugin)
    assert folder_fingerprint(plugin) != before


def test_what_is_no_content_does_not_show(plugin: Path) -> None:
    before = folder_fingerprint(plugin)
    (plugin / "lib" / "__pycache__").mkdir()
    (plugin / "lib" / "__pycache__" / "a.cpython-311.pyc").write_text("")
    (plugin / ".plugin.yaml.swp").write_text("")
    (plugin / "4913").write_text("")
    assert folder_fingerprint(plugin) == before


def test_the_swap_of_a_mounted_volume_shows(plugin: Path) -> None:
    for name in ("..1", "..2"):
        (plugin / name).mkdir()
        (plugin / name / "b.py").write_text("b = 1\n")
    (plugin / "..data").symlink_to("..1")
    (plugin / "b.py").symlink_to("..data/b.py")
    (plugin / "all").symlink_to("..data")
    before = folder_fingerprint(plugin)
    (plugin / "..next").symlink_to("..2")
    os.replace(plugin / "..next", plugin / "..data")
    assert folder_fingerprint(plugin) != before


def test_links_out_of_the_folder_and_loops_are_not_walked(plugin: Path) -> None:
    (plugin / "root").symlink_to("/")
    (plugin / "loop").symlink_to(".")
    (plugin / "lib" / "up").symlink_to("..")
    (plugin / "lost").symlink_to("missing")
    assert len(folder_fingerprint(plugin)) < 12


def test_the_look_is_bounded(plugin: Path) -> None:
    for number in range(20):
        (plugin / f"{number}.py").write_text("")
        (plugin / f"d{number}").mkdir()
    assert len(folder_fingerprint(plugin, max_files=10)) < 100
    assert len(folder_fingerprint(plugin)) == 4 + 40


def test_a_missing_file_has_an_empty_fingerprint(tmp_path: Path) -> None:
    assert file_fingerprint(tmp_path / "hermesd.yaml") == ()
    (tmp_path / "hermesd.yaml").write_text("a")
    assert file_fingerprint(tmp_path / "hermesd.yaml")[0][:1] == ("hermesd.yaml",)
