"""What can be said of a plugin's tools without running its code."""

from __future__ import annotations

import pytest

from hermesd.cli.plugin_template import plugin_files
from hermesd.model.lint import lint
from hermesd.model.outline import outline


def _lints(source: str) -> list[str]:
    read = outline({"a.py": source.encode()}, "orders", "1.0.0")
    assert read.faults == ()
    return [each.reason for sketch in read.tools for each in lint(sketch.definition)]


def test_a_new_plugin_has_nothing_to_hear() -> None:
    files = {name: each.text.encode() for name, each in plugin_files("hello").items() if name.endswith(".py")}
    read = outline(files, "hello", "0.1.0")
    assert [each.definition.name for each in read.tools] == ["hello.make_greeting"]
    assert [lint(each.definition) for each in read.tools] == [()]


def test_code_that_nobody_trusts_is_linted_without_being_run() -> None:
    source = """
import hermesd.plugin as sdk
raise SystemExit(7)

@sdk.tool
def Fetch(anything: object, code: "Annotated[str, 'complete order number']", loose: dict) -> dict: ...

def helper(x): ...
"""
    assert _lints(source) == [
        "tool 'orders.Fetch': its name is not domain.verb_object",
        "tool 'orders.Fetch': has no description",
        "tool 'orders.Fetch': has no when_to_use",
        "tool 'orders.Fetch': parameter 'anything' does not say its source, form and what to do when missing",
        "tool 'orders.Fetch': parameter 'anything' is a bare object",
        "tool 'orders.Fetch': parameter 'loose' does not say its source, form and what to do when missing",
        "tool 'orders.Fetch': parameter 'loose' is a bare object",
        "tool 'orders.Fetch': returns a bare object",
    ]


def test_what_only_running_can_tell_is_taken_to_be_well() -> None:
    source = """
from hermesd.plugin import tool as offer

@offer(name=NAME, description=TEXT, when_to_use=WHEN, parameter_guide=GUIDE)
def get_order(ctx: ToolContext, code: Kind): ...

@offer(**COMMON)
def get_other(): ...
"""
    assert _lints(source) == []


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (b"x = 1\ndef f(:\n", 2),
        (b"\x00", 0),
        (b"\xff\xfe", 0),
        (b"(" * 100_000, 1),
        (b"-" * 100_000 + b"1", 0),
    ],
)
def test_code_that_is_no_python_is_a_fault_with_its_place(source: bytes, line: int) -> None:
    read = outline({"good.py": b"", "bad.py": source}, "orders", "1.0.0")
    assert [(each.file, bool(each.line) or not line) for each in read.faults] == [("bad.py", True)]
