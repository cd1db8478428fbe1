"""The difference of two texts, by line or by word, in bounded work.

Myers' greedy algorithm finds a shortest difference and needs work with the square of its size; what
exceeds the bound is cut at tokens that are unique in both texts, and what still exceeds it is replaced as a
whole. `exact` says whether the answer is a shortest one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

#: Largest number of insertions and deletions that is searched for in one piece, and the steps for all pieces.
MAX_EDITS = 1000
MAX_STEPS = 3_000_000

By = Literal["line", "word"]
#: Tokens a[first:after] became b[other_first:other_after].
Change = tuple[int, int, int, int]

_TOKEN = re.compile(r"\n|[^\S\n]+|[^\W㐀-鿿]+|[㐀-鿿]|[^\w\s]|\w")


@dataclass(frozen=True)
class TextDiff:
    """`diff` is unified by line, or the text with [-removed-] and {+added+} by word.

    `added` and `removed` count lines or words. `truncated`: the diff was cut at max_chars;
    `exact` false: the texts differ too much for a shortest difference, and a coarser one is shown.
    """

    equal: bool
    by: By
    added: int
    removed: int
    diff: str
    truncated: bool
    exact: bool


class _Work:
    """What may still be done, for all pieces of one comparison together."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.steps = MAX_STEPS
        self.exact = True
        self.stop = stop


def compare(
    before: str, after: str, *, by: By, context: int, max_chars: int, stop: Callable[[], None] = lambda: None
) -> TextDiff:
    """The difference of the two texts. `stop` is called now and then, and may raise to end it."""
    if before == after:
        return TextDiff(True, by, 0, 0, "", False, True)
    old, new = _tokens(before, by), _tokens(after, by)
    numbers: dict[str, int] = {}
    a = [numbers.setdefault(token, len(numbers)) for token in old]
    b = [numbers.setdefault(token, len(numbers)) for token in new]
    work = _Work(stop)
    changes = _merged(_changes(a, b, 0, 0, work))
    pieces = _unified(old, new, changes, context) if by == "line" else _marked(old, new, changes, context)
    diff, truncated = _bounded(pieces, max_chars)
    return TextDiff(
        equal=False,
        by=by,
        added=_size(new, changes, 2, by),
        removed=_size(old, changes, 0, by),
        diff=diff,
        truncated=truncated,
        exact=work.exact,
    )


def _tokens(text: str, by: By) -> list[str]:
    if by == "word":
        return _TOKEN.findall(text)
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _size(tokens: Sequence[str], changes: list[Change], at: int, by: By) -> int:
    taken = (token for change in changes for token in tokens[change[at] : change[at + 1]])
    return sum(1 for token in taken if by == "line" or not token.isspace())


def _changes(a: list[int], b: list[int], a0: int, b0: int, work: _Work) -> Iterator[Change]:
    """The changes that turn a into b, both counted from a0 and b0."""
    head = 0
    shortest = min(len(a), len(b))
    while head < shortest and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < shortest - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    a, b = a[head : len(a) - tail], b[head : len(b) - tail]
    a0, b0 = a0 + head, b0 + head
    if not a or not b:
        if a or b:
            yield (a0, a0 + len(a), b0, b0 + len(b))
        return
    found = _shortest(a, b, work)
    if found is not None:
        yield from ((i + a0, j + a0, k + b0, m + b0) for i, j, k, m in found)
        return
    anchors = _anchors(a, b)
    if not anchors:
        work.exact = False
        yield (a0, a0 + len(a), b0, b0 + len(b))
        return
    work.exact = False
    done_a = done_b = 0
    for i, j in [*anchors, (len(a), len(b))]:
        yield from _changes(a[done_a:i], b[done_b:j], a0 + done_a, b0 + done_b, work)
        done_a, done_b = i + 1, j + 1


