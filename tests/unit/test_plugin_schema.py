"""Signatures as JSON Schema, row by row of what type hints can say."""
# ruff: noqa: E501, UP007, UP045, RUF013 - a table reads best with one row a line; authors write Optional

from __future__ import annotations

import collections.abc
import enum
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import jsonschema
import pytest

from hermesd.plugin import Limits, ToolContext
from hermesd.plugin.fault import SchemaError
from hermesd.plugin.limit import KEYWORDS
from hermesd.plugin.schema import parameters_schema, read_signature, returns_schema

if TYPE_CHECKING:
    from nowhere import Missing

T = TypeVar("T")
OrderId = NewType("OrderId", str)
Amount = NewType("Amount", int)


class State(Enum):
    OPEN = "open"
    DONE = "done"


class Mixed(Enum):
    ONE = 1
    NAME = "name"


class Nothing(Enum):
    pass


class Odd(Enum):
    PAIR = (1, 2)


class Bits(Flag):
    A = 1


@dataclass(frozen=True)
class Point:
    """A place on the map.

    Attributes:
        x: to the east
    """

    x: int
    y: Annotated[float, "to the north"] = 0.0


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)
    parent: Tree | None = None
    seen: int = field(default=0, init=False)


@dataclass
class Ping:
    pong: Pong | None = None


@dataclass
class Pong:
    ping: Ping | None = None


@dataclass
class WithInitVar:
    a: InitVar[int]


class Query(TypedDict):
    """A query."""

    text: str
    limit: NotRequired[int]


class Loose(TypedDict, total=False):
    text: Required[str]
    state: State


class Named(NamedTuple):
    a: int


class Pydantic:
    model_fields: dict[str, object] = {}  # noqa: RUF012 - as pydantic has it


def schema_of(hint: Any) -> dict[str, Any]:
    def f(it: Any) -> None: ...

    f.__annotations__["it"] = hint
    schema = parameters_schema(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    it: dict[str, Any] = schema["properties"]["it"]
    return {**it, "$defs": schema["$defs"]} if "$defs" in schema else it


POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer", "description": "to the east"},
        "y": {"type": "number", "description": "to the north", "default": 0.0},
    },
    "required": ["x"],
    "additionalProperties": False,
    "description": "A place on the map.",
}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string"}),
        (timedelta, {"type": "number", "description": "seconds"}),
        (OrderId, {"type": "string"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (list, {"type": "array"}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, str], {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "integer"}, {"type": "string"}]}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (frozenset[Point], {"type": "array", "items": POINT, "uniqueItems": True}),
        (dict[str, Amount], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict, {"type": "object"}),
        (dict[State, int], {"type": "object", "propertyNames": {"type": "string", "enum": ["open", "done"]}, "additionalProperties": {"type": "integer"}}),
        (collections.abc.Mapping[str, Any], {"type": "object"}),
        (State, {"type": "string", "enum": ["open", "done"]}),
        (Mixed, {"type": ["string", "integer"], "enum": [1, "name"]}),
        (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
        (Literal[State.OPEN], {"type": "string", "enum": ["open"]}),
        (Literal["a", None] | bool, {"anyOf": [{"type": ["string", "null"], "enum": ["a", None]}, {"type": "boolean"}]}),
        (Optional[str], {"type": ["string", "null"]}),
        (Optional[State], {"type": ["string", "null"], "enum": ["open", "done", None]}),
        (int | str, {"type": ["integer", "string"]}),
        (Union[int, str, None], {"type": ["integer", "string", "null"]}),
        (list[int] | None, {"type": ["array", "null"], "items": {"type": "integer"}}),
        (date | datetime, {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}),
        (int | Annotated[float, Limits(minimum=1)], {"anyOf": [{"type": "integer"}, {"type": "number", "minimum": 1}]}),
        (str | Any, {}),
        (Point, POINT),
        (Point | int, {"anyOf": [POINT, {"type": "integer"}]}),
        (Query, {"type": "object", "properties": {"text": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["text"], "additionalProperties": False, "description": "A query."}),
        (Loose, {"type": "object", "properties": {"text": {"type": "string"}, "state": {"type": "string", "enum": ["open", "done"]}}, "required": ["text"], "additionalProperties": False}),
        (Annotated[str, "the order's number"], {"type": "string", "description": "the order's number"}),
        (Annotated[int, "how many", Limits(minimum=1, maximum=9)], {"type": "integer", "description": "how many", "minimum": 1, "maximum": 9}),
        ("list[Point] | None", {"type": ["array", "null"], "items": POINT}),
    ],
)  # fmt: skip
def test_what_a_type_hint_says(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


def test_a_decimal_may_be_text_or_a_number_and_a_time_needs_no_offset() -> None:
    decimal = jsonschema.Draft202012Validator(schema_of(Decimal))
    assert decimal.is_valid("1.10")
    assert decimal.is_valid(1.5)
    assert not decimal.is_valid("one")
    clock = jsonschema.Draft202012Validator(schema_of(time))
    assert clock.is_valid("14:30")
    assert clock.is_valid("14:30:00.5+08:00")
    assert not clock.is_valid("24:00")


def test_recursive_types_refer_to_themselves() -> None:
    schema = schema_of(Tree)
    assert schema["$ref"] == "#/$defs/Tree"
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert "seen" not in schema["$defs"]["Tree"]["properties"]
    jsonschema.validate({"name": "a", "children": [{"name": "b", "parent": None}]}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "a", "children": [{"nam": "b"}]}, schema)


