"""Exact replacements in a text, and the difference that they make."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from .fault import FileFault

MAX_DIFF = 20_000
MAX_PLACES = 100_000
CONTEXT = 3


@dataclass(frozen=True)
class Edit:
    """A text after the replacements, how many there were, and a unified diff (cut at 20,000 characters)."""

    text: str
    count: int
    diff: str
    diff_truncated: bool


@dataclass(frozen=True)
class _Change:
    """Lines `first` to `after` (from 0, exclusive) become `lines`."""

    first: int
    after: int
    lines: list[str]


def replace_exactly(text: str, old: str, new: str, *, replace_all: bool, shown: str) -> Edit:
    """Replace `old`, which must stand in `text` once, or anywhere with `replace_all`. Raises FileFault.

    In a text whose lines end in CRLF the line feeds of `old` and `new` stand for CRLF.
    """
    if not old:
        raise FileFault("INVALID_ARGUMENT", "the old text is empty: files.write_file writes whole files")
    if text.count("\r\n") and text.count("\r\n") == text.count("\n"):
        old, new = _with_crlf(old), _with_crlf(new)
    if old == new:
        raise FileFault("INVALID_ARGUMENT", "the old and the new text are the same")
    starts = _places(text, old)
    if not starts:
        raise FileFault("TOOL_ERROR", _why_absent(text, old, shown))
    if len(starts) > 1 and not replace_all:
        lines = [str(text.count("\n", 0, start) + 1) for start in starts[:10]]
        raise FileFault(
            "TOOL_ERROR",
            f"the old text stands {len(starts)} times in {shown}, at lines {', '.join(lines)}: "
            "include more of what surrounds it, or set replace_all",
        )
    if replace_all:
        starts = _apart(starts, len(old))
    diff = _diff(text, starts, len(old), new, shown)
    return Edit(_replaced(text, starts, len(old), new), len(starts), diff[:MAX_DIFF], len(diff) > MAX_DIFF)


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _places(text: str, old: str) -> list[int]:
    """Every place, overlapping ones too: `aa` stands twice in `aaa`, so that it is not unique."""
    found, start = [], text.find(old)
    while start >= 0:
        found.append(start)
        if len(found) > MAX_PLACES:
            raise FileFault("INVALID_ARGUMENT", f"the old text stands more than {MAX_PLACES} times")
        start = text.find(old, start + 1)
    return found


def _apart(starts: list[int], length: int) -> list[int]:
    kept: list[int] = []
    for start in starts:
        if not kept or start >= kept[-1] + length:
            kept.append(start)
    return kept


def _replaced(text: str, starts: list[int], length: int, new: str) -> str:
    pieces, end = [], 0
    for start in starts:
        pieces += [text[end:start], new]
        end = start + length
    return "".join([*pieces, text[end:]])


def _why_absent(text: str, old: str, shown: str) -> str:
    blank_free = "".join(old.split())
    if blank_free and blank_free in "".join(text.split()):
        return f"the old text stands in {shown} only with other blanks or line ends: copy it exactly"
    if old.lower() in text.lower():
        return f"the old text stands in {shown} only in other letter case: copy it exactly"
    return f"the old text does not stand in {shown}: read the file again"


def _diff(text: str, starts: list[int], length: int, new: str, shown: str) -> str:
    """Unified diff from the known places: no search for a smallest one, so linear in the text."""
    lines = _feed_lines(text)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    changes: list[_Change] = []
    group: list[int] = []
    for start in [*starts, None]:
        if group and (start is None or _line_at(offsets, start) > _line_at(offsets, group[-1] + length)):
            changes.append(_change(text, lines, offsets, group, length=length, new=new))
            group = []
        if start is not None:
            group.append(start)
    return f"--- {shown}\n+++ {shown}\n" + "".join(_hunks(lines, changes))


def _feed_lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _line_at(offsets: list[int], position: int) -> int:
    return bisect_right(offsets, position) - 1


def _change(
    text: str, lines: list[str], offsets: list[int], group: list[int], *, length: int, new: str
) -> _Change:
    first = _line_at(offsets, group[0])
    after = min(_line_at(offsets, group[-1] + length) + 1, len(lines))
    begin, end = offsets[first], offsets[after]
    inner = _feed_lines(_replaced(text[begin:end], [start - begin for start in group], length, new))
    while inner and first < after and inner[-1] == lines[after - 1]:
        inner.pop()
        after -= 1
    same = 0
    while same < len(inner) and first < after and inner[same] == lines[first]:
        same += 1
        first += 1
    return _Change(first, after, inner[same:])


def _hunks(lines: list[str], changes: list[_Change]) -> Iterator[str]:
    """The hunks of the changes, as far as a reader sees them; the rest would be cut off anyway."""
    waiting = deque(changes)
    shift = size = 0
    while waiting and size <= MAX_DIFF:
        together = [waiting.popleft()]
        while waiting and waiting[0].first - together[-1].after <= 2 * CONTEXT:
            together.append(waiting.popleft())
        hunk, shift = _hunk(lines, together, shift)
        size += len(hunk)
        yield hunk


def _hunk(lines: list[str], together: list[_Change], shift: int) -> tuple[str, int]:
    begin = max(0, together[0].first - CONTEXT)
    end = min(len(lines), together[-1].after + CONTEXT)
    grown = sum(len(each.lines) - (each.after - each.first) for each in together)
    old_size, new_size = end - begin, end - begin + grown
    out = [f"@@ -{_span(begin, old_size)} +{_span(begin + shift, new_size)} @@\n"]
    at = begin
    for each in together:
        out += [_shown_line(" ", line) for line in lines[at : each.first]]
        out += [_shown_line("-", line) for line in lines[each.first : each.after]]
        out += [_shown_line("+", line) for line in each.lines]
        at = each.after
    out += [_shown_line(" ", line) for line in lines[at:end]]
    return "".join(out), shift + grown


def _span(begin: int, size: int) -> str:
    return f"{begin + 1 if size else begin},{size}"


def _shown_line(sign: str, line: str) -> str:
    if line.endswith("\n"):
        return f"{sign}{line[:-1].removesuffix(chr(13))}\n"
    return f"{sign}{line}\n\\ No newline at end of file\n"
