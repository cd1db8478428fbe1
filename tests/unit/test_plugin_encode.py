"""Results as JSON text."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from hermesd.plugin.encode import encode_result, plain
from hermesd.plugin.fault import ResultFault


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    LOW = 1


class Name(StrEnum):
    ADA = "ada"


@dataclass
class Point:
    x: int
    y: Point | None = None
    tags: set[str] = field(default_factory=set)


class Pair(NamedTuple):
    a: int
    b: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (2**80, str(2**80)),
        ("你好", '"你好"'),
        ({"b": 1, "a": [1.5, None]}, '{"b":1,"a":[1.5,null]}'),
        (Colour.RED, '"red"'),
        (Colour.PAIR, "[1,2]"),
        (Level.LOW, "1"),
        (Name.ADA, '"ada"'),
        (Point(1, Point(2)), '{"x":1,"y":{"x":2,"y":null,"tags":[]},"tags":[]}'),
        (Pair(1, "b"), '[1,"b"]'),
        ({"c", "a", "b"}, '["a","b","c"]'),
        (frozenset({2, 1}), "[1,2]"),
        (datetime(2026, 11, 30, 12, 0, tzinfo=UTC), '"2026-11-30T12:00:00+00:00"'),
        (datetime(2026, 11, 30, 12, 0), '"2026-11-30T12:00:00"'),
        (date(2026, 11, 30), '"2026-11-30"'),
        (time(12, 30), '"12:30:00"'),
        (timedelta(minutes=1.5), "90.0"),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.10"), '"1.10"'),
        (Path("/数据/a"), '"/数据/a"'),
        (b"\x00\xff", '"AP8="'),
        (bytearray(b"a"), '"YQ=="'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        (OrderedDict(a=1), '{"a":1}'),
        (deque([1, 2]), "[1,2]"),
        (range(3), "[0,1,2]"),
        (
            {1: "int", Colour.RED: "enum", date(2026, 1, 2): "date"},
            '{"1":"int","red":"enum","2026-01-02":"date"}',
        ),
        ({"a": {UUID(int=0): {1, 2}}}, '{"a":{"00000000-0000-0000-0000-000000000000":[1,2]}}'),
    ],
)
def test_each_type_has_one_form(value: object, text: str) -> None:
    assert encode_result(value) == text


def _generator() -> Iterator[int]:
    yield 1


def _cycle() -> list[Any]:
    items: list[Any] = [1]
    items.append({"again": items})
    return items


def _dataclass_cycle() -> Point:
    point = Point(1)
    point.y = point
    return point


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        ({"items": [1, float("nan")]}, "/items/1", "nan"),
        (float("inf"), "", "inf"),
        ({"a/b~": Decimal("NaN")}, "/a~1b~0", "NaN"),
        ({"a": object()}, "/a", "object, which is no JSON"),
        ({"a": [_generator()]}, "/a/0", "return a list"),
        ({(1, 2): 3}, "", "key"),
        ({1: "a", "1": "b", Colour.RED: 1}, "", "two keys"),
        ({"a": "\ud800"}, "/a", "surrogate"),
        ({"\udfff": 1}, "", "surrogate"),
        (_cycle(), "/1/again", "holds itself"),
        (_dataclass_cycle(), "/y", "holds itself"),
        (lambda: 1, "", "function"),
        (Point, "", "type"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(value: object, path: str, problem: str) -> None:
    with pytest.raises(ResultFault) as caught:
        encode_result(value)
    assert caught.value.path == path
    assert problem in str(caught.value)


def test_deep_results_are_refused_and_do_not_crash() -> None:
    with pytest.raises(ResultFault, match="deep"):
        encode_result(_deep())


def test_a_forgotten_await_says_what_to_write_and_warns_of_nothing() -> None:
    """hermes-agent#93923: a coroutine taken for a result."""

    async def later() -> int:
        return 1

    with pytest.raises(ResultFault, match="async def"):
        encode_result({"a": later()})
    assert asyncio.run(later()) == 1


def test_plain_gives_json_types_alone() -> None:
    assert plain({"a": (1, Point(2)), Colour.RED: {3}}) == {
        "a": [1, {"x": 2, "y": None, "tags": []}],
        "red": [3],
    }
    assert json.loads(encode_result(plain([Level.LOW]))) == [1]
