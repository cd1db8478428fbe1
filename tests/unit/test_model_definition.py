"""Every fault of a definition is told at once, each with tool and field."""

from __future__ import annotations

from dataclasses import fields

import pytest

from hermesd.errors import PluginError
from hermesd.model.definition import DEFERRED_FIELDS, ToolDefinition, parse_definition


def parse(**raw: object) -> ToolDefinition:
    return parse_definition(
        {"name": "orders.query_status", **raw}, plugin="orders", version="1.0.0"
    ).definition


def faults_of(**raw: object) -> str:
    with pytest.raises(PluginError) as caught:
        parse_definition(
            {"name": "orders.query_status", **raw}, plugin="orders", version="1.0.0", file="orders.py", line=7
        )
    assert {(each.file, each.line) for each in caught.value.rejections} == {("orders.py", 7)}
    assert all("tool '" in each.reason for each in caught.value.rejections)
    return " | ".join(each.reason for each in caught.value.rejections)


def test_a_bare_name_is_enough() -> None:
    made = parse()
    assert (made.version, made.side_effects, made.enabled, made.domain) == ("1.0.0", "write", True, "orders")
    assert made.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"name": "stock.count_items"}, "outside the plugin's own domain"),
        ({"name": "orders"}, "no tool name"),
        ({"name": "Orders.Query"}, "no tool name"),
        ({"descripton": "x"}, "did you mean 'description'"),
        ({"version": "1.2"}, "no semantic version"),
        ({"side_effects": "some"}, "none of none, read, write, destructive"),
        ({"confirm": "operater"}, "none of none, caller, operator"),
        ({"confirm": True}, "confirm: expected str, got bool"),
        ({"timeout_ms": 0}, "timeout_ms: must be at least 1"),
        ({"timeout_ms": True}, "timeout_ms: expected int, got bool"),
        ({"timeout_ms": "5"}, "timeout_ms: expected int, got str"),
        ({"max_concurrency": -1}, "max_concurrency: must be at least 1"),
        ({"rate_limit": {"calls": 0}}, "rate_limit: calls must be a whole number"),
        ({"rate_limit": {"calls": 1, "per": 2}}, "rate_limit: unknown key 'per'"),
        ({"rate_limit": 3}, "rate_limit: expected dict"),
        ({"tags": "a"}, "tags: expected list"),
        ({"enabled": "yes"}, "enabled: expected bool"),
        ({"parameters": {"type": "strnig"}}, "parameters"),
        ({"parameters": []}, "parameters: expected dict"),
        ({"returns": {"type": 5}}, "returns"),
        ({"examples": [{"user_says": "x"}]}, "examples/0"),
        ({"examples": [5]}, "examples/0"),
        ({"examples": [{"arguments": {"a": 1}}]}, "examples/0/arguments/a"),
        ({"roles": []}, "roles: is empty"),
        ({"roles": ["Big Boss"]}, "roles: 'Big Boss' is no role"),
        ({"roles": [1]}, "roles: 1 is no role"),
        ({"roles": "clerk"}, "roles: expected list"),
    ],
)
def test_a_fault_names_its_field(raw: dict[str, object], expected: str) -> None:
    assert expected in faults_of(**raw)


def test_all_faults_are_told_at_once() -> None:
    told = faults_of(version="x", timeout_ms=0, descripton="")
    assert all(each in told for each in ("version", "timeout_ms", "descripton"))


@pytest.mark.parametrize("field", sorted(DEFERRED_FIELDS))
def test_a_field_whose_feature_is_not_here_is_a_warning(field: str) -> None:
    shapes: dict[str, object] = {"requires": []}
    parsed = parse_definition(
        {"name": "orders.query_status", "description": "d", field: shapes.get(field, {"a": 1})},
        plugin="orders",
        version="1.0.0",
    )
    assert [each for each in parsed.warnings if each.startswith(f"{field}:")]
    assert field in parsed.definition.deferred


@pytest.mark.promise("CONF-1")
@pytest.mark.parametrize(
    ("side_effects", "said", "needs"),
    [
        ("none", None, "none"),
        ("read", None, "none"),
        ("write", None, "none"),
        ("destructive", None, "operator"),
        ("destructive", "caller", "caller"),
        ("destructive", "none", "none"),
        ("read", "operator", "operator"),
        ("write", "caller", "caller"),
    ],
)
def test_what_is_destructive_needs_the_operator_unless_its_author_says_otherwise(
    side_effects: str, said: str | None, needs: str
) -> None:
    parsed = parse_definition(
        {"name": "orders.delete_order", "side_effects": side_effects, "confirm": said},
        plugin="orders",
        version="1.0.0",
    )
    assert parsed.definition.confirmation == needs
    unguarded = any(each.startswith("confirm: none lets") for each in parsed.warnings)
    assert unguarded == ((side_effects, said) == ("destructive", "none"))


def test_a_missing_description_is_a_warning() -> None:
    parsed = parse_definition({"name": "orders.query_status"}, plugin="orders", version="1.0.0")
    assert "has no description" in parsed.warnings


OTHER: dict[str, object] = {
    "name": "orders.other_name", "version": "9.0.0", "parameters": {"properties": {"a": {}}}, "title": "t",
    "description": "d", "tags": ["t"], "when_to_use": "w", "when_not_to_use": "n",
    "parameter_guide": {"a": "b"},
    "examples": [{"user_says": "s", "arguments": {}}], "returns": {"type": "string"}, "side_effects": "none",
    "idempotent": True, "retryable": True, "timeout_ms": 5, "timeout_class": "batch", "max_concurrency": 3,
    "rate_limit": {"calls": 3},
    "depends_on": ["a.b_c"], "roles": ["clerk"], "enabled": False, "coerce": False,
    "correct": [{"path": "/a", "do": "trim"}], "confirm": "operator",
    "retry": {"max_attempts": 2}, "circuit_breaker": {"window": 3}, "fallback": {"tool": "a.b_c"},
}  # fmt: skip


@pytest.mark.parametrize("field", [each.name for each in fields(ToolDefinition)])
def test_the_digest_changes_with_every_field(field: str) -> None:
    changed = {"retry": {"max_attempts": 2}} if field == "deferred" else {field: OTHER[field]}
    rest = {"parameters": OTHER["parameters"]} if field == "correct" else {}
    assert parse(**changed, **rest).digest != parse(**rest).digest


def test_equal_definitions_have_equal_digests() -> None:
    assert parse(**OTHER).digest == parse(**dict(reversed(OTHER.items()))).digest


@pytest.mark.promise("HOS-2")
def test_a_definition_that_would_fill_an_answer_is_refused():
    raw = {"name": "orders.query_status", "when_to_use": "x" * 200_000}
    with pytest.raises(PluginError, match=r"has 2000\d\d characters"):
        parse_definition(raw, plugin="orders", version="1.0.0")
