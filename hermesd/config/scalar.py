"""What a scalar stands for: the JSON types, read as JSON and YAML 1.2 read them.

Texts that YAML 1.1 turns into something else (`on`, `NO`, `22:22`, `0777`, `1_000`) are refused rather than
read in either way: whoever wrote them meant one thing, and half of all readers would see the other.
"""

from __future__ import annotations

import math
import re

MAX_DIGITS = 400

_CONSTANTS: dict[str, object] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_SWITCHES = {
    form: meant
    for word, meant in {"yes": "true", "on": "true", "no": "false", "off": "false"}.items()
    for form in (word, word.capitalize(), word.upper())
}
_SUSPECT_STARTS = frozenset("-+.0123456789~nNtTfFyYoO=<$")
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_REAL = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_OLD_NUMBER = re.compile(
    r"[-+]?(0[0-9_]+(\.[0-9_]*)?|0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?)\Z"
)
_CLOCK = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?\Z")
_NO_NUMBER = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")


class AmbiguousScalar(Exception):  # noqa: N818 - a fault of the text's author, reported, not an error of ours
    """A plain text that readers take for different things, or for nothing that JSON has."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


class PlainText(str):
    """A text without quotes that begins with a reference: what it expands to is read as if written there."""

    __slots__ = ()


def resolve(text: str) -> object:
    """The value of an unquoted scalar. Raises AmbiguousScalar."""
    if text[:1] not in _SUSPECT_STARTS and text:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] == "$":
        return PlainText(text)
    if text in _SWITCHES:
        raise AmbiguousScalar(
            f"{text} is a truth value to some readers and a text to others",
            f'write {_SWITCHES[text]}, or "{text}" in quotes for the text',
        )
    if text in ("=", "<<"):
        raise AmbiguousScalar(f"{text} has a meaning of its own in YAML", f'write "{text}" in quotes')
    return _number(text) if text[0] in "-+.0123456789" else text


def _number(text: str) -> object:
    if _WHOLE.match(text):
        return whole(text)
    if _REAL.match(text):
        return real(text)
    if _CLOCK.match(text):
        raise AmbiguousScalar(
            f"{text} is a number in base 60 to some readers", f'write "{text}" in quotes for the text'
        )
    if _OLD_NUMBER.match(text):
        raise AmbiguousScalar(
            f"{text} is a number to some readers and a text to others",
            f'write the number in plain decimal digits, or "{text}" in quotes for the text',
        )
    if _NO_NUMBER.match(text):
        raise AmbiguousScalar(f"{text} is no finite number", "write a finite number")
    return text


def whole(text: str) -> int:
    """The integer, of at most 400 digits. Raises AmbiguousScalar."""
    if len(text) > MAX_DIGITS:
        raise AmbiguousScalar(f"a number of {len(text)} digits", f"write at most {MAX_DIGITS} digits")
    return int(text)


def real(text: str) -> float:
    """The finite floating-point number. Raises AmbiguousScalar."""
    value = float(text)
    if not math.isfinite(value):
        raise AmbiguousScalar("the number is too large", "write a finite number")
    return value
