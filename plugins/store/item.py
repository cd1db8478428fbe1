"""What an item is, and what may name one."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

MAX_DEPTH = 64
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")
MAX_KEY_BYTES = 512


class StoreFault(Exception):  # noqa: N818 - turned into the tool's error at its edge
    """One refusal; nothing has been changed when it is raised."""

    def __init__(
        self,
        message: str,
        *,
        code: Literal["INVALID_ARGUMENT", "TOOL_ERROR", "UNAVAILABLE"] = "TOOL_ERROR",
        reason: str,
        remedy: str,
        retryable: bool = False,
        faults: list[dict[str, object]] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.remedy = remedy
        self.retryable = retryable
        self.faults = faults


@dataclass(frozen=True)
class Limits:
    """What the operator set. `dir` None: the plugin's own state folder."""

    dir: Path | None
    max_item_bytes: int
    max_items: int
    max_total_bytes: int
    max_age_s: int
    schemas: Mapping[str, object]
    namespace_schemas: Mapping[str, str]

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Limits:
        """Read the settings; the manifest's schema has already checked their types."""
        return cls(
            dir=Path(settings["dir"]) if settings.get("dir") else None,
            max_item_bytes=int(settings.get("max_item_bytes", 1 << 20)),
            max_items=int(settings.get("max_items", 100_000)),
            max_total_bytes=int(settings.get("max_total_bytes", 256 << 20)),
            max_age_s=int(settings.get("max_age_s", 30 * 86400)),
            schemas=settings.get("schemas") or {},
            namespace_schemas=settings.get("namespace_schemas") or {},
        )


@dataclass(frozen=True)
class ItemInfo:
    """An item without its value.

    `version` grows with every change anywhere in the store and never repeats.
    """

    namespace: str
    key: str
    version: int
    bytes: int
    schema: str | None
    created_at: str
    updated_at: str
    expires_at: str


def check_names(namespace: str, key: str | None) -> None:
    """Refuse what names no item. Names never become paths; they are bounded so that they can be shown."""
    if _NAMESPACE.match(namespace) is None:
        raise StoreFault(
            f"{namespace[:80]!r} is no namespace",
            code="INVALID_ARGUMENT",
            reason="namespace",
            remedy="use 1 to 64 lower-case letters, digits, '.', '_' or '-', the first a letter or digit",
        )
    if key is None:
        return
    problem = _key_problem(key)
    if problem:
        raise StoreFault(
            f"{key[:80]!r} is no key: {problem}",
            code="INVALID_ARGUMENT",
            reason="key",
            remedy=f"use 1 to {MAX_KEY_BYTES} bytes of text without control characters or outer blanks",
        )


def _key_problem(key: str) -> str:
    if not key:
        return "it is empty"
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in key):
        return "it has control characters"
    if key != key.strip():
        return "it begins or ends with a blank"
    return f"it has more than {MAX_KEY_BYTES} bytes" if len(key.encode()) > MAX_KEY_BYTES else ""


def as_text(value: object, limit: int) -> str:
    """The JSON text of `value`, keys in their order and integers whole. Raises StoreFault."""
    if _deeper_than(value, MAX_DEPTH):
        raise _no_value(f"the value nests deeper than {MAX_DEPTH} levels", "make it flatter")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _no_value("the value holds half of a surrogate pair", "send valid Unicode text") from None
    except (TypeError, ValueError) as error:
        raise _no_value(f"the value is no JSON: {error}", "send JSON") from None
    if size > limit:
        raise _no_value(
            f"the value has {size} bytes; an item may have {limit}", "split it, or have max_item_bytes raised"
        )
    return text


def _no_value(message: str, remedy: str) -> StoreFault:
    return StoreFault(message, code="INVALID_ARGUMENT", reason="value", remedy=remedy)


def _deeper_than(value: object, levels: int) -> bool:
    level: list[object] = [value]
    for _ in range(levels + 1):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        if not inner:
            return False
        level = inner
    return True


def part_of(value: object, pointer: str) -> object:
    """The part of `value` at a JSON pointer (RFC 6901); "" is the whole. Raises StoreFault."""
    if pointer and not pointer.startswith("/"):
        raise _no_part(f"{pointer[:80]!r} is no JSON pointer: it must begin with '/'")
    at = ""
    for raw in pointer.split("/")[1:]:
        name = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
            value = value[int(name[:9])]
        else:
            raise _no_part(f"the item has no {at[:200]}/{raw[:80]}")
        at += "/" + raw
    return value


def _no_part(message: str) -> StoreFault:
    return StoreFault(
        message, code="INVALID_ARGUMENT", reason="pointer", remedy="read the whole item to see its parts"
    )
