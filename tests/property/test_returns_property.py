"""What a hint promises of a result admits every value of that hint, as it is encoded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermesd.model.schema import Schema
from hermesd.plugin.encode import encode_answer
from hermesd.plugin.schema import returns_schema
from tests.property.test_plugin_roundtrip import TYPES

pytestmark = pytest.mark.promise("OUT-1")


class Pair(NamedTuple):
    a: int
    b: str


class Level(IntEnum):
    LOW = 1


class Name(StrEnum):
    ADA = "ada"


@dataclass
class Animal:
    name: str


@dataclass
class Dog(Animal):
    tricks: int = 0


def faults(hint: Any, value: Any) -> list[Any]:
    def tool() -> Any: ...

    tool.__annotations__["return"] = hint
    schema = returns_schema(tool)
    return [] if schema is None else Schema.compile(schema).faults(json.loads(encode_answer(value)[0]))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_every_value_of_a_hint_is_what_the_hint_promises(data: st.DataObject) -> None:
    typed = data.draw(TYPES)
    assert faults(typed.hint, data.draw(typed.values)) == []


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (datetime, datetime(2026, 11, 30)),
        (Decimal, Decimal("1E+30")),
        (Decimal, Decimal("-1.50E-9")),
        (float, 3),
        (str, Name.ADA),
        (Level, Level.LOW),
        (int, Level.LOW),
        (Path, Path("/数据")),
        (Pair, Pair(1, "b")),
        (Animal, Dog("rex", 3)),
        (list[Animal], [Dog("rex"), Animal("cat")]),
        (Animal | None, None),
        (dict[int, str], {1: "a"}),
        (dict[str, Any], {"a": [1, {"b": None}]}),
        (Any, object),
        (object, 1),
        (None, None),
        (list, (1, 2)),
        (tuple, (1, "a")),
        (set, {1}),
        (bytes, b"\x00"),
        (bytes, bytearray(b"\x00")),
        (dict, {"a": 1}),
    ],
    ids=str,
)
def test_what_authors_return_under_a_hint_is_admitted(hint: Any, value: Any) -> None:
    try:
        found = faults(hint, value)
    except Exception as error:
        pytest.skip(f"refused: {error}")
    assert found == []
