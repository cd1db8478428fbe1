"""From a type hint to a node: what JSON Schema says of it, and how its values are converted.

What cannot be expressed raises `Inexpressible` with the type; `schema` adds function and parameter.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import os
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from hermesd.plugin import node as nodes
from hermesd.plugin.docstring import read_docstring
from hermesd.plugin.encode import encode_result
from hermesd.plugin.fault import ResultFault
from hermesd.plugin.limit import Limits
from hermesd.plugin.node import Node

_TIME = r"^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?$"
_DECIMAL = r"^[+-]?\d+(\.\d+)?([eE][+-]?\d{1,4})?$"
_SCALARS = (str, int, float, bool, type(None))
_SEQUENCES = (list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Collection,
              collections.abc.Iterable)  # fmt: skip
_SETS: dict[Any, Callable[[Any], Any]] = {
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
#: Attributes of the `annotated_types` markers, by what they are in JSON Schema.
_MARKERS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}


class Inexpressible(Exception):  # noqa: N818 - never leaves the SDK: schema tells it as SchemaError
    """No JSON Schema says what this type says."""

    def __init__(self, kind: Any, why: str) -> None:
        super().__init__(why)
        self.kind = kind
        self.why = why


def type_name(kind: Any) -> str:
    """A type as its author wrote it, near enough."""
    if isinstance(kind, type) and not typing.get_args(kind):
        return kind.__qualname__
    return str(kind).replace("typing.", "")


class Builder:
    """Builds the nodes of one function. `definitions` collects the classes that were met, for `$defs`.

    `outgoing`: for a result; a result may be a naive datetime, and an object may have more members: a
    TypedDict more keys, a dataclass the fields of a class that is made of it.
    `namespace`: names that string annotations of classes may use beyond those of their own module.
    """

    def __init__(self, namespace: Mapping[str, Any], *, outgoing: bool = False) -> None:
        self._namespace = dict(namespace)
        self._outgoing = outgoing
        self._named: dict[Any, tuple[str, Node]] = {}
        self.definitions: dict[str, dict[str, Any]] = {}

    def build(self, hint: Any) -> Node:
        """The node of an evaluated type hint. Raises Inexpressible."""
        if isinstance(hint, typing.NewType):
            return self.build(hint.__supertype__)
        if type(hint).__name__ == "TypeAliasType":
            return self._reference(hint, lambda: self.build(hint.__value__), kinds=nodes.ANY)
        origin = typing.get_origin(hint)
        if origin is None:
            return self._plain(hint)
        arguments = typing.get_args(hint)
        if origin is typing.Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if origin in (typing.Union, types.UnionType):
            return self.union([self.build(each) for each in arguments])
        if origin is typing.Literal:
            return self._literal(hint, arguments)
        if origin in (typing.Required, typing.NotRequired):
            raise Inexpressible(hint, "belongs into a TypedDict")
        return self._generic(hint, origin, arguments)

    def union(self, members: list[Node]) -> Node:
        """A value of any of the members."""
        convert, match = nodes.choice(members)
        kinds: frozenset[type] = frozenset().union(*(each.kinds for each in members))
        loose: frozenset[type] = frozenset().union(*(each.loose for each in members)) - kinds
        hashable = all(each.hashable for each in members)
        schema = _any_of([each.schema for each in members])
        rank = max(each.rank for each in members)
        return Node(schema, kinds, convert, match, loose=loose, rank=rank, hashable=hashable)

    def nullable(self, node: Node) -> Node:
        """The same type, or null."""
        return node if type(None) in node.kinds else self.union([node, self._plain(type(None))])

    # One type without arguments

    def _plain(self, kind: Any) -> Node:
        if kind is Any or kind is object:
            return Node({}, nodes.ANY, rank=nodes.ANYTHING, hashable=False)
        made = _BASIC.get(kind) if isinstance(kind, collections.abc.Hashable) else None
        if made is not None:
            return made()
        if kind is None:
            return _BASIC[type(None)]()
        if (
            kind in (list, tuple, set, frozenset, dict)
            or kind in _MAPPINGS
            or kind in _SEQUENCES
            or kind in _SETS
        ):
            return self._generic(kind, kind, ())
        if isinstance(kind, type):
            return self._class(kind)
        raise Inexpressible(kind, _why_not(kind))

    def _class(self, kind: Any) -> Node:
        named = _FORMATS.get(f"{kind.__module__}.{kind.__qualname__}")
        if named is not None:
            return named(kind, self._outgoing)
        if issubclass(kind, os.PathLike) and kind.__module__.startswith("pathlib"):
            return nodes.formatted({"type": "string"}, nodes.TEXT, "a path", kind)
        if issubclass(kind, enum.Enum):
            return self._enum(kind)
        if typing.is_typeddict(kind):
            return self._reference(kind, lambda: self._typed_dict(kind))
        if dataclasses.is_dataclass(kind):
            return self._reference(kind, lambda: self._dataclass(kind))
        raise Inexpressible(kind, _why_not(kind))

    def _enum(self, kind: type[enum.Enum]) -> Node:
        if issubclass(kind, enum.Flag):
            raise Inexpressible(kind, "is a Flag, whose members combine; use list[...] of an Enum")
        members = list(kind)
        if not members:
            raise Inexpressible(kind, "has no members")
        for each in members:
            if not isinstance(each.value, _SCALARS):
                raise Inexpressible(kind, f"has the value {each.value!r}, which is no JSON text or number")
        node = nodes.constants([(_scalar(each.value), each) for each in members])
        return _described(node, _own_doc(kind))

    # Classes with named fields

    def _reference(self, kind: Any, build: Callable[[], Node], kinds: nodes.Kinds = nodes.OBJECT) -> Node:
        """A class by name: told once, however often and however deep it is used."""
        if kind not in self._named:
            name = self._free_name(kind.__name__)
            target = Node({}, kinds)
            self._named[kind] = (name, target)
            self.definitions[name] = {}
            made = build()
            for slot in Node.__slots__:
                setattr(target, slot, getattr(made, slot))
            self.definitions[name] = made.schema
        name, target = self._named[kind]
        pending = not target.schema
        return Node(
            {"$ref": f"#/$defs/{name}"},
            target.kinds,
            # A class that is being built, so a recursive one: its converter is not known yet.
            target.value if pending else target.convert,
            target.fits if pending else target.match,
            loose=target.loose,
            rank=target.rank,
            hashable=target.hashable,
        )

    def _free_name(self, name: str) -> str:
        free, count = name, 1
        while free in self.definitions:
            count += 1
            free = f"{name}_{count}"
        return free

    def _dataclass(self, kind: Any) -> Node:
        hints = self._hints(kind)
        texts = read_docstring(_own_doc(kind)).parameters
        fields: dict[str, Node] = {}
        required = []
        for name, hint in hints.items():
            if isinstance(hint, dataclasses.InitVar):
                raise Inexpressible(kind, f"has the InitVar {name}")
        for each in dataclasses.fields(kind):
            if not each.init:
                continue
            node = self._field(kind, each.name, hints[each.name])
            node = _described(node, texts.get(each.name, ""))
            if each.default is not dataclasses.MISSING:
                node = with_default(self, node, each.default)
            elif each.default_factory is dataclasses.MISSING:
                required.append(each.name)
            fields[each.name] = node
        frozen = kind.__hash__ is not None
        return self._record(kind, fields, required, make=kind, hashable=frozen)

    def _typed_dict(self, kind: Any) -> Node:
        texts = read_docstring(_own_doc(kind)).parameters
        fields: dict[str, Node] = {}
        required = []
        for name, hint in self._hints(kind).items():
            needed = name in kind.__required_keys__
            while typing.get_origin(hint) in (typing.Required, typing.NotRequired):
                # __required_keys__ does not see these in string annotations.
                needed = typing.get_origin(hint) is typing.Required
                hint = typing.get_args(hint)[0]  # noqa: PLW2901
            fields[name] = _described(self._field(kind, name, hint), texts.get(name, ""))
            if needed:
                required.append(name)
        return self._record(kind, fields, required, make=None, hashable=False)

    def _field(self, kind: Any, name: str, hint: Any) -> Node:
        try:
            return self.build(hint)
        except Inexpressible as fault:
            raise Inexpressible(fault.kind, f"{fault.why} (field {name!r} of {type_name(kind)})") from None

    def _hints(self, kind: Any) -> dict[str, Any]:
        try:
            return typing.get_type_hints(
                kind, localns=self._namespace | {kind.__name__: kind}, include_extras=True
            )
        except Exception as error:  # noqa: BLE001 - evaluating runs code of the plugin
            raise Inexpressible(kind, f"has a field whose type cannot be evaluated: {error}") from None

    def _record(
        self,
        kind: Any,
        fields: dict[str, Node],
        required: list[str],
        *,
        make: Callable[..., Any] | None,
        hashable: bool,
    ) -> Node:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: each.schema for name, each in fields.items()},
        }
        if required:
            schema["required"] = required
        if not self._outgoing:
            schema["additionalProperties"] = False
        plain = make is None and all(each.convert is None for each in fields.values())
        convert = None if plain else nodes.record(fields, make)
        node = Node(schema, nodes.OBJECT, convert, nodes.record_match(fields, required), hashable=hashable)
        return _described(node, read_docstring(_own_doc(kind)).description)

    # Types with arguments

    def _literal(self, hint: Any, values: tuple[Any, ...]) -> Node:
        pairs = []
        for each in values:
            value = each.value if isinstance(each, enum.Enum) else each
            if not isinstance(value, _SCALARS):
                raise Inexpressible(hint, f"has the value {each!r}, which is no JSON text or number")
            pairs.append((_scalar(value), each))
        return nodes.constants(pairs)

    def _annotated(self, hint: Any, metadata: tuple[Any, ...]) -> Node:
        node = self.build(hint)
        said: dict[str, Any] = {}
        for each in metadata:
            said |= _said(each, node)
        return node.saying({**node.schema, **said}) if said else node

    def _generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Node:
        if origin is tuple:
            return self._tuple(arguments)
        if origin in _SEQUENCES:
            item = self.build(arguments[0] if arguments else Any)
            return self._array(item, nodes.sequence(item, None))
        if origin in _SETS:
            return self._set(hint, _SETS[origin], arguments)
        if origin in _MAPPINGS:
            return self._mapping(hint, arguments)
        raise Inexpressible(hint, _why_not(hint))

    def _array(self, item: Node, convert: nodes.Convert | None, *, hashable: bool = False) -> Node:
        schema: dict[str, Any] = {"type": "array"}
        if item.schema:
            schema["items"] = item.schema
        return Node(
            schema,
            nodes.ARRAY,
            convert,
            lambda values: all(item.fits(each) for each in values),
            hashable=hashable,
        )

    def _tuple(self, arguments: tuple[Any, ...]) -> Node:
        if not arguments or (len(arguments) == 2 and arguments[1] is Ellipsis):
            item = self.build(arguments[0] if arguments else Any)
            return self._array(item, nodes.sequence(item, tuple), hashable=item.hashable)
        items = [self.build(each) for each in arguments if each != ()]
        schema: dict[str, Any] = {"type": "array", "minItems": len(items), "maxItems": len(items)}
        if items:
            schema["prefixItems"] = [each.schema for each in items]

        def match(values: Any) -> bool:
            return len(values) == len(items) and all(
                node.fits(value) for node, value in zip(items, values, strict=True)
            )

        hashable = all(each.hashable for each in items)
        return Node(schema, nodes.ARRAY, nodes.fixed(items), match, hashable=hashable)

    def _set(self, hint: Any, make: Callable[[Any], Any], arguments: tuple[Any, ...]) -> Node:
        item = self.build(arguments[0] if arguments else Any)
        if not item.hashable and item.rank != nodes.ANYTHING:
            raise Inexpressible(hint, "is a set of what no set can hold; use list[...]")
        node = self._array(item, nodes.sequence(item, nodes.hashed(make)), hashable=make is frozenset)
        node.schema["uniqueItems"] = True
        return node

    def _mapping(self, hint: Any, arguments: tuple[Any, ...]) -> Node:
        key, value = (self.build(each) for each in (arguments or (str, Any)))
        if key.kinds != nodes.TEXT:
            raise Inexpressible(hint, "has keys that are not text, and JSON has no others")
        schema: dict[str, Any] = {"type": "object"}
        if key.schema != {"type": "string"}:
            schema["propertyNames"] = key.schema
        if value.schema:
            schema["additionalProperties"] = value.schema

        def match(values: Any) -> bool:
            return all(key.fits(name) and value.fits(each) for name, each in values.items())

        convert = nodes.mapping(key.convert, value.convert)
        return Node(schema, nodes.OBJECT, convert, match, hashable=False)


def with_default(builder: Builder, node: Node, default: Any) -> Node:
    """The node with its default told, where the default is JSON. Raises Inexpressible for a wrong one."""
    import json  # noqa: PLC0415

    if default is None and type(None) not in node.kinds:
        node = builder.nullable(node)
    try:
        value = json.loads(encode_result(default))
    except ResultFault:
        return node  # a sentinel: the parameter may be left out, and that is all there is to say
    if not node.fits(value):
        raise Inexpressible(type(default), f"is the type of the default {default!r}, which the hint excludes")
    return node.saying({**node.schema, "default": value})


def _described(node: Node, text: str) -> Node:
    if not text or "description" in node.schema:
        return node
    return node.saying({**node.schema, "description": text})


def _said(metadata: Any, node: Node) -> dict[str, Any]:
    if isinstance(metadata, str):
        return {"description": metadata}
    if isinstance(metadata, Limits):
        return metadata.keywords
    if isinstance(metadata, dict):
        raise Inexpressible(metadata, "stands in Annotated; write Limits(minimum=1), say, instead of a dict")
    said = {}
    for attribute, keyword in _MARKERS.items():
        value = getattr(metadata, attribute, None)
        if isinstance(value, int | float):
            said[keyword] = value
    suffix = "Items" if list in node.kinds else "Properties" if dict in node.kinds else "Length"
    for attribute, keyword in (("min_length", f"min{suffix}"), ("max_length", f"max{suffix}")):
        value = getattr(metadata, attribute, None)
        if isinstance(value, int):
            said[keyword] = value
    return said


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """One `type` list where that says the same: models read it better than `anyOf`."""
    unique = [each for index, each in enumerate(schemas) if each not in schemas[:index]]
    if {} in unique:
        return {}
    if len(unique) == 1:
        return unique[0]
    more = [each for each in unique if each.keys() != {"type"}]
    flat = [each.get("type") for each in unique]
    names = [name for each in flat for name in (each if isinstance(each, list) else [each])]
    apart = None not in names and len(set(names)) == len(names) and len(more) <= 1
    # A minimum of the one must not bind the other.
    numbers = {"integer", "number"} <= set(names) and more and more[0]["type"] in ("integer", "number")
    if not apart or numbers:
        return {"anyOf": unique}
    merged = {**(more[0] if more else {}), "type": names}
    if "enum" in merged:
        if len(unique) != 2 or {"type": "null"} not in unique:
            return {"anyOf": unique}
        merged["enum"] = [*merged["enum"], None]
    return merged


def _scalar(value: Any) -> Any:
    """Without the class of a str or int subclass: an Enum's own value."""
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _own_doc(kind: Any) -> str:
    """A class's docstring, unless it is inherited or made by the machine."""
    text = vars(kind).get("__doc__") or ""
    generated = text.startswith(f"{kind.__name__}(") or text in (
        "An enumeration.",
        "dict() -> new empty dictionary",
    )
    return "" if generated else text


