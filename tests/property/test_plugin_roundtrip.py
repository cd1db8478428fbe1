"""Whatever type an author writes: its values survive the way through JSON, and the schema admits them."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermesd.model.schema import Schema
from hermesd.plugin.bind import BoundTool, bind_tool
from hermesd.plugin.encode import encode_result
from hermesd.plugin.fault import ArgumentFault, LoadFault, ResultFault
from hermesd.plugin.limit import Limits

Number = NewType("Number", int)


class Colour(Enum):
    RED = "red"
    BLUE = "蓝"


class Level(Enum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    day: date
    label: Annotated[str, "何物"] = ""


@dataclasses.dataclass
class Tree:
    value: Colour
    children: list[Tree] = dataclasses.field(default_factory=list)


class Order(TypedDict):
    id: UUID
    total: NotRequired[Decimal]


class Typed(NamedTuple):
    """A type hint, values of it, the JSON types of those, and whether a set can hold them."""

    hint: Any
    values: st.SearchStrategy[Any]
    kinds: frozenset[str]
    hashable: bool = True


# Half of a surrogate pair is no text that JSON in UTF-8 can carry.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
POINTS = st.builds(Point, st.integers(), st.dates(), TEXT)
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.builds(Tree, st.sampled_from(Colour)),
    lambda inner: st.builds(Tree, st.sampled_from(Colour), st.lists(inner, max_size=2)),
    max_leaves=4,
)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=3)
ORDERS = st.fixed_dictionaries({"id": st.uuids()}, optional={"total": DECIMALS})


def leaf(hint: Any, values: st.SearchStrategy[Any], *kinds: str, hashable: bool = True) -> Typed:
    return Typed(hint, values, frozenset(kinds), hashable)


LEAVES = [
    leaf(str, TEXT, "string"),
    leaf(int, st.integers(), "number"),
    leaf(float, st.floats(allow_nan=False, allow_infinity=False), "number"),
    leaf(bool, st.booleans(), "boolean"),
    leaf(None, st.none(), "null"),
    leaf(Number, st.integers(), "number"),
    leaf(Annotated[int, "small", Limits(minimum=0, maximum=9)], st.integers(0, 9), "number"),
    leaf(bytes, st.binary(max_size=8), "string"),
    leaf(date, st.dates(), "string"),
    leaf(datetime, st.datetimes(timezones=st.one_of(st.just(UTC), OFFSETS)), "string"),
    leaf(time, st.times(), "string"),
    leaf(timedelta, st.timedeltas(timedelta(days=-99), timedelta(days=99)), "number"),
    leaf(UUID, st.uuids(), "string"),
    leaf(Decimal, DECIMALS, "string", "number"),
    leaf(PurePosixPath, TEXT.map(PurePosixPath), "string"),
    leaf(Colour, st.sampled_from(Colour), "string"),
    leaf(Level, st.sampled_from(Level), "number"),
    leaf(Literal["a", 1, None], st.sampled_from(["a", 1, None]), "string", "number", "null"),
    leaf(Literal[Colour.RED], st.just(Colour.RED), "string"),
    leaf(Point, POINTS, "object"),
    leaf(Tree, TREES, "object", hashable=False),
    leaf(Order, ORDERS, "object", hashable=False),
]


def union(members: list[Typed]) -> Typed:
    """Members that share no JSON type: others cannot be told apart by anybody."""
    taken: set[str] = set()
    apart = []
    for each in members:
        if not taken & each.kinds:
            taken |= each.kinds
            apart.append(each)
    hint = typing.Union[tuple(each.hint for each in apart)]  # noqa: UP007 - NewType knows no `|` in 3.11
    values = st.one_of(*(each.values for each in apart))
    return Typed(hint, values, frozenset(taken), all(each.hashable for each in apart))


ARRAY, OBJECT = frozenset({"array"}), frozenset({"object"})
WAYS: list[Callable[[Typed], Typed]] = [
    lambda it: Typed(list[it.hint], st.lists(it.values, max_size=3), ARRAY, False),
    lambda it: Typed(tuple[it.hint, ...], st.lists(it.values, max_size=3).map(tuple), ARRAY, it.hashable),
    lambda it: Typed(tuple[it.hint, str], st.tuples(it.values, TEXT), ARRAY, it.hashable),
    lambda it: Typed(dict[str, it.hint], st.dictionaries(TEXT, it.values, max_size=3), OBJECT, False),
    lambda it: Typed(
        dict[Colour, it.hint], st.dictionaries(st.sampled_from(Colour), it.values), OBJECT, False
    ),
    lambda it: Typed(frozenset[it.hint], st.frozensets(it.values, max_size=3), ARRAY) if it.hashable else it,
    lambda it: union([it, leaf(None, st.none(), "null")]),
]
TYPES: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(lambda way, it: way(it), st.sampled_from(WAYS), inner),
        st.lists(inner, min_size=1, max_size=3).map(union),
    ),
    max_leaves=5,
)


def bound(hint: Any) -> BoundTool:
    def f(it: Any) -> None: ...

    f.__annotations__["it"] = hint
    return bind_tool(f, "p")


def same(one: Any, other: Any) -> bool:
    """Equal, and of equal types all the way: 1 is not True and a list is no tuple."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, list | tuple):
        return all(map(same, one, other))
    if isinstance(one, dict):
        return all(same(each, other[key]) for key, each in one.items())
    return True


