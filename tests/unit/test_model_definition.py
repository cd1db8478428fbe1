"""Every fault of a definition is told at once, each with tool and field."""

from __future__ import annotations

from dataclasses import fields
from datetime import date

import pytest

from hermesd.errors import PluginError
from hermesd.model.definition import ToolDefinition, parse_definition


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
        ({"examples": [{"arguments": {}, "user_say": "x"}]}, "examples/0: unknown field 'user_say'"),
        ({"examples": [{"arguments": {}, "user_says": 5}]}, "examples/0/user_says: expected text"),
        ({"examples": [{"arguments": {}}] * 21}, "examples: has 21, and 20 are the most"),
        ({"tags": ["a", ""]}, "tags/1: expected a short text"),
        ({"tags": [5]}, "tags/0: expected a short text"),
        ({"title": "x" * 201}, "title: has 201 characters"),
        ({"depends_on": ["orders"]}, "depends_on/0: 'orders' is no name of a tool"),
        ({"parameter_guide": {"a": 5}}, "parameter_guide/a: expected a text"),
        ({"deprecated": {}}, "deprecated: says nothing"),
        ({"deprecated": {"use": "b.c_d", "sinse": "x"}}, "deprecated: unknown field 'sinse'; did you mean"),
        ({"deprecated": {"since": 5}}, "deprecated/since: expected text, got int"),
        ({"deprecated": {"since": "soon"}}, "deprecated/since: 'soon' is neither"),
        ({"deprecated": {"remove_after": "2030-02-30"}}, "deprecated/remove_after: '2030-02-30' is no day"),
        ({"deprecated": {"use": "Other"}}, "deprecated/use: 'Other' is no name of a tool"),
        ({"deprecated": {"use": "orders.query_status"}}, "deprecated/use: names the tool itself"),
        ({"requires": ["git"]}, "requires/0: expected an object such as {command: git}, got str"),
        ({"requires": [{"commmand": "git"}]}, "requires/0: unknown check 'commmand'; did you mean 'command'"),
        ({"requires": [{"command": "git", "env": "A"}]}, "requires/0: expected exactly one of env, command"),
        ({"requires": [{"remedy": "x"}]}, "requires/0: expected exactly one of"),
        ({"requires": [{"env": ""}]}, "requires/0/env: expected a text"),
        ({"requires": [{"env": "A B"}]}, "requires/0/env: 'A B' is not a variable's name"),
        ({"requires": [{"python": "a-b"}]}, "requires/0/python: 'a-b' is not a module's name"),
        ({"requires": [{"command": "a/b"}]}, "requires/0/command: 'a/b' is not a command's name"),
        ({"requires": [{"env": "A"}] * 51}, "requires: has 51 checks, and 50 are the most"),
    ],
)
@pytest.mark.promise("DEF-1")
def test_a_fault_names_its_field(raw: dict[str, object], expected: str) -> None:
    """hermes-agent#56271: authority by the name that a module gave itself."""
    assert expected in faults_of(**raw)


def test_all_faults_are_told_at_once() -> None:
    told = faults_of(version="x", timeout_ms=0, descripton="")
    assert all(each in told for each in ("version", "timeout_ms", "descripton"))


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


def test_a_guide_of_no_parameter_is_a_warning() -> None:
    parsed = parse_definition(
        {
            "name": "orders.query_status",
            "parameters": {"properties": {"id": {"type": "object"}}},
            "parameter_guide": {"id": "x", "id.part": "x", "ib": "x"},
        },
        plugin="orders",
        version="1.0.0",
    )
    assert [each for each in parsed.warnings if "guide" in each] == [
        "parameter_guide: there is no parameter 'ib'"
    ]


def test_what_leaves_says_so_in_words_and_knows_its_last_day() -> None:
    made = parse(deprecated={"since": "1.2.0", "use": "orders.find_order", "remove_after": "2030-01-31"})
    assert str(made.deprecated) == (
        "deprecated since 1.2.0; use orders.find_order in its place; it may be gone after 2030-01-31"
    )
    assert made.deprecated is not None
    assert not made.deprecated.is_overdue(date(2030, 1, 31))
    assert made.deprecated.is_overdue(date(2030, 2, 1))


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
    "requires": [{"command": "git"}], "deprecated": {"since": "1.0.0", "use": "orders.new_name"},
}  # fmt: skip


@pytest.mark.parametrize("field", [each.name for each in fields(ToolDefinition)])
def test_the_digest_changes_with_every_field(field: str) -> None:
    changed = {field: OTHER[field]}
    rest = {"parameters": OTHER["parameters"]} if field == "correct" else {}
    assert parse(**changed, **rest).digest != parse(**rest).digest


def test_equal_definitions_have_equal_digests() -> None:
    assert parse(**OTHER).digest == parse(**dict(reversed(OTHER.items()))).digest


@pytest.mark.promise("HOS-2")
def test_a_definition_that_would_fill_an_answer_is_refused():
    raw = {"name": "orders.query_status", "when_to_use": "x" * 200_000}
    with pytest.raises(PluginError, match=r"has 2000\d\d characters"):
        parse_definition(raw, plugin="orders", version="1.0.0")
