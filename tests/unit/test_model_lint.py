"""Lints say what a model would stumble over, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hermesd.model.definition import ToolDefinition
from hermesd.model.deprecation import Deprecation
from hermesd.model.lint import lint

TEXT = "complete order number as printed on the bill; ask the user when it is missing"


def definition(**changes: Any) -> ToolDefinition:
    fields: dict[str, Any] = {
        "name": "orders.query_status",
        "version": "1.0.0",
        "description": "Tells where an order is.",
        "when_to_use": "The user asks where an order is.",
        "parameters": parameters({"type": "string", "description": TEXT}),
    }
    return ToolDefinition(**(fields | changes))


def named(name: str) -> dict[str, object]:
    return {"type": "object", "properties": {name: {"type": "string", "description": TEXT}}}


def parameters(schema: Mapping[str, object], **more: object) -> dict[str, object]:
    return {"type": "object", "properties": {"order_id": schema}, **more}


def reasons(tool: ToolDefinition, **options: Any) -> list[str]:
    return [each.reason for each in lint(tool, **options)]


def test_a_well_described_tool_has_no_lints() -> None:
    assert lint(definition()) == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"description": " "}, "has no description"),
        ({"when_to_use": ""}, "has no when_to_use"),
        ({"name": "orders.status"}, "domain.verb_object"),
        ({"description": "x" * 501}, "501 characters"),
        ({"parameters": parameters({"type": "string"})}, "source, form"),
        ({"parameters": parameters({"type": "string", "description": "the id"})}, "source, form"),
        ({"parameters": parameters({"type": "object", "description": TEXT})}, "bare object"),
        ({"parameters": parameters({"description": TEXT})}, "bare object"),
        (
            {"parameters": parameters({"type": "array", "items": {"type": "object"}, "description": TEXT})},
            "bare object",
        ),
        ({"returns": {"type": "object"}}, "returns a bare object"),
        ({"returns": {}}, "returns a bare object"),
        ({"parameter_guide": {"other": "x"}}, "speaks of 'other', which is no parameter"),
        ({"parameters": named("订单")}, "that Anthropic's API refuses"),
        ({"parameters": named("x" * 65)}, "that Anthropic's API refuses"),
        ({"deprecated": Deprecation(since="1.0.0")}, "does not say what to use in its place"),
    ],
)
@pytest.mark.promise("CLI-13")
def test_each_fault_is_named_once_with_a_remedy(changes: dict[str, Any], reason: str) -> None:
    found = lint(definition(**changes), file="orders.py", line=7)
    assert len(found) == 1
    assert reason in found[0].reason
    assert "'orders." in found[0].reason
    assert found[0].remedy
    assert found[0].place == "orders.py:7"


def test_chinese_text_of_the_same_meaning_is_long_enough() -> None:
    described = parameters({"type": "string", "description": "完整的订单编号"})
    assert reasons(definition(parameters=described)) == []


def test_the_parameter_guide_counts_as_a_description() -> None:
    assert (
        reasons(definition(parameters=parameters({"type": "string"}), parameter_guide={"order_id": TEXT}))
        == []
    )


def test_a_guide_lets_a_parameter_take_any_json_on_purpose() -> None:
    assert reasons(definition(parameters=parameters({}), parameter_guide={"order_id": TEXT})) == []


def test_a_described_return_value_may_be_any_json_on_purpose() -> None:
    assert reasons(definition(returns={"description": "the document as it was put"})) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"id": {"type": "string"}}},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "additionalProperties": False},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"enum": ["open", "closed"]},
        {"$ref": "#/$defs/Order"},
    ],
)
def test_an_object_with_a_shape_is_not_bare(schema: dict[str, object]) -> None:
    shaped = parameters(
        schema | {"description": TEXT},
        **{"$defs": {"Order": {"type": "object", "properties": {"id": {"type": "string"}}}}},
    )
    assert reasons(definition(parameters=shaped)) == []


def test_a_reference_to_a_bare_object_is_found_and_recursion_ends() -> None:
    recursive = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    shaped = parameters({"$ref": "#/$defs/Node", "description": TEXT}, **{"$defs": {"Node": recursive}})
    assert reasons(definition(parameters=shaped)) == []
    recursive["properties"]["any"] = {"type": "object"}  # type: ignore[index]
    assert len(reasons(definition(parameters=shaped))) == 1


def test_the_budget_of_a_description_is_the_operators() -> None:
    assert reasons(definition(description="x" * 30), description_chars=20)
    assert not reasons(definition(description="x" * 600), description_chars=700)
