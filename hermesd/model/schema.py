"""JSON Schema at the border: what may be compiled at all, and every fault of an instance.

A schema from outside is bounded before the compiler sees it: size, depth, no remote references,
a regex engine with a backtrack limit. Measured without these bounds: 2 KB held the interpreter lock
for 2.4 s, and a deep instance crashed the process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import jsonschema_rs

MAX_SCHEMA_BYTES = 64 * 1024
MAX_DEPTH = 64
MAX_REFERENCES = 10_000
REGEX_BACKTRACK_LIMIT = 100_000
MAX_FAULTS = 50
#: Above so many values faults are not told apart: the engine copies what is around each fault, all at once.
#: Measured: a million wrong values held the interpreter lock for 13 s, and being valid or not takes 0.1 s.
MAX_EXPLAINED_VALUES = 5_000
MAX_PROBLEM_CHARS = 500
_DRAFT7 = ("http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema")


class SchemaFault(Exception):  # noqa: N818 - a fault of the schema's author, reported, not an error of ours
    """The schema is no schema, or is more than may be admitted. `pointer` is a JSON pointer into it."""

    def __init__(self, reason: str, pointer: str = "") -> None:
        super().__init__(f"{pointer}: {reason}" if pointer else reason)
        self.reason = reason
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class ArgumentFault:
    """One fault of an instance. `path` is a JSON pointer (RFC 6901); "" is the whole."""

    path: str
    problem: str
    expected: object = None
    got: object = None

    def as_detail(self) -> dict[str, object]:
        return {"path": self.path, "problem": self.problem, "expected": self.expected, "got": self.got}


class Schema:
    """A compiled schema. `faults` lists everything that is wrong with an instance; [] is valid."""

    __slots__ = ("_validator", "raw")

    def __init__(self, raw: Mapping[str, object], validator: Any) -> None:
        self.raw = raw
        self._validator = validator

    @classmethod
    def compile(cls, raw: Mapping[str, object]) -> Schema:
        """Admit and compile. Raises SchemaFault."""
        admit_schema(raw)
        kind = (
            jsonschema_rs.Draft7Validator
            if str(raw.get("$schema", "")).rstrip("#") in _DRAFT7
            else jsonschema_rs.Draft202012Validator
        )
        try:
            validator = kind(
                dict(raw),
                validate_formats=True,
                retriever=_refuse_remote,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=REGEX_BACKTRACK_LIMIT),
            )
        except jsonschema_rs.ValidationError as error:
            raise SchemaFault(error.message, pointer(error.instance_path)) from None
        except (jsonschema_rs.ReferencingError, ValueError) as error:
            raise SchemaFault(str(error)) from None
        return cls(raw, validator)

    def is_valid(self, instance: object) -> bool:
        return cast("bool", self._validator.is_valid(instance))

    def errors(self, instance: object) -> Iterator[Any]:
        """The engine's own errors: what `kind` of rule was broken, and where. None of a large instance."""
        if _is_large(instance):
            return iter(())
        return cast("Iterator[Any]", self._validator.iter_errors(instance))

    def faults(self, instance: object) -> list[ArgumentFault]:
        """Every fault, at most 50, each at its JSON pointer; of a large instance only that there is one."""
        if self._validator.is_valid(instance):
            return []
        if _is_large(instance):
            problem = f"does not fit, and has more than {MAX_EXPLAINED_VALUES} values: too many to say where"
            return [ArgumentFault("", problem, "what the schema describes, or less at a time", None)]
        faults = []
        for error in self.errors(instance):
            faults.append(_fault(error))
            if len(faults) == MAX_FAULTS:
                break
        return faults


def admit_schema(raw: object) -> None:
    """Refuse what no compiler should see. Raises SchemaFault; returns nothing when admitted."""
    if not isinstance(raw, dict):
        raise SchemaFault(f"must be an object, not {type(raw).__name__}")
    depth_fault(raw)
    try:
        text = json.dumps(raw, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SchemaFault(f"is no JSON: {error}") from None
    if len(text) > MAX_SCHEMA_BYTES:
        raise SchemaFault(f"is larger than {MAX_SCHEMA_BYTES // 1024} KiB")
    references = _reference_targets(raw, raw)
    if _expansions(raw, raw, references, {}) > MAX_REFERENCES:
        raise SchemaFault(f"expands to more than {MAX_REFERENCES} references")


def depth_fault(value: object) -> None:
    """Raise SchemaFault when `value` nests deeper than 64: deeper input crashes native parsers."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH - 1):
        if not level:
            return
        # Of a large value most is leaves, and those are only looked at.
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, dict | list)
        ]
    if any(level):
        raise SchemaFault(f"nests deeper than {MAX_DEPTH} levels")


def _is_large(instance: object) -> bool:
    count, stack = 0, [instance]
    while stack:
        below = _children(stack.pop())
        count += len(below)
        if count > MAX_EXPLAINED_VALUES:
            return True
        stack.extend(below)
    return False


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _reference_targets(node: object, root: object) -> dict[str, object]:
    targets: dict[str, object] = {}
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            reference = each.get("$ref", each.get("$dynamicRef"))
            if isinstance(reference, str):
                if not reference.startswith("#"):
                    raise SchemaFault(f"refers to {reference!r}; only references into itself are followed")
                targets[reference] = resolve_reference(reference, root)
        stack.extend(_children(each))
    return targets


def resolve_reference(reference: str, root: object) -> object:
    """What a JSON pointer into the schema itself refers to; None when that is nothing."""
    node = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(key)
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def _expansions(node: object, root: object, targets: Mapping[str, object], seen: dict[str, int]) -> int:
    """How many references a full expansion would follow; a recursive one counts once."""
    count = 0
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            reference = each.get("$ref", each.get("$dynamicRef"))
            if isinstance(reference, str):
                if reference not in seen:
                    seen[reference] = 1
                    seen[reference] = 1 + _expansions(targets.get(reference), root, targets, seen)
                count += seen[reference]
                if count > MAX_REFERENCES:
                    return count
        stack.extend(_children(each))
    return count


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"refers to {uri!r}; nothing is fetched")


def _fault(error: Any) -> ArgumentFault:
    kind = error.kind
    path = pointer(error.instance_path)
    name = type(kind).__name__.removeprefix("ValidationErrorKind_")
    expected = getattr(kind, "value", None)
    if name == "Required":
        missing = kind.property
        return ArgumentFault(f"{path}/{_escape(missing)}", "is required", "a value", None)
    if name == "AdditionalProperties":
        first = kind.unexpected[0]
        return ArgumentFault(
            f"{path}/{_escape(_clip(first))}", _clip(error.message), "no such field", _clip(first)
        )
    return ArgumentFault(path, _clip(error.message), _expected(kind, expected), shorten(error.instance))


def _clip(message: str) -> str:
    """The validator repeats the whole instance in its message, however long it is."""
    return message if len(message) <= MAX_PROBLEM_CHARS else message[:MAX_PROBLEM_CHARS] + "…"


def _expected(kind: Any, value: object) -> object:
    for attribute in ("types", "options", "expected_value", "limit", "pattern", "format"):
        found = getattr(kind, attribute, None)
        if found is not None:
            return shorten(found)
    return shorten(value)


def shorten(value: object) -> object:
    """A value as an answer repeats it: above 200 characters, the beginning of its text."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return json.loads(text) if len(text) <= 200 else text[:200] + "…"


def pointer(path: Iterable[str | int]) -> str:
    """A path as a JSON pointer, bounded like all that an answer repeats."""
    return "".join(f"/{_escape(str(part))}" for part in path)[:MAX_PROBLEM_CHARS]


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
