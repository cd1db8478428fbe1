"""A JSON value cut to a number of tokens: its beginning and its end are kept, and it still is JSON.

A text keeps its first and its last words, a list its first and last items, an object its first and last
members; where one of them is what is too long, it is cut itself. Where something is missing a marker says how
much: `… [1234 characters left out] …` within a text, `"… [12 of 40 items left out]"` as an item, and as the
value of the member `…`. Tokens are counted as `token` does, never too few. The cost depends on what is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from hermesd.model.token import CHARS_PER_TOKEN, IDEOGRAPHS, estimated_tokens

#: Deeper than this nothing is told apart.
MAX_DEPTH = 64
#: An escape of JSON is more than the one character that it stands for.
_ESCAPED = '"\\\\\\x00-\\x1f'
_UNIT = re.compile(
    rf"[A-Za-z]{{1,6}}|[{_ESCAPED}]|[^\w\s{_ESCAPED}{IDEOGRAPHS}]{{1,3}}|[0-9]{{1,3}}|[{IDEOGRAPHS}]|_|\w{{1,3}}"
)
_SHORT_ESCAPES = frozenset('"\\\n\r\t\b\f')
#: The key under which an object says what is missing.
MARKER_KEY = "…"
#: A longer key is kept or left out, and what stands under it is not cut.
MAX_KEY_CHARS = 200


def shorten(value: object, head: int, tail: int) -> Any:
    """`value` with about `head` tokens of its beginning and `tail` of its end, markers not counted."""
    return _cut(value, head, tail, 0)


def shorten_texts(texts: Sequence[str], head: int, tail: int) -> list[str]:
    """The same for a row of texts: as many come back, those that had no room as a marker alone."""
    kept = list(texts)
    first, left = 0, head
    while first < len(kept) and (cost := _text_cost(kept[first], left)) <= left:
        left -= cost
        first += 1
    last, right = len(kept), tail
    while last > first and (cost := _text_cost(kept[last - 1], right)) <= right:
        right -= cost
        last -= 1
    for index in range(first, last):
        kept[index] = _cut_text(kept[index], left if index == first else 0, right if index == last - 1 else 0)
    return kept


def _cut(value: object, head: int, tail: int, depth: int) -> Any:
    if isinstance(value, str):
        return _cut_text(value, head, tail)
    if depth > MAX_DEPTH:
        return "… [what nests deeper is left out]"
    if isinstance(value, list):
        return _cut_list(value, head, tail, depth)
    if isinstance(value, dict):
        return _cut_object(value, head, tail, depth)
    text = json.dumps(value)
    return value if estimated_tokens(text) <= head + tail else _cut_text(text, head, tail)


def _cut_text(text: str, head: int, tail: int) -> str:
    if _text_cost(text, head + tail) <= head + tail:
        return text
    end = _head_end(text, head)
    start = max(end, _tail_start(text, tail))
    if start == end:
        return text
    marker = f"[{start - end} characters left out]"
    return (f"{text[:end]}… " if end else "") + marker + (f" …{text[start:]}" if start < len(text) else "")


class _Row(Protocol):
    """What stands in a row: the items of a list, or the members of an object."""

    def __len__(self) -> int: ...

    def cost(self, index: int, limit: int) -> int:
        """At least the tokens of one; counting ends above `limit`."""

    def can_be_cut(self, index: int) -> bool: ...

    def cut(self, index: int, head: int, tail: int) -> Any: ...


class _Items:
    def __init__(self, items: list[Any], depth: int) -> None:
        self._items = items
        self._depth = depth

    def __len__(self) -> int:
        return len(self._items)

    def cost(self, index: int, limit: int) -> int:
        return _cost(self._items[index], limit, self._depth) + 1

    def can_be_cut(self, index: int) -> bool:
        return isinstance(self._items[index], str | list | dict)

    def cut(self, index: int, head: int, tail: int) -> Any:
        return _cut(self._items[index], head, tail, self._depth + 1)


class _Members:
    """Cut to pairs of key and value."""

    def __init__(self, members: dict[str, Any], depth: int) -> None:
        self._keys = list(members)
        self._members = members
        self._depth = depth

    def __len__(self) -> int:
        return len(self._keys)

    def cost(self, index: int, limit: int) -> int:
        key = self._keys[index]
        name = _text_cost(key, limit) + 2
        return name if name > limit else name + _cost(self._members[key], limit - name, self._depth)

    def can_be_cut(self, index: int) -> bool:
        key = self._keys[index]
        return len(key) <= MAX_KEY_CHARS and isinstance(self._members[key], str | list | dict)

    def cut(self, index: int, head: int, tail: int) -> Any:
        key = self._keys[index]
        name = _text_cost(key, MAX_KEY_CHARS) + 2
        head, tail = (head - name, tail) if head else (head, tail - name)
        return key, _cut(self._members[key], max(head, 0), max(tail, 0), self._depth + 1)


class _Parts(NamedTuple):
    """The first `front` are kept, then what is left of the two that were cut, with `missing` between them,
    and all from `back` on.
    """

    front: int
    before: list[Any]
    missing: int
    after: list[Any]
    back: int


def _cut_list(items: list[Any], head: int, tail: int, depth: int) -> list[Any]:
    parts = _parted(_Items(items, depth), head, tail)
    marker = [f"… [{parts.missing} of {len(items)} items left out]"] if parts.missing else []
    return [*items[: parts.front], *parts.before, *marker, *parts.after, *items[parts.back :]]


def _cut_object(members: dict[str, Any], head: int, tail: int, depth: int) -> dict[str, Any]:
    parts = _parted(_Members(members, depth), head, tail)
    keys = list(members)
    name = MARKER_KEY
    while parts.missing and name in members:
        name += MARKER_KEY
    marker = {name: f"[{parts.missing} of {len(keys)} members left out]"} if parts.missing else {}
    first = {key: members[key] for key in keys[: parts.front]}
    last = {key: members[key] for key in keys[parts.back :]}
    return first | dict(parts.before) | marker | dict(parts.after) | last


def _parted(row: _Row, head: int, tail: int) -> _Parts:
    front, left = 0, head
    while front < len(row) and (each := row.cost(front, left)) <= left:
        left -= each
        front += 1
    back, right = len(row), tail
    while back > front and (each := row.cost(back - 1, right)) <= right:
        right -= each
        back -= 1
    missing = back - front
    if missing == 1 and row.can_be_cut(front):
        return _Parts(front, [row.cut(front, left, right)], 0, [], back)
    before: list[Any] = []
    after: list[Any] = []
    # A row of small things ends between two of them; a piece is worth its room where it is most of it.
    if missing and left * 2 >= head > 0 and row.can_be_cut(front):
        before.append(row.cut(front, left, 0))
        missing -= 1
    if missing and right * 2 >= tail > 0 and row.can_be_cut(back - 1):
        after.append(row.cut(back - 1, 0, right))
        missing -= 1
    return _Parts(front, before, missing, after, back)


def _cost(value: object, limit: int, depth: int) -> int:
    """At least the tokens of `value` within JSON; counting ends above `limit`.

    Quotes are counted with the comma or colon beside them, as tokens of punctuation are.
    """
    if isinstance(value, str):
        return _text_cost(value, limit)
    if depth > MAX_DEPTH:
        return limit + 1
    spent = 2
    if isinstance(value, list):
        for each in value:
            if spent > limit:
                break
            spent += _cost(each, limit - spent, depth + 1) + 1
        return spent
    if isinstance(value, dict):
        for key, each in value.items():
            if spent > limit:
                break
            spent += _text_cost(key, limit - spent) + 2
            spent += _cost(each, max(limit - spent, 0), depth + 1)
        return spent
    return estimated_tokens(json.dumps(value))


def _text_cost(text: str, limit: int) -> int:
    """The tokens of a text, its quotes not counted; counting ends above `limit`."""
    if len(text) > limit * CHARS_PER_TOKEN:
        return limit + 1
    spent = 0
    for _, weight in _units(text):
        if spent > limit:
            break
        spent += weight
    return spent


def _head_end(text: str, tokens: int) -> int:
    end = 0
    for unit, weight in _units(text[: tokens * CHARS_PER_TOKEN]):
        tokens -= weight
        if tokens < 0:
            break
        end = unit.end()
    return end


def _tail_start(text: str, tokens: int) -> int:
    begin = max(0, len(text) - tokens * CHARS_PER_TOKEN)
    start = len(text)
    for unit, weight in reversed(list(_units(text[begin:]))):
        tokens -= weight
        if tokens < 0:
            break
        start = begin + unit.start()
    return start


def _units(text: str) -> Iterator[tuple[re.Match[str], int]]:
    for unit in _UNIT.finditer(text):
        first = text[unit.start()]
        weight = 2 if first in _SHORT_ESCAPES else 5 if first < " " else 1
        yield unit, weight
