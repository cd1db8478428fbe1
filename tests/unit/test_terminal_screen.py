"""What reaches a terminal is readable, and nothing more."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.terminal.screen import Screen, json_text

EVIL = "a\x1b[2Jb\u202ec\x07\u200b\nd"


def screen(**options: object) -> tuple[Screen, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Screen(out, err, **options), out, err  # type: ignore[arg-type]


@pytest.mark.promise("CLI-5")
def test_text_from_outside_cannot_move_the_cursor_or_reverse_the_line() -> None:
    one, out, err = screen()
    one.line(EVIL)
    one.note(EVIL)
    one.table(["NAME"], [[EVIL]])
    assert out.getvalue() == "abc d\nNAME\nabc d\n"
    assert err.getvalue() == "abc d\n"


def test_colours_appear_only_when_asked_for() -> None:
    plain, out, _ = screen()
    plain.line("fine", style="ready")
    assert "\x1b" not in out.getvalue()
    coloured, out, _ = screen(colour=True)
    coloured.table(["STATE"], [["ready"], ["rejected"]], state_column=0)
    assert "\x1b[32mready" in out.getvalue()
    assert "\x1b[31mrejected" in out.getvalue()


def test_an_empty_cell_shows_as_a_dash() -> None:
    one, out, _ = screen()
    one.table(["A", "B"], [["", "x"]])
    assert out.getvalue().splitlines()[1].split() == ["-", "x"]


@pytest.mark.promise("CLI-5")
def test_json_keeps_its_value_and_shows_nothing_raw() -> None:
    text = json_text({"订单": EVIL + "\x9b\U000e0041\ud800"})
    assert json.loads(text) == {"订单": EVIL + "\x9b\U000e0041\ud800"}
    assert "订单" in text
    text.encode("utf-8")
    assert not any(each in text for each in "\x1b\u202e\x9b\u200b\U000e0041")


@given(st.dictionaries(st.text(), st.text()))
def test_every_json_document_survives(value: dict[str, str]) -> None:
    assert json.loads(json_text(value)) == value


def test_a_document_is_one_line_in_a_pipe_and_indented_on_a_terminal() -> None:
    one, out, _ = screen(as_json=True)
    one.document({"a": 1})
    assert out.getvalue() == '{"a": 1}\n'
    one, out, _ = screen(as_json=True, width=80)
    one.document({"a": 1})
    assert out.getvalue().count("\n") == 3
