"""Tables that stay aligned with wide characters and never run over the terminal's edge."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

GAP = "  "
ELLIPSIS = "…"
MIN_COLUMN = 8


def width_of(text: str) -> int:
    """How many cells a terminal needs for `text`: wide and fullwidth characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_cells(each) for each in text)


def cut(text: str, width: int) -> str:
    """`text`, or its beginning and an ellipsis where it needs more than `width` cells."""
    if width_of(text) <= width:
        return text
    if width < 1:
        return ""
    kept, used = [], 0
    for each in text:
        used += _cells(each)
        if used > width - 1:
            break
        kept.append(each)
    return "".join(kept) + ELLIPSIS


def pad(text: str, width: int) -> str:
    """`text` and as many blanks as fill `width` cells."""
    return text + " " * (width - width_of(text))


def lay_out(rows: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """The cells of `rows`, each padded to its column; the last column is not padded.

    With a `width`, columns are cut from the widest down until a row fits: short columns (names, states)
    stay whole and long ones (reasons, paths) give way. None never cuts, for pipes.
    """
    if not rows:
        return []
    columns = [max(width_of(row[index]) for row in rows) for index in range(len(rows[0]))]
    if width is not None:
        columns = _fitted(columns, width)
    last = len(columns) - 1
    return [
        [
            cut(cell, columns[index]) if index == last else pad(cut(cell, columns[index]), columns[index])
            for index, cell in enumerate(row)
        ]
        for row in rows
    ]


def _fitted(columns: list[int], width: int) -> list[int]:
    room = width - len(GAP) * (len(columns) - 1)
    fitted = list(columns)
    # Every column keeps MIN_COLUMN as long as the terminal has room for that.
    for floor in (MIN_COLUMN, 1):
        while (surplus := sum(fitted) - room) > 0:
            widest = max(range(len(fitted)), key=fitted.__getitem__)
            if fitted[widest] <= floor:
                break
            # Down to the next widest at once, so that no column gives up more than its neighbours.
            others = max((each for index, each in enumerate(fitted) if index != widest), default=0)
            fitted[widest] = max(min(others, fitted[widest] - 1), fitted[widest] - surplus, floor)
    return fitted


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
