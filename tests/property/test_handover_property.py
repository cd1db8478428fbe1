"""Whatever the schema: what a model is shown admits all that the tool's own schema admits.

And no more, except where it cannot be said without references: below a bounded recursion, and for what is
composed at the very top for APIs that take a plain object only.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from hermesd.model.definition import ToolDefinition
from hermesd.model.digestible import MAX_CHARS, UNFOLDED, digestible
from hermesd.model.handover import FORMATS, handed_over
from hermesd.model.schema import Schema, SchemaFault
from tests.schemas import INSTANCES, OBJECTS, SCHEMAS, documents

MANY = settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DRAFT7 = "http://json-schema.org/draft-07/schema#"
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "required": ["root"],
    "$defs": {
        "node": {
            "type": "object",
            "description": "a node",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value"],
        }
    },
}


def shown_to(to: str, raw: dict[str, Any]) -> dict[str, Any]:
    tool = ToolDefinition(name="a.b_c", version="1.0.0", parameters=raw)
    made: Any = handed_over(tool, raw, None, to)  # type: ignore[arg-type]
    return (
        made["function"]["parameters"] if to == "openai" else made.get("input_schema") or made["inputSchema"]
    )


@st.composite
def recursive(draw: st.DrawFn) -> dict[str, Any]:
    """Definitions that refer to each other and to themselves, however they like."""
    raw = draw(documents())
    raw["$defs"] = {"one": draw(SCHEMAS), "two": draw(SCHEMAS)}
    return raw


def references(schema: object) -> bool:
    return '"$ref"' in json.dumps(schema)


@pytest.mark.promise("SEE-14")
@MANY
@given(documents(), st.booleans(), st.lists(st.one_of(OBJECTS, INSTANCES), min_size=1, max_size=4))
def test_without_recursion_the_digestible_schema_means_the_same(
    raw: dict[str, Any], is_old: bool, instances: list[Any]
) -> None:
    if is_old:
        raw = {"$schema": DRAFT7, **raw}
    original, made = Schema.compile(raw), digestible(raw)
    assert not references(made)
    assert "$defs" not in made
    shown = Schema.compile(made)
    for instance in instances:
        valid = original.is_valid(instance)
        event("valid" if valid else "invalid")
        assert shown.is_valid(instance) == valid, (made, instance)


@pytest.mark.promise("SEE-14")
@MANY
@given(recursive(), st.sampled_from(FORMATS), st.lists(OBJECTS, min_size=1, max_size=4))
def test_what_fits_the_tool_fits_what_a_model_is_shown(
    raw: dict[str, Any], to: str, instances: list[Any]
) -> None:
    try:
        original = Schema.compile(raw)
    except SchemaFault:
        assume(False)
    made = shown_to(to, raw)
    shown = Schema.compile(made)
    assert made["type"] == "object"
    if to != "mcp":
        assert not made.keys() & {"allOf", "anyOf", "oneOf", "not", "enum", "const", "$ref"}
    for instance in instances:
        if original.is_valid(instance):
            event("valid")
            assert shown.is_valid(instance), (made, instance)


def test_recursion_is_unfolded_and_then_bounded() -> None:
    made = digestible(TREE)
    assert not references(made)
    node = made["properties"]["root"]
    for _ in range(UNFOLDED - 1):
        node = node["properties"]["children"]["items"]
    assert node["properties"]["children"]["items"] == {"type": "object", "description": "a node"}
    deep = {"root": {"value": 1, "children": [{"value": 2, "children": [{"value": 3, "children": []}]}]}}
    assert Schema.compile(made).is_valid(deep)
    assert not Schema.compile(made).is_valid({"root": {"children": [{"value": "x"}]}})


def test_a_schema_that_would_grow_without_end_keeps_its_references() -> None:
    raw: dict[str, Any] = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {}}
    for level in range(9):
        below = {"$ref": f"#/$defs/d{level + 1}"}
        plain = {f"p{number}": {"type": "integer"} for number in range(12)}
        raw["$defs"][f"d{level}"] = {"type": "object", "properties": {"x": below, "y": below, **plain}}
    raw["$defs"]["d9"] = {"type": "string"}
    for to in FORMATS:
        made = shown_to(to, raw)
        assert len(json.dumps(made)) < MAX_CHARS
        Schema.compile(made)
        assert made["$defs"]


def test_a_union_with_null_is_a_nullable_type() -> None:
    union = {
        "anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}],
        "description": "d",
        "default": None,
    }
    assert digestible({"properties": {"a": union}})["properties"] == {
        "a": {"type": ["string", "null"], "maxLength": 3, "description": "d", "default": None}
    }
    choice = {"oneOf": [{"type": "null"}, {"enum": ["a", "b"]}]}
    assert digestible({"properties": {"a": choice}})["properties"] == {"a": {"enum": ["a", "b", None]}}


def test_the_old_draft_is_shown_as_the_new_one() -> None:
    raw = {
        "$schema": DRAFT7,
        "type": "object",
        "definitions": {"n": {"type": "integer"}},
        "properties": {
            "pair": {"type": "array", "items": [{"$ref": "#/definitions/n"}], "additionalItems": False},
            "other": {"$ref": "#/definitions/n", "minimum": 5, "description": "d"},
        },
        "dependencies": {"pair": ["other"], "other": {"required": ["pair"]}},
    }
    made = digestible(raw)
    assert made["properties"]["pair"]["prefixItems"] == [{"type": "integer"}]
    assert made["properties"]["other"] == {"type": "integer", "description": "d"}
    assert made["dependentRequired"] == {"pair": ["other"]}
    assert made["dependentSchemas"] == {"other": {"required": ["pair"]}}
    assert "$schema" not in made


def test_alternatives_at_the_top_are_lifted_as_far_as_they_agree() -> None:
    raw = {
        "anyOf": [
            {"properties": {"kind": {"const": "a"}, "x": {"type": "string", "description": "of a"}}},
            {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
        ],
        "allOf": [{"properties": {"always": {"type": "integer"}}, "required": ["always"]}],
    }
    made = shown_to("anthropic", raw)
    assert made == {
        "type": "object",
        "properties": {
            "always": {"type": "integer"},
            "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
            "x": {"description": "of a"},
        },
        "required": ["always"],
    }
