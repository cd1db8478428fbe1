"""Text from outside, made fit for a terminal or a log.

A plugin's name, description, error or output may hold escape sequences that rewrite the operator's
screen, marks that reverse the reading direction, and characters that nobody sees. All of it passes
through `clean` before it is shown or logged.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

MAX_DEPTH = 8
MAX_ITEMS = 100
MAX_INTEGER_BITS = 1024

# Whole sequences go first, so that `ESC[31m` leaves no `[31m` behind. Each alternative excludes ESC from
# what it repeats: no input makes the search more than linear. An unterminated string sequence loses its
# introducer only, so that it cannot swallow the rest of a line.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
_LINE_BREAK = re.compile(r"\r\n|[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # control characters, C0 and C1
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0"  # soft hyphen, fillers without a glyph
    "\u200b-\u200f\u2060-\u2064\ufeff"  # zero width
    "\u061c\u202a-\u202e\u2066-\u206f"  # direction of reading
    "\ufff9-\ufffb\U000e0000-\U000e007f]"  # annotation and tag characters
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SURROGATE = re.compile("[\ud800-\udfff]")
# One selector chooses a glyph (emoji, Chinese and Japanese name variants); a run of them hides a message.
_SELECTOR_RUN = re.compile("([\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]+")


def clean(text: str, limit: int = 2000, *, multiline: bool = False) -> str:
    """`text` without escape sequences and without control, direction and unseen characters.

    At most `limit` characters; what is longer ends in "…". Line breaks and tabs become blanks, or stay
    (as "\\n" and "\\t") when `multiline` is set. Letters of every script stay as they are, lone
    surrogates become U+FFFD, and the answer can always be encoded. Cleaning twice changes nothing.
    """
    if not (text.isascii() and text.isprintable()):
        text = _SEQUENCE.sub("", text)
        text = _LINE_BREAK.sub("\n", text)
        if not multiline:
            text = text.replace("\n", " ").replace("\t", " ")
        text = _UNSEEN.sub(_keep_layout, text)
        text = _SURROGATE.sub("\ufffd", text)
        text = _SELECTOR_RUN.sub(r"\1", text)
    if len(text) > limit:
        text = text[: max(0, limit - 1)] + "…" if limit > 0 else ""
    return text


def escape_unseen(text: str) -> str:
    """`text` with each character that `clean` would take away, or that breaks the line, as `\\uXXXX`.

    Where a person decides by what the text says, a character that is dropped would hide a difference.
    """
    if text.isascii() and text.isprintable():
        return text
    for pattern in (_UNSEEN, _LINE_BREAK, _SURROGATE, _SELECTOR_RUN):
        text = pattern.sub(_escaped, text)
    return text.replace("\t", "\\t")


def clean_value(value: object, limit: int = 2000, *, depth: int = MAX_DEPTH) -> object:
    """`value` as bounded JSON data whose every text, keys included, is clean.

    Deeper than `depth` levels, and beyond 100 items of one container, "…" stands for the rest. What is
    no JSON value is shown by its `str`.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # Beyond this Python itself refuses to write the digits.
        return value if value.bit_length() <= MAX_INTEGER_BITS else clean(hex(value), 100)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _clean_container(value, limit, depth) if depth > 0 else "…"
    return clean(value if isinstance(value, str) else _shown(value), limit, multiline=True)


def pairs(fields: Mapping[str, object]) -> str:
    """`key=value …` for people: digests by their first twelve digits, empty lists and texts left out."""
    return " ".join(
        f"{key}={word(short(value))}" for key, value in fields.items() if value not in ("", [], None)
    )


def word(value: object) -> str:
    """`value` as one word: text as it is, quoted where it would not be one word; all else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    plain = bool(text) and text.isprintable() and not any(each in text for each in ' "=')
    return text if plain or not isinstance(value, str) else json.dumps(text, ensure_ascii=False)


def short(value: object) -> object:
    """A whole digest by its first twelve digits, enough to tell contents apart; anything else as it is."""
    return value[7:19] if isinstance(value, str) and _DIGEST.fullmatch(value) else value


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the object is the plugin's: its __str__ may raise anything
        return f"<{type(value).__name__}>"


def _clean_container(value: object, limit: int, depth: int) -> object:
    if isinstance(value, Mapping):
        cleaned: dict[str, object] = {}
        for key, each in value.items():
            if len(cleaned) == MAX_ITEMS:
                cleaned["…"] = len(value) - MAX_ITEMS
                break
            cleaned[clean(str(key), 200)] = clean_value(each, limit, depth=depth - 1)
        return cleaned
    items = list(value) if isinstance(value, list | tuple | set | frozenset) else []
    shown = [clean_value(each, limit, depth=depth - 1) for each in items[:MAX_ITEMS]]
    return [*shown, "…"] if len(items) > MAX_ITEMS else shown


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def _keep_layout(match: re.Match[str]) -> str:
    # Tab and newline lie within the control range but survive the multi-line form.
    return match.group() if match.group() in "\n\t" else ""
