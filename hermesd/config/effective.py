"""What is in force and who said so: each value with its origin, secrets masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hermesd.config.fault import printable

MASK = "********"
#: Names whose text is nobody's business, wherever they stand in a free-form mapping.
SECRET_WORDS = re.compile(
    r"token|passw|secret|api[_-]?key|access[_-]?key|private[_-]?key|authorization|credential|cookie",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")

PathParts = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One value in force. `value` is JSON-able and masked; `origin` is a place, a variable or how it came."""

    key: str
    value: object
    origin: str

    @property
    def value_json(self) -> str:
        return json.dumps(self.value, ensure_ascii=False)


def flatten(tree: Mapping[str, object], prefix: PathParts = ()) -> Iterator[tuple[PathParts, object]]:
    """The leaves of a tree of mappings; a list is a leaf, and so is an empty mapping."""
    for key, value in tree.items():
        path = (*prefix, key)
        if isinstance(value, Mapping) and value:
            yield from flatten(value, path)
        else:
            yield path, value


def dotted(path: PathParts) -> str:
    """`plugins.dirs[0]`: how messages write a path."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{printable(part, 100)}"
    return text.removeprefix(".")


def masked(value: object, path: PathParts, secret: frozenset[PathParts]) -> object:
    """A JSON-able copy in which nothing under a secret path can be read."""
    if value is not None and value != "" and any(path[:end] in secret for end in range(1, len(path) + 1)):
        return MASK
    if isinstance(value, Mapping):
        return {key: masked(each, (*path, key), secret) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [masked(each, (*path, index), secret) for index, each in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    return _URL_PASSWORD.sub(rf"\g<1>{MASK}@", value) if isinstance(value, str) else value


def fingerprint(value: object, path: PathParts, secret: frozenset[PathParts]) -> object:
    """What the configuration's digest takes of a value: itself, or of a secret a hash bound to its key."""
    shown = masked(value, path, secret)
    if shown == jsonable(value):
        return shown
    text = json.dumps([dotted(path), jsonable(value)], ensure_ascii=False)
    return {"sha256": sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}


def jsonable(value: object) -> object:
    """A copy in JSON types; nothing is masked."""
    if isinstance(value, Mapping):
        return {key: jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def telling_paths(value: object, path: PathParts, is_told: bool = False) -> Iterator[PathParts]:
    """The paths of a free-form value whose name says that they are secret.

    Numbers count too, but not under `max_tokens` and its like, which count what models read.
    """
    if isinstance(value, Mapping):
        for key, below in value.items():
            name = str(key)
            told = is_told or SECRET_WORDS.search(name) is not None
            is_amount = isinstance(below, int | float) and (
                isinstance(below, bool) or "tokens" in name.lower()
            )
            yield from telling_paths(below, (*path, name), told and not is_amount)
    elif isinstance(value, list | tuple):
        for index, below in enumerate(value):
            yield from telling_paths(below, (*path, index), is_told)
    elif is_told:
        yield path
