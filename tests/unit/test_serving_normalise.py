"""Arguments reach the tool as they were meant, whoever runs it, and the answer says what was changed."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from hermesd.model.call import Code, Outcome
from hermesd.model.schema import Schema
from hermesd.runtimes.runtime import Invocation
from tests.core_doubles import Served, raw_tool

PARAMETERS = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "minLength": 1, "description": "complete order number"},
        "count": {"type": "integer", "minimum": 1, "description": "how many"},
        "limit": {"type": "integer", "default": 10},
        "customer": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "city": {"type": "string", "description": "城市"}},
            "required": ["name", "city"],
        },
    },
    "required": ["order_id"],
}
NAME = "orders.query_status"


def served(**more: object) -> tuple[Served, Any]:
    made = Served()
    return made, made.offer(raw_tool(NAME, parameters=PARAMETERS, **more))


def faults_of(detail: Any) -> dict[str, dict[str, object]]:
    return {each["path"]: each for each in cast("list[dict[str, Any]]", detail["faults"])}


@pytest.mark.promise("ARG-3")
async def test_the_runtime_gets_the_normalised_arguments_as_value_and_as_text() -> None:
    made, runtime = served()
    text = '{"z": 12345678901234567890, "order_id": "单", "count": "3", "a": 1.0}'
    result = await made.call(NAME, text)
    assert result.code is Code.OK
    (invocation,) = cast("list[Invocation]", runtime.invocations)
    assert invocation.arguments["count"] == 3
    assert invocation.arguments_json == '{"z":12345678901234567890,"order_id":"单","count":3,"a":1.0}'
    assert result.detail["coerced"] == [{"path": "/count", "from": "3", "to": 3}]


@pytest.mark.promise("ARG-3")
async def test_valid_arguments_reach_the_runtime_as_the_text_that_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, runtime = served()
    monkeypatch.setattr(Schema, "errors", lambda *_: pytest.fail("a valid instance is only validated"))
    text = '{ "order_id" : "A-1", "count": 1e0 }'
    result = await made.call(NAME, text)
    assert (result.code, runtime.invocations[0].arguments_json) == (Code.OK, text)
    assert "coerced" not in result.detail


async def test_a_definition_that_says_no_coercion_gets_none() -> None:
    made, runtime = served(coerce=False)
    result = await made.call(NAME, '{"order_id": "A", "count": "3"}')
    assert (result.code, runtime.invocations) == (Code.INVALID_ARGUMENT, [])
    assert "coerced" not in result.detail


async def test_what_was_changed_is_told_when_the_call_then_fails() -> None:
    made, runtime = served()
    refused = await made.call(NAME, '{"count": "3"}')
    assert refused.code is Code.INVALID_ARGUMENT
    assert refused.detail["coerced"] == [{"path": "/count", "from": "3", "to": 3}]
    assert faults_of(refused.detail).keys() == {"/order_id"}

    async def fail(_: Invocation) -> Outcome:
        return Outcome(Code.TOOL_ERROR, message="no such order", detail={"code": "NO_ORDER"})

    runtime.handler = fail
    failed = await made.call(NAME, '{"order_id": "A", "count": "3"}')
    assert (failed.code, failed.detail["code"]) == (Code.TOOL_ERROR, "NO_ORDER")
    assert failed.detail["coerced"] == [{"path": "/count", "from": "3", "to": 3}]


@pytest.mark.promise("ARG-4")
async def test_rules_come_before_coercion_and_hold_for_valid_arguments_too() -> None:
    rules = [
        {"path": "/order_id", "when": {"enum": ["unknown"]}, "do": "clear"},
        {"path": "/count", "when": {"const": "0"}, "do": "clear"},
        {"path": "/limit", "when": {"maximum": 0, "type": "integer"}, "do": "default"},
    ]
    made, runtime = served(correct=rules)
    result = await made.call(NAME, '{"order_id": "A", "count": "0", "limit": -1}')
    assert result.code is Code.OK, result
    assert json.loads(runtime.invocations[0].arguments_json) == {"order_id": "A", "limit": 10}
    assert result.detail["coerced"] == [
        {"path": "/count", "from": "0", "to": None, "do": "clear"},
        {"path": "/limit", "from": -1, "to": 10, "do": "default"},
    ]
    asked = await made.call(NAME, '{"order_id": "unknown"}')
    assert faults_of(asked.detail)["/order_id"]["ask_user"] is True


@pytest.mark.parametrize("coerced", [True, False])
async def test_rules_hold_without_coercion(coerced: bool) -> None:
    made, runtime = served(coerce=coerced, correct=[{"path": "/order_id", "do": "trim"}])
    assert (await made.call(NAME, '{"order_id": " A "}')).code is Code.OK
    assert runtime.invocations[0].arguments == {"order_id": "A"}


@pytest.mark.promise("ARG-6")
@pytest.mark.parametrize("order_id", [None, "null", '""', '"  "'])
async def test_what_only_the_user_knows_is_to_be_asked_of_the_user(order_id: str | None) -> None:
    made, _ = served(parameter_guide={"order_id": "on the invoice, top right"}, coerce=order_id != '"  "')
    schema_says_blank = order_id == '"  "'
    if schema_says_blank:  # a text of blanks is a text; only a schema that refuses it makes it a fault
        parameters = {**PARAMETERS, "properties": {"order_id": {"pattern": r"\S"}}}
        made.offer(
            raw_tool(NAME, parameters=parameters, parameter_guide={"order_id": "on the invoice, top right"})
        )
    result = await made.call(NAME, "{}" if order_id is None else f'{{"order_id": {order_id}}}')
    fault = faults_of(result.detail)["/order_id"]
    assert (fault["ask_user"], fault["hint"]) == (True, "on the invoice, top right")


@pytest.mark.promise("ARG-6")
async def test_the_hint_falls_back_to_the_description_and_nested_parameters_are_found() -> None:
    made, _ = served(parameter_guide={"customer": "who pays", "customer.name": "as in the contract"})
    result = await made.call(NAME, '{"customer": {}}')
    hints = {
        path: (each.get("ask_user"), each.get("hint")) for path, each in faults_of(result.detail).items()
    }
    assert hints == {
        "/order_id": (True, "complete order number"),
        "/customer/name": (True, "as in the contract"),
        "/customer/city": (True, "城市"),
    }


@pytest.mark.promise("ARG-6")
async def test_what_the_model_can_fix_is_not_asked_of_the_user() -> None:
    parameters = {
        **PARAMETERS,
        "required": ["order_id", "limit"],
    }
    made = Served()
    made.offer(raw_tool(NAME, parameters=parameters))
    result = await made.call(NAME, '{"order_id": 5, "count": "many"}')
    faults = faults_of(result.detail)
    assert faults.keys() == {"/order_id", "/count", "/limit"}
    assert all("ask_user" not in each and "hint" not in each for each in faults.values())