def _why_not(kind: Any) -> str:
    if isinstance(kind, typing.TypeVar):
        return "is a type variable; write the types that it stands for"
    if isinstance(kind, typing.ForwardRef | str):
        return "is a name that nothing has"
    if (
        kind in (collections.abc.Callable, typing.NoReturn)
        or typing.get_origin(kind) is collections.abc.Callable
    ):
        return "is a function, and JSON has none"
    if hasattr(kind, "model_fields"):
        return "is a pydantic model, which a bare interpreter does not have; use a dataclass or TypedDict"
    if isinstance(kind, type) and issubclass(kind, tuple):
        return "is a named tuple; use a dataclass or TypedDict"
    return "has no form in JSON; use a dataclass, a TypedDict, or Any for any JSON"


def _datetime(kind: Any, outgoing: bool) -> Node:
    if outgoing:
        return Node({"type": "string", "description": "date and time, ISO 8601"}, nodes.TEXT)

    def parse(text: str) -> Any:
        moment = kind.fromisoformat(text.upper())
        if moment.tzinfo is None:
            raise ValueError("it says no offset from UTC, such as Z or +08:00")
        return moment

    return nodes.formatted({"type": "string", "format": "date-time"}, nodes.TEXT, "a date and time", parse)


def _date(kind: Any, outgoing: bool) -> Node:
    def parse(text: str) -> Any:
        if len(text) != len("2026-11-30"):
            raise ValueError("it must look like 2026-11-30")
        return kind.fromisoformat(text)

    return nodes.formatted({"type": "string", "format": "date"}, nodes.TEXT, "a date", parse)


