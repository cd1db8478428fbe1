"""What no compiler should see is refused in bounded time; what is admitted lists every fault."""

from __future__ import annotations

import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermesd.model.schema import MAX_FAULTS, Schema, SchemaFault, admit_schema, depth_fault

SOON_S = 2.0  # what these inputs cost without bounds is far more, or for ever


def nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def bomb(levels: int) -> dict[str, object]:
    """Each level refers to the next one twice: 2**levels when expanded."""
    definitions: dict[str, object] = {f"d{levels}": {"type": "string"}}
    for level in range(levels):
        each = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {"anyOf": [each, each]}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (nested(80), "deep"),
        (bomb(40), "references"),
        ({"type": "string", "description": "x" * 70_000}, "64 KiB"),
        ({"$ref": "https://example.com/schema.json"}, "only references into itself"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "only references into itself"),
        ({"properties": {"a": {"$dynamicRef": "other.json#x"}}}, "only references into itself"),
        ({"type": "strnig"}, "."),
        ({"type": 5}, "."),
        ({"required": "a"}, "."),
        ({"minimum": "a"}, "."),
        ({"pattern": "("}, "."),
        ({"properties": {"a": {"default": object()}}}, "no JSON"),
        ({"properties": {"a": {"default": float("nan")}}}, "no JSON"),
    ],
)
def test_a_schema_that_is_none_or_too_much_is_refused_soon(raw: dict[str, object], why: str) -> None:
    began = time.monotonic()
    with pytest.raises(SchemaFault, match=why):
        Schema.compile(raw)
    assert time.monotonic() - began < SOON_S


def test_a_reference_to_nothing_is_refused() -> None:
    with pytest.raises(SchemaFault):
        Schema.compile({"$ref": "#/$defs/absent"})


def test_a_schema_that_contains_itself_is_no_json() -> None:
    raw: dict[str, Any] = {"type": "object", "properties": {}}
    raw["properties"]["self"] = raw
    with pytest.raises(SchemaFault):
        admit_schema(raw)


def test_a_recursive_schema_is_admitted() -> None:
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}}}},
    }
    schema = Schema.compile(tree)
    assert schema.faults({"left": {"left": {}}}) == []
    assert [each.path for each in schema.faults({"left": {"left": 5}})] == ["/left/left"]


def test_a_regular_expression_that_explodes_is_bounded() -> None:
    schema = Schema.compile({"type": "string", "pattern": "^(a+)+$"})
    hard = Schema.compile({"type": "string", "pattern": r"^(?=(a+)+$)(a|aa)+$"})
    began = time.monotonic()
    assert schema.faults("a" * 40 + "!")
    assert hard.faults("a" * 40 + "!")
    assert time.monotonic() - began < SOON_S


def test_draft_07_is_read_as_such() -> None:
    schema = Schema.compile(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "array",
            "items": [{"type": "string"}, {"type": "integer"}],
        }
    )
    assert schema.faults(["a", 1]) == []
    assert [each.path for each in schema.faults([1, "a"])] == ["/0", "/1"]


def test_paths_are_json_pointers() -> None:
    schema = Schema.compile({"properties": {"a/b~c": {"properties": {"汉": {"type": "integer"}}}}})
    assert [each.path for each in schema.faults({"a/b~c": {"汉": "x"}})] == ["/a~1b~0c/汉"]


def test_faults_are_bounded_in_number_and_length() -> None:
    schema = Schema.compile({"type": "array", "items": {"type": "integer"}})
    faults = schema.faults(["x" * 10_000] * 200)
    assert len(faults) == MAX_FAULTS
    assert all(len(str(each.as_detail())) < 1500 for each in faults)


def test_formats_are_checked() -> None:
    assert Schema.compile({"type": "string", "format": "date"}).faults("2030-13-01")


@pytest.mark.parametrize("value", [[], {}, "x", None, 5])
def test_shallow_values_pass(value: object) -> None:
    depth_fault(value)


def test_depth_is_measured_without_recursion() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(SchemaFault):
        depth_fault(value)
    while isinstance(value, list):  # the interpreter frees a deep list recursively
        value = value[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer", "minimum": 0},
            {"enum": ["a", 1, None]},
            {"type": ["null", "boolean"]},
            {"maxLength": 2},
            {},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item, "maxItems": 2}, inner),
        st.builds(
            lambda a, b: {
                "type": "object",
                "properties": {"a": a, "b": b},
                "required": ["a"],
                "additionalProperties": False,
            },
            inner,
            inner,
        ),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
    ),
    max_leaves=5,
)


@pytest.mark.promise("CORE-12")
@given(SCHEMAS, JSON)
@settings(max_examples=200, deadline=None)
def test_the_verdict_is_that_of_the_reference_validator(raw: dict[str, object], instance: object) -> None:
    oracle = jsonschema.Draft202012Validator(raw)
    schema = Schema.compile(raw)
    assert schema.is_valid(instance) == oracle.is_valid(instance)
    assert bool(schema.faults(instance)) != oracle.is_valid(instance)


@pytest.mark.parametrize("items", [{"type": "integer"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}])
def test_the_faults_of_a_large_instance_are_not_told_apart(items: dict[str, object]) -> None:
    """The engine makes all its errors at once: a million of them held everything up for 13 s."""
    schema = Schema.compile({"properties": {"a": {"anyOf": [{"items": items}, {"type": "null"}]}}})
    large = {"a": ["x"] * 300_000}
    started = time.perf_counter()
    (fault,) = schema.faults(large)
    assert (fault.path, fault.got) == ("", None)
    assert "too many to say where" in fault.problem
    assert list(schema.errors(large)) == []
    assert time.perf_counter() - started < SOON_S
    assert schema.faults({"a": [1] * 300_000}) == []