def test_two_types_may_refer_to_each_other() -> None:
    schema = schema_of(Ping)
    jsonschema.validate({"pong": {"ping": {"pong": None}}}, schema)
    assert not jsonschema.Draft202012Validator(schema).is_valid({"pong": {"ping": {"pong": 1}}})


def test_a_class_used_twice_is_told_once() -> None:
    schema = schema_of(tuple[Point, Point])
    assert schema["$defs"] == {"Point": POINT}


def test_two_classes_of_one_name_stay_apart() -> None:
    @dataclass
    class Point:
        z: str

    outer = globals()["Point"]
    schema = schema_of(tuple[Point, Point, outer, outer])
    assert sorted(schema["$defs"]) == ["Point", "Point_2"]


def test_the_whole_signature() -> None:
    def f(
        ctx: ToolContext,
        order_id: Annotated[str, "the number"],
        tail: str | None,
        *,
        n: int = 3,
        s: State = State.OPEN,
        names: frozenset[str] = frozenset(),
        p: Point = Point(1),
        d: str = None,
    ) -> None:  # type: ignore[assignment]
        """Ask.

        Args:
            order_id: not this one
            tail: the end
        """

    assert parameters_schema(f) == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "the number"},
            "tail": {"type": ["string", "null"], "description": "the end"},
            "n": {"type": "integer", "default": 3},
            "s": {"type": "string", "enum": ["open", "done"], "default": "open"},
            "names": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "default": []},
            "p": {**POINT, "default": {"x": 1, "y": 0.0}},
            "d": {"type": ["string", "null"], "default": None},
        },
        "required": ["order_id", "tail"],
        "additionalProperties": False,
    }


def test_a_sentinel_default_makes_a_parameter_optional_and_is_not_told() -> None:
    def f(a: int = object()) -> None: ...  # type: ignore[assignment]

    assert parameters_schema(f) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": False,
    }


def test_a_tool_without_parameters_takes_none() -> None:
    def f() -> None: ...

    assert parameters_schema(f) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_keyword_arguments_open_the_schema() -> None:
    def anything(**more: Any) -> None: ...
    def numbers(a: str, **more: int) -> None: ...

    assert "additionalProperties" not in parameters_schema(anything)
    assert parameters_schema(numbers)["additionalProperties"] == {"type": "integer"}


def test_a_parameter_without_a_hint_is_any_json() -> None:
    def f(a, b=1): ...  # type: ignore[no-untyped-def]

    assert parameters_schema(f)["properties"] == {"a": {}, "b": {"default": 1}}


def test_the_context_is_found_by_its_type_or_its_name() -> None:
    def typed(context: ToolContext, a: int) -> None: ...
    def optional(a: int, context: ToolContext | None = None) -> None: ...
    def named(ctx, a: int): ...  # type: ignore[no-untyped-def]
    def unresolved(ctx: Missing.ToolContext, a: int) -> None: ...
    def none(a: int) -> None: ...

    names = [read_signature(each).context_name for each in (typed, optional, named, unresolved, none)]
    assert names == ["context", "context", "ctx", "ctx", None]
    for each in (typed, optional, named, unresolved, none):
        assert list(parameters_schema(each)["properties"]) == ["a"]


def test_names_that_a_function_closes_over_resolve() -> None:
    @dataclass
    class Inner:
        a: int

    def f(it: Inner) -> Inner:
        return Inner(it.a)

    assert parameters_schema(f)["properties"]["it"]["properties"] == {"a": {"type": "integer"}}