def _time(kind: Any, outgoing: bool) -> Node:
    return nodes.formatted(
        {"type": "string", "pattern": _TIME}, nodes.TEXT, "a time of day", kind.fromisoformat
    )


def _timedelta(kind: Any, outgoing: bool) -> Node:
    schema = {"type": "number", "description": "seconds"}
    return nodes.formatted(
        schema, frozenset({int, float}), "a number of seconds", lambda value: kind(seconds=value)
    )


def _uuid(kind: Any, outgoing: bool) -> Node:
    return nodes.formatted({"type": "string", "format": "uuid"}, nodes.TEXT, "a UUID", kind)


def _decimal(kind: Any, outgoing: bool) -> Node:
    schema: dict[str, Any] = {"type": "string", "pattern": _DECIMAL}
    if outgoing:
        return Node(schema, nodes.TEXT)
    schema["type"] = ["string", "number"]
    # By way of its text: 0.1 is meant, not the binary fraction beside it.
    return nodes.formatted(
        schema, frozenset({str, int, float}), "a decimal number", lambda value: kind(str(value))
    )


_FORMATS: dict[str, Callable[[Any, bool], Node]] = {
    "datetime.datetime": _datetime,
    "datetime.date": _date,
    "datetime.time": _time,
    "datetime.timedelta": _timedelta,
    "uuid.UUID": _uuid,
    "decimal.Decimal": _decimal,
}


def _bytes(make: Callable[[bytes], Any]) -> Node:
    schema = {"type": "string", "contentEncoding": "base64"}
    return nodes.formatted(schema, nodes.TEXT, "base64", lambda text: make(nodes.unbase64(text)))


_BASIC: dict[Any, Callable[[], Node]] = {
    str: lambda: Node({"type": "string"}, nodes.TEXT),
    int: lambda: Node(
        {"type": "integer"},
        frozenset({int}),
        nodes.integer,
        nodes.matching(nodes.integer),
        loose=frozenset({float}),
    ),
    float: lambda: Node({"type": "number"}, frozenset({float}), nodes.number, loose=frozenset({int})),
    bool: lambda: Node({"type": "boolean"}, frozenset({bool})),
    type(None): lambda: Node({"type": "null"}, nodes.NULL),
    bytes: lambda: _bytes(bytes),
    bytearray: lambda: _bytes(bytearray),
}
