"""What a model sends is read, corrected and refused alike, whatever runs the tool."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.kind import Kind, Stage


@pytest.mark.promise("CNF-5")
def test_arguments_arrive_as_the_types_that_were_declared(stage: Stage, kind: Kind) -> None:
    result = stage.call(kind, "echo_arguments", text="汉 \u2028", count=2**60, day="2030-01-31", flags=[True])
    assert result.data == {
        "text": "汉 \u2028",
        "count": 2**60,
        "day": "datetime.date(2030, 1, 31)",
        "flags": [True],
    }
    assert "coerced" not in result.detail


@pytest.mark.promise("CNF-5")
def test_slips_are_read_as_they_were_meant_and_told(stage: Stage, kind: Kind) -> None:
    result = stage.call(kind, "echo_arguments", text="a", count="3", day="20300131", flags="true")
    assert result.data == {"text": "a", "count": 3, "day": "datetime.date(2030, 1, 31)", "flags": [True]}
    assert {each["path"] for each in result.detail["coerced"]} == {"/count", "/day", "/flags"}


@pytest.mark.promise("CNF-5")
def test_every_fault_is_listed_with_its_path(stage: Stage, kind: Kind) -> None:
    """hermes-agent#84689, #61550: a schema that was shown and not enforced."""
    result = stage.call(kind, "echo_arguments", count="many", flags=[1.5], more=1)
    assert (result.code, result.effect, result.attempts) == ("INVALID_ARGUMENT", "none", 0)
    faults = {each["path"]: each for each in result.detail["faults"]}
    assert {"/text", "/count", "/more"} <= faults.keys()
    assert any(path.startswith("/flags") for path in faults)
    assert (faults["/text"]["ask_user"], faults["/text"]["hint"]) == (True, "ask the user")
    assert faults["/count"]["got"] == "many"


@pytest.mark.promise("CNF-5")
@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        "{",
        '{"text": NaN}',
        '{"text": "a", "count": 1e999}',
        '{"text": "\\ud800"}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_usable_object_never_reaches_the_tool(stage: Stage, kind: Kind, text: Any) -> None:
    result = stage.call(kind, "echo_arguments", text_of_arguments=text)
    assert (result.code, result.effect, result.attempts) == ("INVALID_ARGUMENT", "none", 0)
    assert result.detail["faults"][0]["path"] == ""
