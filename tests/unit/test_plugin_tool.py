"""The decorator."""

from __future__ import annotations

import inspect
import typing

import pytest

from hermesd.plugin import tool
from hermesd.plugin.tool import MARK, OPTIONS


def test_the_function_stays_itself() -> None:
    def f(a: int) -> int:
        return a

    assert tool(f) is f
    assert tool(idempotent=True)(f) is f
    assert f(1) == 1
    assert getattr(f, MARK) == {"side_effects": "write", "idempotent": True}


def test_a_tool_that_says_nothing_counts_as_a_write() -> None:
    assert getattr(tool(lambda: None), MARK) == {"side_effects": "write"}
    assert getattr(tool(side_effects="read")(lambda: None), MARK)["side_effects"] == "read"


@pytest.mark.parametrize(
    ("option", "near"),
    [("idempotant", "'idempotent'"), ("when_to_us", "'when_to_use'"), ("zzzz", "the options are")],
)
def test_an_unknown_option_names_the_nearest(option: str, near: str) -> None:
    with pytest.raises(TypeError, match=near):
        tool(**{option: True})  # type: ignore[call-overload]


@pytest.mark.parametrize("thing", ["orders.query", object(), type("C", (), {})])
def test_only_a_function_can_be_a_tool(thing: object) -> None:
    with pytest.raises(TypeError, match="goes on a function"):
        tool(thing)  # type: ignore[call-overload]


def test_the_typed_signature_and_the_options_agree() -> None:
    named = {
        name
        for each in typing.get_overloads(tool)
        for name, parameter in inspect.signature(each).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert named == OPTIONS