@pytest.mark.promise("SDK-6")
@pytest.mark.parametrize(
    ("hint", "parts"),
    [
        (complex, ["complex", "no form in JSON"]),
        (Callable[[], int], ["Callable", "function"]),
        (T, ["T", "type variable"]),
        (dict[int, str], ["dict[int, str]", "keys"]),
        (set[list[int]], ["set[list[int]]", "use list"]),
        (Bits, ["Bits", "combine"]),
        (Nothing, ["Nothing", "no members"]),
        (Odd, ["Odd", "(1, 2)"]),
        (Named, ["Named", "named tuple"]),
        (WithInitVar, ["WithInitVar", "InitVar"]),
        (Pydantic, ["Pydantic", "dataclass"]),
        (Required[int], ["Required", "TypedDict"]),
        (list[complex], ["complex", "list[complex]"]),
        ("Missing", ["Missing", "cannot be evaluated"]),
        ("list[", ["list[", "cannot be evaluated"]),
        (Annotated[int, {"minimum": 1}], ["Limits"]),
        (enum.Enum, ["Enum"]),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_function_parameter_and_type(
    hint: Any, parts: list[str]
) -> None:
    def f(good: int, it: Any) -> None: ...

    f.__annotations__["it"] = hint
    with pytest.raises(SchemaError) as caught:
        parameters_schema(f)
    message = str(caught.value)
    assert message.startswith("test_what_cannot_be_expressed")
    assert "f(): parameter 'it'" in message
    for part in parts:
        assert part in message


def test_signatures_that_names_cannot_fill_are_refused() -> None:
    def positional(a: int, /) -> None: ...
    def star(*rest: int) -> None: ...
    def two(ctx: ToolContext, context: ToolContext) -> None: ...
    def taken(ctx: str) -> None: ...
    def wrong(a: int = "3") -> None: ...  # type: ignore[assignment]

    for function, part in (
        (positional, "remove the `/`"),
        (star, "list[…]"),
        (two, "both contexts"),
        (taken, "rename it"),
        (wrong, "'3'"),
        (max, "signature"),
    ):
        with pytest.raises(SchemaError, match=part.replace("[", r"\[")):
            parameters_schema(function)


def test_what_comes_back() -> None:
    def nothing(): ...  # type: ignore[no-untyped-def]
    def anything() -> Any: ...
    def none() -> None: ...
    def moment() -> datetime: ...
    def query() -> Query: ...
    async def points() -> list[Point]: ...
    def told() -> int:
        """Count.

        Returns:
            how many
        """

    assert returns_schema(nothing) is None
    assert returns_schema(anything) is None
    assert returns_schema(none) == {"type": "null"}
    assert "format" not in (returns_schema(moment) or {})
    assert "additionalProperties" not in (returns_schema(query) or {})
    # A class that is made of Point has more fields, and is a Point.
    place = {key: value for key, value in POINT.items() if key != "additionalProperties"}
    assert returns_schema(points) == {"type": "array", "items": place}
    assert returns_schema(told) == {"type": "integer", "description": "how many"}


def test_a_result_that_cannot_be_expressed_is_refused() -> None:
    def f() -> complex: ...

    with pytest.raises(SchemaError, match=r"f\(\): the result: the type complex"):
        returns_schema(f)


def test_limits_are_hashable_and_know_their_keywords() -> None:
    assert Limits(minimum=1) == Limits(minimum=1) != Limits(minimum=2)
    assert len({Limits(pattern="a"), Limits(pattern="a")}) == 1
    assert repr(Limits(minimum=1)) == "Limits(minimum=1)"
    assert "minimum" in KEYWORDS
    with pytest.raises(TypeError, match="did you mean 'minimum'"):
        Limits(minimun=1)
    with pytest.raises(TypeError, match="the limits are"):
        Limits(zzz=1)


def test_annotated_types_markers_count_as_limits() -> None:
    class Marker:
        def __init__(self, **said: Any) -> None:
            vars(self).update(said)

    assert schema_of(Annotated[int, Marker(ge=1, lt=9)]) == {
        "type": "integer",
        "minimum": 1,
        "exclusiveMaximum": 9,
    }
    assert schema_of(Annotated[str, Marker(min_length=1)]) == {"type": "string", "minLength": 1}
    assert schema_of(Annotated[list[Any], Marker(max_length=2)]) == {"type": "array", "maxItems": 2}
    assert schema_of(Annotated[str, Marker(unrelated=1)]) == {"type": "string"}
