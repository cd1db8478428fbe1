"""The pages that a newcomer follows are executed as they stand."""

from __future__ import annotations

import re

import pytest

from tests.harness import ROOT
from tests.walk import differs, steps_of, walk

PAGES = ("README.md", "docs/quick-start.md")


@pytest.mark.promise("DOC-3")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_works_and_prints_what_the_page_shows(page: str) -> None:
    steps = steps_of(ROOT / page)
    assert len([step for step in steps if not step.by_hand]) >= 3
    walk(steps)


def test_every_link_of_the_documentation_leads_somewhere() -> None:
    broken = []
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" in target:
                continue
            name, _, anchor = target.partition("#")
            file = page.parent / name if name else page
            if not file.exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
            elif anchor and anchor not in _anchors(file.read_text(encoding="utf-8")):
                broken.append(f"{page.relative_to(ROOT)}: {target}: no such heading")
    assert not broken


def _anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb\n", "a\n\nb\n", True),
        ("a …c\n", "a b c\n", True),
        ("…\nc\n", "a\nb\nc\n", True),
        ("a\n…\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\nc\n", "a\nb\nc\n", False),
        ("…\nd\n", "a\nb\n", False),
        ("a…\n", "b\n", False),
    ],
)
def test_what_a_page_shows_is_compared_in_order_and_wholly(shown: str, printed: str, same: bool) -> None:
    assert (differs(shown, printed) == "") is same
