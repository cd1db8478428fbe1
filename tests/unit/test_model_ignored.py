"""The names that are no part of a plugin."""

from __future__ import annotations

import pytest

from hermesd.model.ignored import is_ignored, is_ignored_unit


@pytest.mark.parametrize(
    "name",
    [
        ".git",
        ".a.swp",
        ".#a",
        "__pycache__",
        "a.pyc",
        "a.pyo",
        "a~",
        "#a#",
        "4913",
        "a.swp",
        "a.tmp",
        "a.bak",
    ],
)
def test_ignored_inside_and_as_a_plugin(name: str) -> None:
    assert is_ignored(name)
    assert is_ignored_unit(name)


@pytest.mark.parametrize(
    "name", ["__init__.py", "_private.py", "lost+found", "49130", "a#b", "tmp", "数据.txt"]
)
def test_ordinary_names_are_part_of_a_plugin(name: str) -> None:
    assert not is_ignored(name)


@pytest.mark.parametrize("name", ["_drafts", "lost+found"])
def test_put_aside_in_a_plugin_directory(name: str) -> None:
    assert is_ignored_unit(name)
