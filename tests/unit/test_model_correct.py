"""What an author knows that models get wrong is put right by a rule; one that cannot work is refused."""

from __future__ import annotations

import copy

import pytest

from hermesd.errors import PluginError
from hermesd.model.correct import MAX_RULES, apply_corrections, compile_corrections
from hermesd.model.definition import parse_definition

PARAMETERS = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "tail": {"default": None, "anyOf": [{"type": "string"}, {"type": "null"}]},
        "customer": {"anyOf": [{"$ref": "#/$defs/customer"}, {"type": "null"}]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
    "$defs": {"customer": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
PLACEHOLDER = {"enum": ["unknown", "N/A", "未知"]}


def corrected(
    arguments: dict[str, object], *rules: dict[str, object]
) -> tuple[object, list[dict[str, object]]]:
    made, faults = compile_corrections(rules, PARAMETERS)
    assert faults == []
    before = copy.deepcopy(arguments)
    final, changes = apply_corrections(arguments, made)
    assert arguments == before
    return final, changes


@pytest.mark.promise("ARG-4")
@pytest.mark.parametrize(
    ("arguments", "rule", "expected", "to"),
    [
        ({"order_id": "未知"}, {"path": "/order_id", "when": PLACEHOLDER, "do": "clear"}, {}, None),
        ({"order_id": " A "}, {"path": "/order_id", "do": "trim"}, {"order_id": "A"}, "A"),
        ({"limit": -1}, {"path": "/limit", "when": {"maximum": 0}, "do": "default"}, {"limit": 10}, 10),
        ({"tail": ""}, {"path": "/tail", "when": {"const": ""}, "do": "default"}, {"tail": None}, None),
        (
            {"customer": {"name": "N/A", "more": 1}},
            {"path": "/customer/name", "when": PLACEHOLDER, "do": "clear"},
            {"customer": {"more": 1}},
            None,
        ),
    ],
)
def test_a_rule_that_fits_is_applied_and_told(
    arguments: dict[str, object], rule: dict[str, object], expected: object, to: object
) -> None:
    final, changes = corrected(arguments, rule)
    assert final == expected
    value: object = arguments
    for part in str(rule["path"])[1:].split("/"):
        value = value[part]  # type: ignore[index]
    assert changes == [{"path": rule["path"], "from": value, "to": to, "do": rule["do"]}]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({}, {"path": "/order_id", "do": "clear"}),
        ({"order_id": "A-1"}, {"path": "/order_id", "when": PLACEHOLDER, "do": "clear"}),
        ({"order_id": "A"}, {"path": "/order_id", "do": "trim"}),
        ({"order_id": 5}, {"path": "/order_id", "do": "trim"}),
        ({"limit": 10}, {"path": "/limit", "do": "default"}),
        ({}, {"path": "/limit", "do": "default"}),
        ({"customer": None}, {"path": "/customer/name", "do": "clear"}),
        ({"customer": "x"}, {"path": "/customer/name", "do": "clear"}),
    ],
)
def test_a_rule_that_does_not_fit_changes_nothing(
    arguments: dict[str, object], rule: dict[str, object]
) -> None:
    assert corrected(arguments, rule) == (arguments, [])


def test_rules_apply_in_their_order() -> None:
    final, changes = corrected(
        {"order_id": " N/A "},
        {"path": "/order_id", "do": "trim"},
        {"path": "/order_id", "when": PLACEHOLDER, "do": "clear"},
    )
    assert (final, [each["do"] for each in changes]) == ({}, ["trim", "clear"])


@pytest.mark.promise("ARG-5")
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (5, "correct/0: expected {path, when, do}"),
        ({"path": "/order_id", "do": "clear", "wenn": {}}, "correct/0: unknown field 'wenn'"),
        ({"path": "/order_id"}, "correct/0/do: None is none of clear, trim, default"),
        ({"path": "/order_id", "do": "drop"}, "correct/0/do: 'drop' is none of"),
        ({"path": "order_id", "do": "trim"}, "correct/0/path: expected a JSON pointer"),
        (
            {"path": "/oder_id", "do": "trim"},
            "correct/0/path: /oder_id is no parameter of this tool, did you",
        ),
        ({"path": "/order_id/x", "do": "trim"}, "correct/0/path: /order_id/x is no parameter"),
        ({"path": "/lines/0/sku", "do": "trim"}, "correct/0/path: /lines/0/sku is no parameter"),
        ({"path": "/", "do": "trim"}, "correct/0/path: / is no parameter"),
        ({"path": "/order_id", "do": "default"}, "correct/0/do: /order_id has no default"),
        ({"path": "/order_id", "do": "clear", "when": True}, "correct/0/when: expected a schema, got bool"),
        ({"path": "/order_id", "do": "clear", "when": {"type": "strnig"}}, "correct/0/when/type: "),
    ],
)
def test_a_rule_that_cannot_work_is_refused_at_its_place(rule: object, expected: str) -> None:
    with pytest.raises(PluginError) as caught:
        parse_definition(
            {"name": "orders.query_status", "parameters": PARAMETERS, "correct": [rule]},
            plugin="orders",
            version="1.0.0",
            file="orders.py",
            line=7,
        )
    (rejection,) = caught.value.rejections
    assert expected in rejection.reason
    assert (rejection.file, rejection.line) == ("orders.py", 7)


def test_rules_are_bounded() -> None:
    rules = [{"path": "/order_id", "do": "trim"}] * (MAX_RULES + 1)
    assert compile_corrections(rules, PARAMETERS) == (
        (),
        [f"correct: has {MAX_RULES + 1} rules, and {MAX_RULES} are the most"],
    )
