"""What stands in a text: addresses, links, dates, numbers, and what fits a template.

There are no regular expressions of the caller's: Python's engine has no time limit and holds the
interpreter while it runs, and 26 characters can cost it seconds. The patterns here never step back, and a
template is matched by a machine whose work is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal

Kind = Literal["email", "url", "date", "number"]
MAX_TEMPLATES = 20
MAX_TEMPLATE = 100
MAX_RUN = 256
MAX_WORK = 5_000_000

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9_%+\-]{1,64}+(?:\.[A-Za-z0-9_%+\-]{1,64}+){0,8}+"
    r"@(?:[A-Za-z0-9][A-Za-z0-9\-]{0,62}+\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9\-])"
)
_URL = re.compile(r"(?<![A-Za-z])(?:https?|ftp)://[^\s<>\"'`，。；！？、（）《》【】「」“”‘’一-鿿]{1,2000}+")
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)[a-z]{0,6}+\.?"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = re.compile(
    r"(?<!\d)(?P<y>\d{4})(?P<sep>[-/.])(?P<m>\d{1,2})(?P=sep)(?P<d>\d{1,2})(?!\d)"
    r"|(?<!\d)(?P<cy>\d{4})年\s?(?P<cm>\d{1,2})月(?:\s?(?P<cd>\d{1,2})[日号])?"
    rf"|(?<![\dA-Za-z])(?P<ed>\d{{1,2}})(?:st|nd|rd|th)?\s(?P<em>{_MONTH}),?\s(?P<ey>\d{{4}})(?!\d)"
    rf"|(?<![A-Za-z])(?P<fm>{_MONTH})\s(?P<fd>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<fy>\d{{4}})(?!\d)"
    r"|(?<![\d/])(?P<slash>\d{1,2}/\d{1,2}/\d{4})(?![\d/])"
)
_NUMBER = re.compile(
    r"(?<![\w.,])[-+−]?+(?P<int>\d{1,3}+(?:,\d{3})++(?!\d)|\d{1,40}+)(?P<frac>\.\d{1,40}+)?+"
    r"(?P<exp>[eE][-+]?\d{1,3}+(?!\w))?+(?P<unit>\s?%|％|[十百千]?[万亿]|千|百)?(?![A-Za-z0-9_])"
    r"|(?<=[一-鿿])[-+−]?+(?P<int2>\d{1,3}+(?:,\d{3})++(?!\d)|\d{1,40}+)(?P<frac2>\.\d{1,40}+)?+"
    r"(?P<unit2>\s?%|％|[十百千]?[万亿]|千|百)?(?![A-Za-z0-9_])"
)
_SCALE = {
    "百": 2,
    "千": 3,
    "万": 4,
    "十万": 5,
    "百万": 6,
    "千万": 7,
    "亿": 8,
    "十亿": 9,
    "百亿": 10,
    "千亿": 11,
}


class TemplateFault(ValueError):  # noqa: N818 - the fault of a template, told to its author
    """A template that cannot be used; the message says why."""


@dataclass(frozen=True)
class Match:
    """One find. `start` and `end` count characters from 0, `line` from 1.

    `value` is what it means: a date in ISO 8601 (null when day and month may be swapped), a number without
    separators and with 万 and 亿 multiplied out; else the text itself. `kind` of a template is "template".
    """

    kind: Literal["email", "url", "date", "number", "template"]
    text: str
    value: str | None
    start: int
    end: int
    line: int
    template: str | None


@dataclass(frozen=True)
class Extraction:
    """The finds in the order of the text. `truncated` says which bound ended the search, else it is null."""

    matches: list[Match]
    counts: dict[str, int]
    truncated: Literal["matches", "work"] | None


def extract(
    text: str,
    kinds: list[Kind],
    templates: list[str],
    *,
    ignore_case: bool,
    max_matches: int,
    stop: Callable[[], None] = lambda: None,
) -> Extraction:
    """Everything of these kinds, and everything that fits a template. Raises TemplateFault."""
    if len(templates) > MAX_TEMPLATES:
        raise TemplateFault(f"there are {len(templates)} templates; at most {MAX_TEMPLATES} are taken")
    machines = [Template(each, ignore_case) for each in dict.fromkeys(templates)]
    found: list[tuple[str, str | None, int, int, str | None]] = []
    truncated: Literal["matches", "work"] | None = None
    for kind in dict.fromkeys(kinds):
        stop()
        for start, end, value in _FINDERS[kind](text):
            if len(found) >= (len(machines) + len(kinds)) * max_matches:
                truncated = "matches"
                break
            found.append((kind, None, start, end, value))
    work = Work(stop)
    for machine in machines:
        for start, end in machine.find_all(text, work):
            found.append(("template", machine.template, start, end, text[start:end]))
            if len(found) >= (len(machines) + len(kinds)) * max_matches:
                break
    if work.left < 0:
        truncated = "work"
    found.sort(key=lambda each: (each[2], each[3]))
    if len(found) > max_matches:
        found, truncated = found[:max_matches], truncated or "matches"
    return _answer(text, found, truncated)


def _answer(
    text: str,
    found: list[tuple[str, str | None, int, int, str | None]],
    truncated: Literal["matches", "work"] | None,
) -> Extraction:
    matches: list[Match] = []
    counts: dict[str, int] = {}
    line, at = 1, 0
    for kind, template, start, end, value in found:
        line += text.count("\n", at, start)
        at = start
        matches.append(Match(kind, text[start:end], value, start, end, line, template))  # type: ignore[arg-type]
        counts[kind] = counts.get(kind, 0) + 1
    return Extraction(matches, counts, truncated)


Found = Iterator[tuple[int, int, str | None]]


def _emails(text: str) -> Found:
    for match in _EMAIL.finditer(text):
        yield match.start(), match.end(), match.group()


def _urls(text: str) -> Found:
    """Links as written; a full stop, comma or unopened bracket at the end belongs to the sentence."""
    for match in _URL.finditer(text):
        link = match.group()
        while link[-1] in ".,;:!?'\"…" or (
            link[-1] in ")]}" and link.count(link[-1]) > link.count(_OPEN[link[-1]])
        ):
            link = link[:-1]
        yield match.start(), match.start() + len(link), link


_OPEN = {")": "(", "]": "[", "}": "{"}


def _dates(text: str) -> Found:
    for match in _DATE.finditer(text):
        part = match.groupdict()
        if part["slash"]:
            yield match.start(), match.end(), _slash_value(part["slash"])
            continue
        year = part["y"] or part["cy"] or part["ey"] or part["fy"]
        day = part["d"] or part["cd"] or part["ed"] or part["fd"]
        word = part["em"] or part["fm"]
        month = _MONTHS.index(word[:3].lower()) + 1 if word else int(part["m"] or part["cm"] or 0)
        if day is None:
            if 1 <= month <= 12:
                yield match.start(), match.end(), f"{year}-{month:02}"
        elif (value := _iso(int(year or 0), month, int(day))) is not None:
            yield match.start(), match.end(), value


def _slash_value(text: str) -> str | None:
    first, second, year = map(int, text.split("/"))
    if first > 12 or first == second:
        return _iso(year, second, first)
    return _iso(year, first, second) if second > 12 else None


def _iso(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def _numbers(text: str) -> Found:
    for match in _NUMBER.finditer(text):
        whole = match["int"] or match["int2"]
        fraction = match["frac"] or match["frac2"] or ""
        unit = (match["unit"] or match["unit2"] or "").strip()
        sign = "-" if match.group()[0] in "-−" else ""
        number = Decimal(sign + whole.replace(",", "") + fraction + (match["exp"] or ""))
        value = (
            f"{number.scaleb(_SCALE[unit]):f}"
            if unit in _SCALE
            else f"{number:f}"
            if abs(number.adjusted()) < 60
            else str(number)
        )
        yield match.start(), match.end(), value + ("%" if unit in ("%", "％") else "")


_FINDERS: dict[str, Callable[[str], Found]] = {
    "email": _emails, "url": _urls, "date": _dates, "number": _numbers
}  # fmt: skip


class Work:
    """Steps that templates may still take; `stop` may raise to end the call."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.left = MAX_WORK
        self.stop = stop


