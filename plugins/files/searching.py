"""Finding literal text in the files below a place."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal

from .content import SAMPLE, Coding, detect, open_regular, read_at_most
from .fault import FileFault
from .root import Place, show
from .walking import Met, Walk, name_filter

MAX_FILES = 10_000
MAX_TOTAL_BYTES = 256 * 1024 * 1024
MAX_ONE_FILE = 8 * 1024 * 1024
MAX_QUERY = 1000
SHOWN_CHARACTERS = 300


@dataclass(frozen=True)
class Hit:
    """One line that contains the text; long lines are cut around it. Lines and columns count from 1."""

    path: str
    line: int
    column: int
    text: str
    before: list[str]
    after: list[str]


@dataclass
class Skipped:
    """Files that were not searched, by reason."""

    binary: int = 0
    too_large: int = 0
    unreadable: int = 0
    odd_name: int = 0


@dataclass
class SearchResult:
    """The hits in path order. `truncated` names the bound that ended the search early, else it is null."""

    path: str
    hits: list[Hit] = field(default_factory=list)
    files_searched: int = 0
    bytes_searched: int = 0
    skipped: Skipped = field(default_factory=Skipped)
    truncated: Literal["hits", "files", "bytes", "scanned", "time"] | None = None


@dataclass(frozen=True)
class Query:
    """What to look for, and how much of it to answer."""

    text: str
    ignore_case: bool
    pattern: str
    context: int
    max_hits: int


def search(place: Place, walk: Walk, query: Query, max_file_bytes: int) -> SearchResult:
    """Every line below `place` (a folder or one file) that contains the text, within the bounds."""
    if not query.text or len(query.text) > MAX_QUERY:
        raise FileFault("INVALID_ARGUMENT", f"the query must have 1 to {MAX_QUERY} characters")
    if "\n" in query.text or "\r" in query.text:
        raise FileFault("INVALID_ARGUMENT", "the query must lie within one line: it contains a line break")
    result = SearchResult(place.shown)
    fits = name_filter(query.pattern)
    limit = min(MAX_ONE_FILE, max_file_bytes)
    base = place.shown.rstrip("/")
    if place.name is not None and place.status is not None:
        _search_file(Met(place.folder, place.name, "", place.status), base, query, result, limit)
        return result
    with closing(walk.through(place)) as things:
        for met in things:
            if not stat.S_ISREG(met.status.st_mode) or not fits(met.relative):
                continue
            result.truncated = _bound_met(result, walk, query)
            if result.truncated:
                return result
            _search_file(met, f"{base}/{show(met.relative)}", query, result, limit)
    full = len(result.hits) >= query.max_hits
    result.truncated = result.truncated or ("hits" if full else None) or walk.ended
    return result


def _bound_met(
    result: SearchResult, walk: Walk, query: Query
) -> Literal["hits", "files", "bytes", "time"] | None:
    if len(result.hits) >= query.max_hits:
        return "hits"
    if result.files_searched >= MAX_FILES:
        return "files"
    if result.bytes_searched >= MAX_TOTAL_BYTES:
        return "bytes"
    return "time" if walk.late() else None


def _search_file(met: Met, path: str, query: Query, result: SearchResult, limit: int) -> None:
    if show(met.name) != met.name:
        result.skipped.odd_name += 1
        return
    if met.status.st_size > limit:
        result.skipped.too_large += 1
        return
    try:
        descriptor = open_regular(met.folder, met.name, path)
    except FileFault:
        result.skipped.unreadable += 1
        return
    try:
        data = read_at_most(descriptor, limit)
    finally:
        os.close(descriptor)
    result.files_searched += 1
    result.bytes_searched += len(data)
    coding = detect(data[:SAMPLE])
    if coding is None:
        result.skipped.binary += 1
        return
    _search_text(_text(data, coding), path, query, result)


def _text(data: bytes, coding: Coding) -> str:
    return data[len(coding.mark) :].decode(coding.name, "replace")


def _search_text(text: str, path: str, query: Query, result: SearchResult) -> None:
    wanted = _fold(query.text) if query.ignore_case else query.text
    if wanted not in (_fold(text) if query.ignore_case else text):
        return
    lines = text.replace("\r\n", "\n").split("\n")
    for index, line in enumerate(lines):
        column = (_fold(line) if query.ignore_case else line).find(wanted)
        if column < 0:
            continue
        if len(result.hits) >= query.max_hits:
            result.truncated = "hits"
            return
        result.hits.append(
            Hit(
                path, index + 1, column + 1, _around(line, column, len(query.text)),
                [_around(each, 0, 0) for each in lines[max(0, index - query.context) : index]],
                [_around(each, 0, 0) for each in lines[index + 1 : index + 1 + query.context]],
            )
        )  # fmt: skip


def _fold(text: str) -> str:
    """Lower case letter by letter, so that columns stay where they were."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(char.lower()[0] for char in text)


def _around(line: str, column: int, length: int) -> str:
    if len(line) <= SHOWN_CHARACTERS:
        return line
    start = max(0, min(column - (SHOWN_CHARACTERS - length) // 2, len(line) - SHOWN_CHARACTERS))
    end = start + SHOWN_CHARACTERS
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