def _shortest(a: list[int], b: list[int], work: _Work) -> list[Change] | None:
    """Myers 1986: the furthest reaching paths, edit by edit; None when the bound is met."""
    furthest = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(MAX_EDITS, len(a) + len(b)) + 1):
        work.stop()
        reached: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1, 2):
            if diagonal < -len(b) or diagonal > len(a):
                continue
            down = diagonal == -edits or (
                diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            x = furthest.get(diagonal + 1, 0) if down else furthest.get(diagonal - 1, 0) + 1
            y = x - diagonal
            start = x
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            work.steps -= 1 + x - start
            reached[diagonal] = x
            if x >= len(a) and y >= len(b):
                trail.append(furthest)
                return _walked_back(trail, len(a), len(b))
        trail.append(furthest)
        furthest = {**furthest, **reached} if edits == 0 else reached
        if work.steps < 0:
            return None
    return None


def _walked_back(trail: list[dict[int, int]], x: int, y: int) -> list[Change]:
    found: list[Change] = []
    for edits in range(len(trail) - 1, 0, -1):
        before = trail[edits]
        diagonal = x - y
        down = diagonal == -edits or (
            diagonal != edits and before.get(diagonal - 1, -1) < before.get(diagonal + 1, -1)
        )
        previous = diagonal + 1 if down else diagonal - 1
        x = before[previous]
        y = x - previous
        found.append((x, x, y, y + 1) if down else (x, x + 1, y, y))
    return found[::-1]


def _anchors(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    """Pairs of places of tokens that are unique in both, as many as keep their order (patience diff)."""
    in_a, in_b = Counter(a), Counter(b)
    place = {token: i for i, token in enumerate(a) if in_a[token] == 1 and in_b.get(token) == 1}
    pairs = [(place[token], j) for j, token in enumerate(b) if token in place]
    ends: list[int] = []
    index: list[int] = []
    back: list[int] = []
    for at, (i, _) in enumerate(pairs):
        length = bisect_left(ends, i)
        back.append(index[length - 1] if length else -1)
        ends[length : length + 1] = [i]
        index[length : length + 1] = [at]
    kept = []
    at = index[-1] if index else -1
    while at >= 0:
        kept.append(pairs[at])
        at = back[at]
    return kept[::-1]


def _merged(changes: Iterator[Change]) -> list[Change]:
    """Changes that touch become one."""
    whole: list[Change] = []
    for change in changes:
        if whole and whole[-1][1] == change[0] and whole[-1][3] == change[2]:
            whole[-1] = (whole[-1][0], change[1], whole[-1][2], change[3])
        else:
            whole.append(change)
    return whole


def _groups(changes: list[Change], reach: int) -> Iterator[list[Change]]:
    group: list[Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > reach:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _unified(old: list[str], new: list[str], changes: list[Change], context: int) -> Iterator[str]:
    yield "--- before\n+++ after\n"
    for group in _groups(changes, 2 * context):
        lead = min(context, group[0][0])
        trail = min(context, len(old) - group[-1][1])
        begin, end = group[0][0] - lead, group[-1][1] + trail
        other, other_end = group[0][2] - lead, group[-1][3] + trail
        yield f"@@ -{_span(begin, end - begin)} +{_span(other, other_end - other)} @@\n"
        at = begin
        for first, after, new_first, new_after in group:
            yield from (_shown(" ", line) for line in old[at:first])
            yield from (_shown("-", line) for line in old[first:after])
            yield from (_shown("+", line) for line in new[new_first:new_after])
            at = after
        yield from (_shown(" ", line) for line in old[at:end])


def _span(begin: int, size: int) -> str:
    return f"{begin + 1 if size else begin},{size}"


def _shown(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _marked(old: list[str], new: list[str], changes: list[Change], context: int) -> Iterator[str]:
    """The text around each change, ten words for each line of context, with the changes marked in it."""
    reach = max(10 * context, 1)
    at = 0
    for group in _groups(changes, 2 * reach):
        begin = max(at, group[0][0] - reach)
        if begin > at:
            yield "…"
        at = begin
        for first, after, new_first, new_after in group:
            yield "".join(old[at:first])
            if after > first:
                yield f"[-{''.join(old[first:after])}-]"
            if new_after > new_first:
                yield f"{{+{''.join(new[new_first:new_after])}+}}"
            at = after
        end = min(len(old), at + reach)
        yield "".join(old[at:end])
        at = end
    if at < len(old):
        yield "…"


def _bounded(pieces: Iterator[str], limit: int) -> tuple[str, bool]:
    kept: list[str] = []
    for piece in pieces:
        if len(piece) > limit:
            return "".join([*kept, piece[:limit]]), True
        kept.append(piece)
        limit -= len(piece)
    return "".join(kept), False
