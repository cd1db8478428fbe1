"""Pages that many hands write say each thing once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import ROOT

#: Rendered from the code, which says the same of many messages and flags.
RENDERED = {"api.md", "cli.md", "configuration.md"}
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(each for each in sorted((ROOT / "docs").glob("*.md")) if each.name not in RENDERED),
]


def twice(lines: list[str]) -> list[str]:
    return [line for line, count in Counter(lines).items() if count > 1]


def prose(page: Path) -> str:
    """The page without its blocks of code, in which a command may well stand twice."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def tables(text: str) -> Iterator[list[str]]:
    """The first cells of each table's rows."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        yield [line.split("|")[1].strip() for line in table.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.name)
def test_no_line_and_no_row_stands_twice(page: Path) -> None:
    text = prose(page)
    assert twice([line for line in text.splitlines() if len(line) > 40]) == []
    if page.name == "benchmarks.md":  # one benchmark has a row for each number
        return
    named = [[cell for cell in table if re.fullmatch(r"(?:\*\*|`)[^|]+", cell)] for table in tables(text)]
    assert [cell for cells in named for cell in twice(cells)] == []


def test_the_changelog_has_one_paragraph_for_each_matter() -> None:
    for version in prose(ROOT / "CHANGELOG.md").split("\n## ")[1:]:
        assert twice(re.findall(r"^\*\*(.+?)\.\*\*", version, re.MULTILINE)) == []
        assert re.findall(r"[^\n]\n\*\*.+?\.\*\*", version) == []
