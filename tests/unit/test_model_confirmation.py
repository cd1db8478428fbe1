"""What people decide by: a sentence and the arguments, fit to be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.model.call import Caller
from hermesd.model.confirmation import MAX_ITEMS, MAX_SUMMARY, MAX_TEXT, binding_of, describe, required_by
from hermesd.model.definition import ToolDefinition
from hermesd.model.text import clean, escape_unseen

pytestmark = pytest.mark.promise("CONF-8")


def tool(**more: Any) -> ToolDefinition:
    given = {"name": "orders.delete_order", "version": "1.2.0", "parameters": {"type": "object"}}
    return ToolDefinition(**{**given, "side_effects": "destructive", **more})


def shown(arguments: dict[str, object], **more: Any) -> tuple[str, Any]:
    summary, text = describe(tool(**more), arguments, lambda each: each)
    return summary, json.loads(text)


@pytest.mark.parametrize(
    ("more", "begins"),
    [
        ({"title": "Delete an order", "description": "Deletes it."}, "Delete an order ("),
        ({"description": "Deletes an order. It cannot be undone.\nSecond line"}, "Deletes an order ("),
        ({"description": "删除订单"}, "删除订单 ("),
        ({}, "orders.delete_order ("),
        ({"title": "\x1b[31mDelete\u202e it"}, "Delete it ("),
        ({"title": "x" * 500}, "x" * 199 + "… ("),
    ],
)
def test_a_summary_begins_with_what_the_tool_does(more: dict[str, Any], begins: str) -> None:
    assert shown({}, **more)[0].startswith(begins)


def test_a_summary_names_tool_version_effect_and_arguments() -> None:
    summary, arguments = shown({"id": 7, "why": "旧", "deep": {"a": [1, None, True]}}, title="Delete")
    assert summary == (
        'Delete (orders.delete_order 1.2.0, destructive) with id=7, why="旧", deep={"a":[1,null,true]}'
    )
    assert arguments == {"id": 7, "why": "旧", "deep": {"a": [1, None, True]}}
    assert shown({})[0].endswith("with no arguments")


def test_arguments_that_differ_in_what_nobody_sees_look_different() -> None:
    texts = ["ab", "a\u200bb", "a\u202eb", "a\x00b", "a\x85b", "a\u2028b", "a\U000e0041b", "a\x7fb", "a\nb"]
    summaries = [shown({"path": text})[0] for text in texts]
    assert len(set(summaries)) == len(texts)
    assert all(clean(each) == each for each in summaries)
    assert len({shown({text: 1})[0] for text in texts}) == len(texts)


def test_the_name_of_an_argument_is_not_mistaken_for_two() -> None:
    assert shown({"id=1, all": True})[0].endswith('with "id=1, all"=true')
    assert shown({"": 1})[0].endswith('with ""=1')


def test_what_is_cut_says_how_much_is_missing() -> None:
    _, arguments = shown({"text": "x" * 10_000, "many": list(range(500))})
    assert arguments["text"] == "x" * MAX_TEXT + f"… ({10_000 - MAX_TEXT} more characters)"
    assert arguments["many"][MAX_ITEMS:] == [f"… ({500 - MAX_ITEMS} more)"]
    summary, arguments = shown({f"key{each}": "y" * 90 for each in range(80)})
    assert arguments["…"] == "30 more"
    assert len(summary) <= MAX_SUMMARY
    assert summary.endswith(" more characters)")


def test_integers_that_python_would_not_write_are_named_by_their_size() -> None:
    assert shown({"n": 1 << 20_000})[1] == {"n": "an integer of 20001 bits"}


def test_secrets_are_hidden_before_anything_is_shown() -> None:
    def hide(text: str) -> str:
        return text.replace("hunter2", "[redacted]")

    summary, text = describe(tool(), {"password": "hunter2"}, hide)
    assert "hunter2" not in summary + text
    assert "[redacted]" in summary


def test_a_mask_that_leaves_no_json_hides_all() -> None:
    summary, text = describe(tool(), {"a": "b"}, lambda each: each[:-1])
    assert (json.loads(text), '"b"' in summary) == ({"…": "hidden"}, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON))
def test_whatever_comes_is_shown_clean_bounded_and_as_json(arguments: dict[str, object]) -> None:
    summary, text = describe(tool(), arguments, lambda each: each)
    assert isinstance(json.loads(text), dict)
    assert len(summary) <= MAX_SUMMARY
    assert clean(summary, MAX_SUMMARY) == summary
    (summary + text).encode()


@given(st.text())
def test_what_is_escaped_is_clean_and_the_rest_stays(text: str) -> None:
    escaped = escape_unseen(text)
    assert clean(escaped, len(escaped)) == escaped == escape_unseen(escaped)
    if not set(text) & set('"\\'):
        assert json.loads(f'"{escaped}"') == text


@pytest.mark.promise("CONF-1")
@pytest.mark.parametrize(
    ("principal", "confirm", "needs"),
    [
        (Caller("operator", "operator"), "operator", "caller"),
        (Caller("a", "agent", self_confirm=True), "operator", "caller"),
        (Caller("a", "agent"), "operator", "operator"),
        (Caller("a", "agent"), None, "operator"),
        (Caller("a", "agent"), "caller", "caller"),
        (Caller("operator", "operator"), "caller", "caller"),
        (Caller("a", "agent", self_confirm=True), "caller", "caller"),
        (Caller("a", "agent"), "none", "none"),
        (Caller("operator", "operator"), "none", "none"),
    ],
)
def test_who_has_to_agree(principal: Caller, confirm: Any, needs: str) -> None:
    assert required_by(tool(confirm=confirm), principal) == needs


@pytest.mark.promise("CONF-3")
def test_a_binding_is_of_values_and_not_of_how_they_are_written() -> None:
    def bound(arguments: dict[str, object]) -> object:
        return binding_of(tool(), "sha256:a", Caller("a", "agent"), "s", arguments)

    assert bound({"a": 1, "b": [{"c": 2, "d": 3}]}) == bound({"b": [{"d": 3, "c": 2}], "a": 1})
    assert bound({"a": [1, 2]}) != bound({"a": [2, 1]})
    assert bound({"a": 1}) != bound({"a": True})
    assert bound({"a": None}) != bound({})
