"""A slip of a model is read as it was meant; what could mean something else stays as it came."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import pytest

from hermesd.model.coerce import MAX_FAULTS, coerce
from hermesd.model.schema import Schema

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
DAY = {"type": "string", "format": "date"}
INSTANT = {"type": "string", "format": "date-time"}
MAYBE = {"anyOf": [INTEGER, {"type": "null"}]}
POINT = {"type": "object", "properties": {"x": INTEGER}, "required": ["x"]}
TREE = {"type": "object", "properties": {"n": INTEGER, "next": {"$ref": "#/$defs/tree"}}}


def read(value: object, schema: Mapping[str, object], **more: object) -> object:
    """The value as the parameter `a` of this schema is read."""
    whole = {"type": "object", "properties": {"a": schema}, "$defs": {"tree": TREE}, **more}
    arguments = {"a": value}
    before = copy.deepcopy(arguments)
    final, changes = coerce(arguments, Schema.compile(whole))
    assert arguments == before
    assert (final is arguments) == (changes == [])
    return final["a"]


@pytest.mark.promise("ARG-1")
@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ("3", INTEGER, 3),
        (" -12\n", INTEGER, -12),
        ("9007199254740992", INTEGER, 2**53),
        ("3", NUMBER, 3),
        ("-0.25", NUMBER, -0.25),
        ("3.5", {"type": ["integer", "number", "null"]}, 3.5),
        ("true", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("3", MAYBE, 3),
        ("3", {"type": ["integer", "null"]}, 3),
        ({"x": "3"}, {"oneOf": [{"type": "null"}, POINT]}, {"x": 3}),
        ({"x": "3"}, {"oneOf": [{"const": None}, POINT]}, {"x": 3}),
        ({"n": "1", "next": {"n": "2"}}, {"$ref": "#/$defs/tree"}, {"n": 1, "next": {"n": 2}}),
        (["1", 2, " 3 "], {"type": "array", "items": INTEGER}, [1, 2, 3]),
        (["1", "b"], {"prefixItems": [INTEGER, {"type": "string"}]}, [1, "b"]),
        (3, {"type": "array", "items": INTEGER}, [3]),
        ("3", {"type": "array", "items": INTEGER}, [3]),
        ("北京", {"type": "array", "items": {"type": "string"}}, ["北京"]),
        ({"x": "1"}, {"type": ["array", "null"], "items": POINT}, [{"x": 1}]),
        (" red ", {"enum": ["red", "blue"]}, "red"),
        ("　蓝", {"enum": ["红", "蓝"]}, "蓝"),
        ("2", {"enum": [1, 2]}, 2),
        ("2", {"type": "integer", "enum": [1, 2]}, 2),
        ("true", {"const": True}, True),
        (" A-1 ", {"type": "string", "pattern": "^A-[0-9]$"}, "A-1"),
        ("ab ", {"type": "string", "maxLength": 2}, "ab"),
        (" 2026-11-30 ", DAY, "2026-11-30"),
        ("20261130", DAY, "2026-11-30"),
        ("2026-11-30 10:00Z", INSTANT, "2026-11-30T10:00:00Z"),
        ("20261130T100000+0100", INSTANT, "2026-11-30T10:00:00+01:00"),
        ("2026-11-30T10:00:00,5z", INSTANT, "2026-11-30T10:00:00.500000Z"),
        (" 9f1c7f36-9a2f-4b7e-8f43-0d4f9b1b4b11", {"format": "uuid"}, "9f1c7f36-9a2f-4b7e-8f43-0d4f9b1b4b11"),
    ],
)
def test_what_was_meant_is_read(value: object, schema: Mapping[str, object], expected: object) -> None:
    made = read(value, schema)
    assert (made, repr(made)) == (expected, repr(expected))


@pytest.mark.promise("ARG-2")
@pytest.mark.parametrize(
    ("value", "schema"),
    [
        *((text, INTEGER) for text in ("", " ", "1e3", "0x10", "1_000", "1,000", "+3", "007", "-0", "3.0")),
        *((text, INTEGER) for text in ("NaN", "Infinity", "３", "٣", "9007199254740993", "three", "3 4")),
        *((text, NUMBER) for text in ("1e3", ".5", "5.", "NaN", "0.12345678901234567", "-0.0", "1.5.2")),
        *((text, {"type": "boolean"}) for text in ("yes", "1", "on", "TRUE ish", "")),
        (1, {"type": "boolean"}),
        (True, INTEGER),
        (3, {"type": "string"}),
        (3.5, INTEGER),
        ("null", {"type": "null"}),
        ("null", INTEGER),
        ("3", {"type": "string"}),
        (" a ", {"type": "string"}),
        ("3", {"type": ["integer", "string"]}),
        ("3", {"type": ["integer", "boolean"]}),
        ("x", {"anyOf": [INTEGER, {"type": "boolean"}]}),
        ("3", {"anyOf": [INTEGER, {"type": "boolean"}, {"type": "null"}]}),
        ("3", {"type": "integer", "enum": [1, 2]}),
        ("3", {"type": "integer", "maximum": 2}),
        ("1", {"enum": [True]}),
        (" 1", {"enum": ["1", 1]}),
        ("RED", {"enum": ["red"]}),
        (None, {"type": "array"}),
        ("", {"type": "array"}),
        ('["a"]', {"type": "array", "items": {"type": "string"}}),
        ('{"x": 1}', {"type": "array"}),
        ("x", {"type": "array", "items": INTEGER}),
        (3, {"type": "array", "items": INTEGER, "minItems": 2}),
        (3, {"type": "array", "items": {"type": "array", "items": INTEGER}}),
        (["1", 1], {"type": "array", "items": INTEGER, "uniqueItems": True}),
        ("3", {"type": "object"}),
        ("   ", {"type": "string", "maxLength": 2}),
        ("2026-11-30T00:00:00Z", DAY),
        ("30.11.2026", DAY),
        ("2026-02-30", DAY),
        ("2026-11-30", INSTANT),
        ("2026-11-30T10:00:00", INSTANT),
        ("2026-11-30 10:00:00.1234567Z", INSTANT),
        ("2026-11-30T25:00:00Z", INSTANT),
    ],
)
def test_what_could_mean_something_else_stays(value: object, schema: Mapping[str, object]) -> None:
    made = read(value, schema)
    assert (made, repr(made)) == (value, repr(value))


def test_each_change_is_told_with_its_pointer_and_what_is_wrong_still_does_not_hide_it() -> None:
    schema = Schema.compile(
        {
            "type": "object",
            "properties": {"a/b": INTEGER, "c": {"type": "array", "items": POINT}, "d": INTEGER},
            "required": ["e"],
        }
    )
    final, changes = coerce({"a/b": "1", "c": [{"x": 1}, {"x": "2"}], "d": "many"}, schema)
    assert final == {"a/b": 1, "c": [{"x": 1}, {"x": 2}], "d": "many"}
    assert changes == [
        {"path": "/a~1b", "from": "1", "to": 1},
        {"path": "/c/1/x", "from": "2", "to": 2},
    ]


def test_a_change_that_breaks_a_rule_elsewhere_is_not_made() -> None:
    rule = {"if": {"properties": {"a": INTEGER}}, "then": {"required": ["b"]}}
    assert read("3", INTEGER, **rule) == "3"


def test_a_change_refused_in_one_place_keeps_none_from_another() -> None:
    schema = Schema.compile({"properties": {"a": INTEGER, "b": {"type": "integer", "maximum": 2}}})
    assert coerce({"a": "3", "b": "3"}, schema)[0] == {"a": 3, "b": "3"}


def test_a_long_value_is_told_short() -> None:
    schema = Schema.compile({"properties": {"a": {"type": "array"}}})
    _, changes = coerce({"a": "x" * 5000}, schema)
    assert len(str(changes)) < 600


def test_more_faults_than_slips_can_be_are_left_alone() -> None:
    schema = Schema.compile({"properties": {"a": {"items": INTEGER}}})
    few, many = ["1"] * MAX_FAULTS, ["1"] * (MAX_FAULTS + 1)
    assert coerce({"a": few}, schema)[0] == {"a": [1] * MAX_FAULTS}
    assert coerce({"a": many}, schema) == ({"a": many}, [])


def test_draft_07_is_read_alike() -> None:
    schema = Schema.compile(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {"$ref": "#/definitions/n"}, "b": {"items": [INTEGER]}},
            "definitions": {"n": INTEGER},
        }
    )
    assert coerce({"a": "1", "b": ["2"]}, schema)[0] == {"a": 1, "b": [2]}