class Template:
    r"""Literal text with `#` for a digit, `?` for a letter or digit, `*` for letters, digits, _ and -.

    A backslash takes the character after it literally. The longest fit at each place counts,
    at most 256 characters.
    """

    def __init__(self, template: str, ignore_case: bool) -> None:
        if not 1 <= len(template) <= MAX_TEMPLATE:
            raise TemplateFault(f"a template has 1 to {MAX_TEMPLATE} characters, not {len(template)}")
        self.template = template
        self.ignore_case = ignore_case
        self.items = list(_items(template.lower() if ignore_case else template))
        if all(wild for _, wild in self.items):
            raise TemplateFault(f"{template!r} has no literal character: it would fit everywhere")

    def find_all(self, text: str, work: Work) -> Iterator[tuple[int, int]]:
        """Places that fit and do not overlap, from left to right, until the work is used up."""
        folded = text.lower() if self.ignore_case else text
        if len(folded) != len(text):
            folded = "".join(char.lower()[0] for char in text)
        start = 0
        while start < len(folded):
            start = self._next_start(folded, start)
            if start < 0:
                return
            if start % 64 == 0:
                work.stop()
            end = self._longest(folded, start, work)
            if work.left < 0:
                return
            if end > start:
                yield start, end
            start = max(end, start + 1)

    def _next_start(self, text: str, start: int) -> int:
        literal, wild = self.items[0]
        return start if wild else text.find(literal, start)

    def _longest(self, text: str, start: int, work: Work) -> int:
        """The end of the longest fit at `start`, or -1: all states are followed at once, none twice."""
        states = self._with_skips({0})
        best = -1
        for at in range(start, min(len(text), start + MAX_RUN) + 1):
            work.left -= 1 + len(states)
            if len(self.items) in states:
                best = at
            if at == len(text) or not states:
                break
            states = self._with_skips(self._after(states, text[at]))
        return best

    def _after(self, states: set[int], char: str) -> set[int]:
        reached = set()
        for state in states:
            if state == len(self.items):
                continue
            literal, wild = self.items[state]
            if not _fits(char, literal, wild):
                continue
            reached.add(state if wild and literal == "*" else state + 1)
        return reached

    def _with_skips(self, states: set[int]) -> set[int]:
        """A `*` may stand for nothing."""
        for state in sorted(states):
            following = state
            while following < len(self.items) and self.items[following] == ("*", True):
                following += 1
                states.add(following)
        return states


def _items(template: str) -> Iterator[tuple[str, bool]]:
    """Each character with whether it is a wildcard."""
    literal = False
    for char in template:
        if char == "\\" and not literal:
            literal = True
            continue
        yield char, char in "#?*" and not literal
        literal = False
    if literal:
        yield "\\", False


def _fits(char: str, literal: str, wild: bool) -> bool:
    if not wild:
        return char == literal
    if literal == "#":
        return char.isascii() and char.isdigit()
    return (char.isalnum() and not "一" <= char <= "鿿") or (literal == "*" and char in "_-")
