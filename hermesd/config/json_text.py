"""JSON with the same refusals as YAML: duplicate keys, depth, numbers that are none.

The standard decoder reads; only when something is wrong, or a place is wanted, a tokeniser finds where.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from hermesd.config.fault import MAX_DEPTH, TextFault, duplicate_key, too_deep
from hermesd.config.scalar import AmbiguousScalar, real, whole

Places = dict[tuple[str | int, ...], tuple[int, int]]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """The decoder met something that the tokeniser will find the place of."""


def read_json(text: str, places: Places | None = None) -> object:
    """The value of the whole text. Raises TextFault. With `places`, each key and item is recorded there."""
    try:
        value = json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_real, parse_int=_whole
        )
    except json.JSONDecodeError as error:
        raise TextFault(f"is no JSON: {error.msg}", "fix the syntax", error.lineno, error.colno) from None
    except RecursionError:
        raise _locate(text) from None
    except _Refused:
        raise _locate(text) from None
    if places is not None or _suspect(text):
        _Walk(text, places if places is not None else {}).run()
    return value


def _suspect(text: str) -> bool:
    """Whether brackets could nest too deep, or an escape could be half a character."""
    return text.count("{") + text.count("[") > MAX_DEPTH or "\\ud" in text or "\\uD" in text


def _locate(text: str) -> TextFault:
    try:
        _Walk(text, {}).run()
    except TextFault as fault:
        return fault
    return TextFault("is no JSON that can be read", "fix the syntax")


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refused
    return value


def _constant(_: str) -> NoReturn:
    raise _Refused


def _real(text: str) -> float:
    try:
        return real(text)
    except AmbiguousScalar:
        raise _Refused from None


def _whole(text: str) -> int:
    try:
        return whole(text)
    except AmbiguousScalar:
        raise _Refused from None


class _Walk:
    """One pass over the tokens of a text that the decoder accepts, or refused for a reason of ours."""

    def __init__(self, text: str, places: Places) -> None:
        self._text = text
        self._places = places
        self._path: list[str | int] = []
        self._kinds: list[str] = []
        self._wants_key = False
        self._line = 1
        self._line_start = 0
        self._at = 0

    def run(self) -> None:
        for match in _TOKEN.finditer(self._text):
            self._advance(match.start())
            self._lexeme(match.group())

    def _advance(self, offset: int) -> None:
        breaks = self._text.count("\n", self._at, offset)
        if breaks:
            self._line += breaks
            self._line_start = self._text.rindex("\n", self._at, offset) + 1
        self._at = offset

    @property
    def _place(self) -> tuple[int, int]:
        return self._line, self._at - self._line_start + 1

    def _lexeme(self, lexeme: str) -> None:
        if lexeme in "{[":
            self._begin(lexeme)
        elif lexeme in "}]":
            if self._kinds:
                self._kinds.pop()
                self._path.pop()
            self._wants_key = False
        elif lexeme == ",":
            self._next()
        elif lexeme == ":":
            self._wants_key = False
        elif self._wants_key:
            self._key(lexeme)
        else:
            self._item()
            self._scalar(lexeme)

    def _begin(self, lexeme: str) -> None:
        self._item()
        if len(self._kinds) >= MAX_DEPTH:
            raise too_deep(*self._place)
        self._kinds.append(lexeme)
        self._path.append("" if lexeme == "{" else 0)
        self._wants_key = lexeme == "{"

    def _item(self) -> None:
        if self._kinds and self._kinds[-1] == "[":
            self._places[tuple(self._path)] = self._place

    def _next(self) -> None:
        if not self._kinds:
            return
        last = self._path[-1]
        if isinstance(last, int):
            self._path[-1] = last + 1
        self._wants_key = self._kinds[-1] == "{"

    def _key(self, lexeme: str) -> None:
        key = self._string(lexeme)
        self._path[-1] = key
        path = tuple(self._path)
        if path in self._places:
            raise duplicate_key(key, *self._place, self._places[path])
        self._places[path] = self._place

    def _scalar(self, lexeme: str) -> None:
        if lexeme.startswith('"'):
            self._string(lexeme)
        elif lexeme in ("NaN", "Infinity", "-Infinity"):
            raise TextFault(f"{lexeme} is no finite number", "write a finite number", *self._place)
        elif lexeme[0] in "-0123456789":
            try:
                real(lexeme) if set(lexeme) & set(".eE") else whole(lexeme)
            except AmbiguousScalar as fault:
                raise TextFault(fault.problem, fault.remedy, *self._place) from None
            except ValueError:
                raise TextFault("is no JSON number", "fix the syntax", *self._place) from None

    def _string(self, lexeme: str) -> str:
        try:
            text = json.loads(lexeme)
            text.encode("utf-8")
        except ValueError:
            raise TextFault(
                "half of a character (a lone surrogate) cannot be kept", "write both halves", *self._place
            ) from None
        return str(text)
