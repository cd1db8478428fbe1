"""Definitions for models: names that their APIs take, texts that say when, and what it costs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.model.definition import ToolDefinition
from hermesd.model.deprecation import Deprecation
from hermesd.model.handover import (
    FORMATS,
    MAX_OPENAI_DESCRIPTION,
    definition_tokens,
    handed_over,
    model_name,
)
from hermesd.model.name import TOOL_NAME
from hermesd.model.token import estimated_tokens

PARAMETERS = {"type": "object", "properties": {"id": {"type": "string", "description": "number"}}}
TOOL = ToolDefinition(
    name="orders.query_status",
    version="1.0.0",
    parameters=PARAMETERS,
    description="Finds an order.",
    when_to_use="the user names an order",
    when_not_to_use="the user asks for all",
    parameter_guide={"id": "ask when missing"},
    side_effects="read",
)


@given(st.from_regex(TOOL_NAME, fullmatch=True), st.from_regex(TOOL_NAME, fullmatch=True))
def test_no_two_tools_have_one_name_for_a_model(one: str, other: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", model_name(one))
    assert (model_name(one) == model_name(other)) == (one == other)


def test_names_that_could_be_taken_for_each_other_differ() -> None:
    assert len({model_name("a.b__c"), model_name("a__b.c"), model_name("a.b.c")}) == 3
    assert model_name("orders.query_status") == "orders__query_status"


@pytest.mark.parametrize("to", FORMATS)
def test_a_model_is_told_when_and_when_not_and_what_each_parameter_is(to: str) -> None:
    shown = str(handed_over(TOOL, PARAMETERS, None, to))  # type: ignore[arg-type]
    assert "Use it when: the user names an order" in shown
    assert "Do not use it when: the user asks for all" in shown
    assert "number. ask when missing" in shown


def test_a_model_is_told_what_to_use_in_place_of_what_leaves() -> None:
    old = replace(TOOL, deprecated=Deprecation(use="orders.find_order"))
    assert "Deprecated: use orders__find_order in its place." in str(handed_over(old, {}, None, "openai"))
    assert "Deprecated: use orders.find_order in its place." in str(handed_over(old, {}, None, "mcp"))
    assert "Deprecated." in str(handed_over(replace(TOOL, deprecated=Deprecation("1.0.0")), {}, None, "mcp"))


def test_a_description_fits_the_api_that_bounds_it() -> None:
    for long in (replace(TOOL, description="x" * 2000), replace(TOOL, when_to_use="y" * 2000)):
        made: Any = handed_over(long, PARAMETERS, None, "openai")
        text = made["function"]["description"]
        assert len(text) <= MAX_OPENAI_DESCRIPTION
        assert "…" in text
    assert "Use it when: the user names an order" in str(
        handed_over(replace(TOOL, description="x" * 2000), PARAMETERS, None, "openai")
    )
    assert "x" * 2000 in str(handed_over(replace(TOOL, description="x" * 2000), PARAMETERS, None, "mcp"))


def test_an_estimate_is_near_what_models_count() -> None:
    # Counted with the cl100k vocabulary.
    for text, counted in (("Hello, world!", 4), ("The quick brown fox jumps over the lazy dog.", 10)):
        assert abs(estimated_tokens(text) - counted) <= 1
    assert estimated_tokens("查询订单状态") == 6
    assert definition_tokens(TOOL, PARAMETERS) > estimated_tokens(TOOL.description)
