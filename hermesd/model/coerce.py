"""What a model wrote for what it meant: `"3"` for 3, `"true"`, one value for an array, surrounding blanks.

Only what the schema refuses is looked at, and only a change that the schema then accepts is kept, so that
a valid instance is never changed. Where more than one reading is possible the value stays as it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, cast

from hermesd.model.schema import Schema, pointer, shorten

Path = tuple[str | int, ...]
Change = dict[str, object]

#: JSON numbers beyond it are read as another number by half of the world.
MAX_INTEGER = 2**53
#: Faults beyond it are no slips of a pen; each costs a look and a copy of its place.
MAX_FAULTS = 1000
#: Each round either keeps a change for good or gives one up for good.
MAX_ROUNDS = 8
MAX_NESTED_UNIONS = 8
_INTEGER = re.compile(r"-?[1-9][0-9]{0,15}|0")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
#: A binary float gives back every decimal of so many digits, and not every longer one.
_EXACT_DIGITS = 15
_BOOLEANS: Mapping[str, bool] = {"true": True, "True": True, "false": False, "False": False}
_UNREADABLE = object()


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A fault where it is: of the value itself, not of a union around it."""

    path: Path
    kind: Any

    @property
    def key(self) -> tuple[Path, str]:
        return self.path, self.kind.name


def coerce(arguments: Mapping[str, object], schema: Schema) -> tuple[Mapping[str, object], list[Change]]:
    """The arguments as they were meant, and what was changed: `{path, from, to}`, paths as JSON pointers.

    The given arguments are not touched. What is still wrong afterwards stays as it was.
    """
    found = _leaves(schema, arguments)
    if not found:
        return arguments, []
    current: object = arguments
    refused: set[Path] = set()
    changes: list[Change] = []
    for _ in range(MAX_ROUNDS):
        proposed = _proposals(found, current, refused)
        if not proposed:
            break
        trial, after = _try(schema, current, proposed)
        bad = _refuted(proposed, found, after)
        if bad:
            refused |= bad
            continue
        changes.extend(_change(path, current, trial) for path in proposed)
        current, found = trial, after or []
    return cast("Mapping[str, object]", current), changes


def _change(path: Path, before: object, after: object) -> Change:
    return {"path": pointer(path), "from": shorten(_at(before, path)), "to": shorten(_at(after, path))}


def _leaves(schema: Schema, instance: object) -> list[_Leaf] | None:
    """The faults of an instance; None when they are too many to be told apart."""
    found: list[_Leaf] = []
    for error in schema.errors(instance):
        for leaf in _unfold(error, 0):
            if len(found) == MAX_FAULTS:
                return None
            found.append(leaf)
    return found


def _unfold(error: Any, depth: int) -> Iterator[_Leaf]:
    """A union of one thing and null is that thing: its faults are the ones that count."""
    kind = error.kind
    path = tuple(error.instance_path)
    if kind.name in ("anyOf", "oneOf") and depth < MAX_NESTED_UNIONS:
        meant = [each for each in getattr(kind, "context", ()) if not _is_null(each, path)]
        if len(meant) == 1 and len(kind.context) > 1:
            for inner in meant[0]:
                yield from _unfold(inner, depth + 1)
            return
    yield _Leaf(path, kind)


def _is_null(branch: list[Any], path: Path) -> bool:
    """Whether a branch of a union admits null and nothing else."""
    if not any(tuple(each.instance_path) == path for each in branch):
        return False
    return any(
        (each.kind.name == "type" and list(each.kind.types) == ["null"])
        or (each.kind.name == "const" and each.kind.expected_value is None)
        for each in branch
    )


def _proposals(found: Iterable[_Leaf], instance: object, refused: set[Path]) -> dict[Path, object]:
    """One other reading for each place that has a fault; none inside a place that is replaced itself."""
    proposed: dict[Path, object] = {}
    doubtful: set[Path] = set()
    for leaf in found:
        if not leaf.path or leaf.path in refused or leaf.path in doubtful:
            continue
        reading = _reading(leaf.kind, _at(instance, leaf.path))
        if reading is _UNREADABLE:
            continue
        if leaf.path in proposed and not _same(proposed[leaf.path], reading):
            # Of a trimmed text and what it stands for, the latter says more.
            if isinstance(reading, str):
                continue
            if not isinstance(proposed[leaf.path], str):
                doubtful.add(leaf.path)
                del proposed[leaf.path]
                continue
        proposed[leaf.path] = reading
    return {path: value for path, value in proposed.items() if not _has_ancestor(path, proposed)}


def _has_ancestor(path: Path, among: Mapping[Path, object]) -> bool:
    return any(path[:length] in among for length in range(1, len(path)))


def _try(schema: Schema, current: object, proposed: dict[Path, object]) -> tuple[object, list[_Leaf] | None]:
    """The instance with the proposals in it, and its faults. An array of one is read once more inside."""
    trial = _replace(current, proposed)
    after = _leaves(schema, trial)
    arrays = [path for path, value in proposed.items() if isinstance(value, list)]
    if not after or not arrays:
        return trial, after
    nested = [leaf for leaf in after if any(leaf.path[: len(path)] == path for path in arrays)]
    inside = {
        path: value
        for path, value in _proposals(nested, trial, set(arrays)).items()
        if not isinstance(value, list)
    }
    if not inside:
        return trial, after
    trial = _replace(trial, inside)
    return trial, _leaves(schema, trial)


