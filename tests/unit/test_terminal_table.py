"""Tables stay aligned, whatever is in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermesd.terminal.table import GAP, cut, lay_out, pad, width_of


def test_wide_characters_take_two_cells_and_combining_ones_none() -> None:
    assert width_of("订单a") == 5
    assert width_of("ｅ") == 2
    assert width_of("é") == 1


def test_cutting_never_splits_a_wide_character() -> None:
    assert cut("订单查询", 6) == "订单…"
    assert width_of(cut("订单查询", 6)) <= 6
    assert cut("订单", 4) == "订单"


def test_columns_line_up_beside_chinese_text() -> None:
    rows = lay_out([["NAME", "WHAT"], ["订单", "x"], ["orders", "y"]], None)
    assert {width_of(row[0]) for row in rows} == {6}


def test_the_long_column_gives_way_and_names_stay_whole() -> None:
    rows = lay_out([["NAME", "REASON"], ["orders", "很长的原因" * 20]], 40)
    assert rows[1][0] == "orders"
    assert all(width_of(GAP.join(row)) <= 40 for row in rows)


def test_a_pipe_gets_everything() -> None:
    assert lay_out([["A", "x" * 500]], None)[0][1] == "x" * 500


def test_no_rows_are_no_table() -> None:
    assert lay_out([], 80) == []


@given(st.lists(st.lists(st.text(max_size=60), min_size=8, max_size=8), min_size=1), st.integers(30, 200))
def test_no_row_runs_over_the_edge(rows: list[list[str]], width: int) -> None:
    for row in lay_out(rows, width):
        assert width_of(GAP.join(row)) <= width


@given(st.text(), st.integers(1, 40))
def test_cut_and_pad_keep_their_width(text: str, width: int) -> None:
    assert width_of(cut(text, width)) <= width
    assert width_of(pad(cut(text, width), width)) == width
