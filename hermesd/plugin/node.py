"""One type, both ways: its JSON Schema, and how a JSON value of it becomes the Python value.

A node's `convert` is None where the JSON value is the Python value: such arguments cost nothing a call.
Converters are made once, at load. They are strict enough to choose between the members of a union.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any

from hermesd.plugin.fault import ArgumentFault

Convert = Callable[[Any], Any]
Match = Callable[[Any], bool]
Kinds = frozenset[type]

NULL: Kinds = frozenset({type(None)})
TEXT: Kinds = frozenset({str})
ARRAY: Kinds = frozenset({list})
OBJECT: Kinds = frozenset({dict})
ANY: Kinds = frozenset({str, int, float, bool, type(None), list, dict})
#: Lower goes first where two members of a union take the same JSON type.
FIXED, FORMATTED, PLAIN, ANYTHING = range(4)


class Node:
    """Schema and conversion of one type.

    `kinds`: the Python types that json.loads gives for its values; `loose`: those it also accepts (3.0 for an
    integer). `match`: whether a value of such a kind is one of its own; None: the kind decides.
    `hashable`: its Python values can be set members and keys.
    """

    __slots__ = ("convert", "hashable", "kinds", "loose", "match", "rank", "schema")

    def __init__(
        self,
        schema: dict[str, Any],
        kinds: Kinds,
        convert: Convert | None = None,
        match: Match | None = None,
        *,
        loose: Kinds = frozenset(),
        rank: int = PLAIN,
        hashable: bool = True,
    ) -> None:
        self.schema = schema
        self.kinds = kinds
        self.convert = convert
        self.match = match
        self.loose = loose
        self.rank = rank
        self.hashable = hashable

    def fits(self, value: Any) -> bool:
        """Whether a JSON value is one of this type, constraints such as `minimum` aside."""
        kind = type(value)
        if kind not in self.kinds and kind not in self.loose:
            return False
        return self.match is None or self.match(value)

    def value(self, value: Any) -> Any:
        """The Python value of a JSON value. Raises ArgumentFault."""
        return value if self.convert is None else self.convert(value)

    def saying(self, schema: dict[str, Any]) -> Node:
        """The same type under another schema."""
        return Node(
            schema,
            self.kinds,
            self.convert,
            self.match,
            loose=self.loose,
            rank=self.rank,
            hashable=self.hashable,
        )


def parsed(kind: str, parse: Callable[[Any], Any]) -> Convert:
    """A converter that tells the ways in which `parse` fails as one fault. `kind`: "a date", say."""

    def convert(value: Any) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
            raise ArgumentFault(f"is not {kind}: {error}", expected=kind, got=value) from None

    return convert


def matching(convert: Convert) -> Match:
    """A match that tries the conversion."""

    def match(value: Any) -> bool:
        try:
            convert(value)
        except ArgumentFault:
            return False
        return True

    return match


def formatted(schema: dict[str, Any], kinds: Kinds, kind: str, parse: Callable[[Any], Any]) -> Node:
    """A type that is text (or a number) of a certain form in JSON."""
    convert = parsed(kind, parse)
    return Node(schema, kinds, convert, matching(convert), rank=FORMATTED)


def integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)  # JSON Schema holds 3.0 to be an integer
    raise ArgumentFault("is not an integer", expected="integer", got=value)


def number(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise ArgumentFault("is too large for a number with a fraction", got=value) from None
    raise ArgumentFault("is not a number", expected="number", got=value)


def unbase64(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def sequence(node: Node, make: Convert | None) -> Convert | None:
    """Convert each item, then make the collection from the list; None: the list stays as it is."""
    convert = node.convert
    if convert is None:
        return make
    if make is None:
        return lambda values: _each(convert, values)
    return lambda values: make(_each(convert, values))


def hashed(make: Convert) -> Convert:
    """For sets of what may turn out not to be hashable."""

    def convert(values: Any) -> Any:
        try:
            return make(values)
        except TypeError as error:
            raise ArgumentFault(f"has an item that no set can hold: {error}") from None

    return convert


def fixed(nodes: list[Node]) -> Convert:
    """A tuple with a type for each place."""

    def convert(values: Any) -> Any:
        if len(values) != len(nodes):
            raise ArgumentFault(f"needs exactly {len(nodes)} items", expected=len(nodes), got=len(values))
        made = []
        for index, (node, value) in enumerate(zip(nodes, values, strict=True)):
            try:
                made.append(node.value(value))
            except ArgumentFault as fault:
                raise fault.under(index) from None
        return tuple(made)

    return convert


def mapping(key: Convert | None, value: Convert | None) -> Convert | None:
    if key is None and value is None:
        return None

    def convert(values: Any) -> Any:
        made = {}
        for name, each in values.items():
            try:
                made[name if key is None else key(name)] = each if value is None else value(each)
            except ArgumentFault as fault:
                raise fault.under(name) from None
        return made

    return convert


def record(fields: dict[str, Node], make: Callable[..., Any] | None) -> Convert:
    """An object with named fields; `make` builds the Python value from keywords, None: a dict.

    Looks at each node's converter when called: a recursive type's own is not known before.
    """
    pairs = list(fields.items())

    def convert(values: Any) -> Any:
        made = dict(values)
        for name, node in pairs:
            if node.convert is not None and name in made:
                try:
                    made[name] = node.convert(made[name])
                except ArgumentFault as fault:
                    raise fault.under(name) from None
        if make is None:
            return made
        try:
            return make(**made)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ArgumentFault(f"cannot be made: {error}") from None

    return convert


def record_match(fields: dict[str, Node], required: Iterable[str]) -> Match:
    needed = frozenset(required)

    def match(values: Any) -> bool:
        if not needed <= values.keys():
            return False
        return all(name in fields and fields[name].fits(each) for name, each in values.items())

    return match


def choice(members: list[Node]) -> tuple[Convert | None, Match | None]:
    """Conversion and match of a union.

    A member whose JSON type is exactly the value's goes before one that merely accepts it, and a fixed or
    formatted type before plain text, so that `str | date` gives a date for a date.
    """
    table: dict[type, list[Node]] = {}
    for kind in ANY:
        exact = sorted((each for each in members if kind in each.kinds), key=lambda each: each.rank)
        table[kind] = exact + [each for each in members if kind in each.loose and each not in exact]

    def pick(value: Any) -> Node | None:
        return next((each for each in table.get(type(value), ()) if each.fits(value)), None)

    def convert(value: Any) -> Any:
        node = pick(value)
        if node is not None:
            return node.value(value)
        candidates = table.get(type(value), ())
        if len(candidates) == 1:
            return candidates[0].value(value)  # the member's own fault says more than ours
        raise ArgumentFault("is none of the types that it may be", got=value)

    converting = any(each.convert is not None for each in members)
    matching_all = any(each.match is not None for each in members)
    return (convert if converting else None), (
        (lambda value: pick(value) is not None) if matching_all else None
    )


def constants(pairs: list[tuple[Any, Any]]) -> Node:
    """A closed list of (JSON scalar, Python value)."""
    table = {(type(value), value): made for value, made in pairs}
    values = [value for value, _ in pairs]
    kinds = frozenset(type(value) for value in values)
    loose = frozenset({float}) if int in kinds and float not in kinds else frozenset()

    def convert(value: Any) -> Any:
        key = (int, int(value)) if type(value) is float and value.is_integer() else (type(value), value)
        try:
            return table[key] if key in table else table[(type(value), value)]
        except (KeyError, TypeError):
            raise ArgumentFault("is none of the allowed values", expected=values, got=value) from None

    same = kinds == TEXT and all(type(made) is str for _, made in pairs)
    schema: dict[str, Any] = {"enum": values}
    names = [_SCALAR_NAMES[each] for each in _SCALAR_NAMES if each in kinds]
    schema = {"type": names[0] if len(names) == 1 else names, **schema}
    return Node(schema, kinds, None if same else convert, matching(convert), loose=loose, rank=FIXED)


_SCALAR_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _each(convert: Convert, values: Any) -> list[Any]:
    try:
        return [convert(each) for each in values]
    except ArgumentFault:
        for index, each in enumerate(values):  # again, for the place: only a failure pays for it
            try:
                convert(each)
            except ArgumentFault as fault:
                raise fault.under(index) from None
        raise