def _refuted(proposed: Mapping[Path, object], before: list[_Leaf], after: list[_Leaf] | None) -> set[Path]:
    """The proposals that leave a fault in their place, or make one elsewhere."""
    if after is None:
        return set(proposed)
    known = {leaf.key for leaf in before}
    bad: set[Path] = set()
    for leaf in after:
        inside = [leaf.path[:length] for length in range(1, len(leaf.path) + 1)]
        here = [path for path in inside if path in proposed]
        if here:
            bad.update(here)
        elif leaf.key not in known:
            below = {path for path in proposed if path[: len(leaf.path)] == leaf.path}
            bad |= below or set(proposed)
    return bad


def _reading(kind: Any, value: object) -> object:
    reader = _READERS.get(kind.name)
    reading = _UNREADABLE if reader is None else reader(kind, value)
    return _UNREADABLE if _same(reading, value) else reading


def _of_type(kind: Any, value: object) -> object:
    wanted = {each for each in kind.types if each != "null"}
    if wanted == {"integer", "number"}:
        wanted = {"number"}
    if len(wanted) != 1:
        return _UNREADABLE
    (name,) = wanted
    if name == "array":
        return _array(value)
    if not isinstance(value, str):
        return _UNREADABLE
    text = value.strip()
    if name == "boolean":
        return _BOOLEANS.get(text, _UNREADABLE)
    if name == "integer":
        return _integer(text)
    return _number(text) if name == "number" else _UNREADABLE


def _array(value: object) -> object:
    """One value for an array of values. A text that looks like JSON is no value of an array."""
    if value is None or isinstance(value, list):
        return _UNREADABLE
    if isinstance(value, str) and (not value.strip() or value.lstrip()[0] in "[{"):
        return _UNREADABLE
    return [value]


def _integer(text: str) -> object:
    if _INTEGER.fullmatch(text) is None or abs(number := int(text)) > MAX_INTEGER:
        return _UNREADABLE
    return number


def _number(text: str) -> object:
    if _DECIMAL.fullmatch(text) is None:
        return _integer(text)
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    return float(text) if len(digits) <= _EXACT_DIGITS and float(text) else _UNREADABLE


def _of_options(kind: Any, value: object) -> object:
    """The one option that the text can stand for."""
    options = kind.options if kind.name == "enum" else [kind.expected_value]
    if not isinstance(value, str) or not isinstance(options, list):
        return _UNREADABLE
    text = value.strip()
    readings = [text or _UNREADABLE, _number(text), _BOOLEANS.get(text, _UNREADABLE)]
    fitting = [each for each in readings if any(_same(each, option) for option in options)]
    return fitting[0] if len(fitting) == 1 else _UNREADABLE


def _of_format(kind: Any, value: object) -> object:
    if not isinstance(value, str) or not (text := value.strip()):
        return _UNREADABLE
    reader = {"date": _date, "date-time": _date_time}.get(kind.format)
    found = reader(text) if reader is not None and text.isascii() else None
    return found or text


def _date(text: str) -> str | None:
    """Another ISO 8601 form of a day; a time of day is never cut off."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return None


def _date_time(text: str) -> str | None:
    """Another ISO 8601 form of an instant; without an offset it is none."""
    fraction = re.search(r"[.,]([0-9]+)", text)
    if fraction is not None and len(fraction[1]) > 6:
        return None  # would be cut to microseconds
    try:
        moment = datetime.fromisoformat(text.replace("z", "Z"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    made = moment.isoformat()
    return made.removesuffix("+00:00") + "Z" if text[-1] in "Zz" else made


def _trimmed(_: Any, value: object) -> object:
    return (value.strip() or _UNREADABLE) if isinstance(value, str) else _UNREADABLE


_READERS: Mapping[str, Callable[[Any, object], object]] = {
    "type": _of_type,
    "enum": _of_options,
    "const": _of_options,
    "format": _of_format,
    "pattern": _trimmed,
    "maxLength": _trimmed,
}


def _same(one: object, other: object) -> bool:
    """Equal as JSON: True is no 1, and 1.0 is 1."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _at(instance: object, path: Path) -> object:
    for part in path:
        instance = cast("Any", instance)[part]
    return instance


def _replace(instance: object, values: Mapping[Path, object]) -> object:
    """A copy with other values; only the containers on the way to them are copied, each once."""
    by_head: dict[str | int, dict[Path, object]] = {}
    for path, value in values.items():
        by_head.setdefault(path[0], {})[path[1:]] = value
    made: Any = list(instance) if isinstance(instance, list) else dict(cast("Mapping[str, object]", instance))
    for head, below in by_head.items():
        made[head] = below[()] if () in below else _replace(made[head], below)
    return made