@pytest.mark.promise("SDK-5")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_every_value_of_every_type_survives_json_and_is_admitted(data: st.DataObject) -> None:
    typed = data.draw(TYPES)
    value = data.draw(typed.values)
    tool = bound(typed.hint)
    arguments = json.loads(encode_result({"it": value}))
    jsonschema.Draft202012Validator.check_schema(tool.raw["parameters"])
    jsonschema.validate(arguments, tool.raw["parameters"], jsonschema.Draft202012Validator)
    assert Schema.compile(tool.raw["parameters"]).faults(arguments) == []
    before = json.dumps(arguments)
    made = tool.arguments(arguments)["it"]
    assert same(made, value), (typed.hint, made, value)
    assert json.dumps(arguments) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TYPES, JSON)
def test_what_the_schema_admits_is_converted_or_a_fault_with_a_path(typed: Typed, value: Any) -> None:
    tool = bound(typed.hint)
    if not Schema.compile(tool.raw["parameters"]).is_valid({"it": value}):
        return
    try:
        tool.arguments({"it": value})
    except ArgumentFault as fault:
        told = fault.path
    else:
        return
    assert told.startswith("/it")


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_json_is_encoded_as_json(value: Any) -> None:
    assert json.loads(encode_result(value)) == value


UNTELLABLE = [complex, type, Callable[[], int], dict[int, int], set[list[int]], Typed]
HOSTILE = st.recursive(
    st.none()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.builds(object)
    | st.just(int)
    | st.dates()
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.tuples(st.integers()), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=6,
)


@pytest.mark.promise("SDK-7")
@settings(max_examples=300, deadline=None)
@given(HOSTILE)
def test_whatever_a_tool_returns_is_json_in_utf8_or_a_result_fault(value: Any) -> None:
    try:
        text = encode_result(value)
    except ResultFault as fault:
        told = fault.path
    else:
        json.loads(text.encode(), parse_constant=pytest.fail)
        return
    assert not told or told.startswith("/")


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([complex, type, Callable[[], int], dict[int, int], set[list[int]], Typed]),
    st.sampled_from(WAYS),
)
def test_a_type_that_cannot_be_told_is_refused_however_deep_it_is(
    hint: Any, way: Callable[[Typed], Typed]
) -> None:
    with pytest.raises(LoadFault, match="parameter 'it'"):
        bound(way(Typed(hint, st.none(), frozenset({"array"}))).hint)
