"""A fault of a text, before it is known whose error it becomes."""

from __future__ import annotations

from typing import NamedTuple

MAX_DEPTH = 64
MAX_MESSAGE = 400


def printable(text: str, limit: int = MAX_MESSAGE) -> str:
    """Safe to show: control and direction characters escaped, and cut at `limit` characters.

    Keys and tags come from whoever wrote the file; a terminal must not obey them.
    """
    cut = text if len(text) <= limit else text[:limit] + "…"
    if cut.isprintable():
        return cut
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


class Place(NamedTuple):
    """Where something was written; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class TextFault(Exception):  # noqa: N818 - reported as a ConfigError or PluginError by who asked for the text
    """What is wrong, where (line and column from 1; 0: unknown) and what to do."""

    def __init__(self, problem: str, remedy: str, line: int = 0, column: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.line = line
        self.column = column


def too_deep(line: int = 0, column: int = 0) -> TextFault:
    return TextFault(f"nests deeper than {MAX_DEPTH} levels", "flatten what is written here", line, column)


def duplicate_key(key: str, line: int, column: int, first: tuple[int, int] | None) -> TextFault:
    where = f", first on line {first[0]}" if first else ""
    return TextFault(f"the key {key!r} stands here twice{where}", "keep one of the two", line, column)
