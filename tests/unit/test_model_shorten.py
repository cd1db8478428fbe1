"""A JSON value cut to a number of tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermesd.model.shorten import shorten, shorten_texts
from hermesd.model.token import estimated_tokens

pytestmark = pytest.mark.promise("OUT-3")


def tokens(value: Any) -> int:
    return estimated_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def test_a_text_keeps_its_first_and_last_words_and_says_how_much_is_missing():
    short = shorten("first " + "middle " * 5000 + "last", 2, 1)
    assert short == "first middle… [34994 characters left out] …last"


def test_a_list_keeps_its_first_and_last_items():
    short = shorten(list(range(1000)), 10, 10)
    assert short == [0, 1, 2, 3, 4, "… [990 of 1000 items left out]", 995, 996, 997, 998, 999]


def test_an_object_keeps_its_first_and_last_members_in_their_order():
    short = shorten({f"k{each}": each for each in range(100)}, 10, 10)
    assert list(short) == ["k0", "k1", "…", "k98", "k99"]
    assert short["…"] == "[96 of 100 members left out]"


def test_what_surrounds_the_one_thing_that_is_too_long_stays():
    rows = {"rows": [{"id": each} for each in range(900)], "total": 900}
    short = shorten(rows, 50, 50)
    assert short["total"] == 900
    assert short["rows"][0] == {"id": 0}
    assert short["rows"][-1] == {"id": 899}
    assert any(isinstance(each, str) and "of 900 items left out" in each for each in short["rows"])


def test_rows_are_left_out_whole_and_not_cut_in_the_middle():
    rows = [{"id": each, "name": f"order number {each}"} for each in range(500)]
    assert all(isinstance(each, str) or each in rows for each in shorten(rows, 100, 100))


def test_a_marker_takes_no_key_that_is_there():
    value = {"…": 1, **{f"k{each}": each for each in range(50)}}
    short = shorten(value, 8, 8)
    assert short["…"] == 1
    assert "members left out" in short["……"]


def test_chinese_and_emoji_are_cut_between_characters():
    short = shorten("数据🙂" * 3000, 4, 4)
    assert short.startswith("数据🙂")
    assert short.endswith("数据🙂")
    short.encode()


@pytest.mark.parametrize(
    "value",
    [
        "word " * 50_000,
        "x" * 300_000,
        " " * 300_000,
        '"\\\n' * 50_000,
        10**4000,
        [["deep", [["er"] * 3000]] * 9],
        {"a" * 90_000: 1, "b": "c " * 9000},
        [{"text": "你好" * 900}] * 50,
        {"a": {"b": {"c": {"d": ["e " * 5000] * 5}}}},
    ],
    ids=str,
)
def test_whatever_it_is_a_thousand_tokens_are_left_of_it(value: Any):
    short = shorten(value, 500, 500)
    assert tokens(short) <= 1000 + 150
    assert "left out" in json.dumps(short)


def test_what_nests_without_end_is_cut_where_it_is():
    value: Any = "bottom"
    for _ in range(400):
        value = {"next": value}
    assert tokens(shorten(value, 500, 500)) < 1100


def test_a_row_of_texts_keeps_its_places():
    short = shorten_texts(["one two", "x " * 5000, "three", "y " * 5000, "four"], 10, 10)
    assert len(short) == 5
    assert short[0] == "one two"
    assert short[4] == "four"
    assert short[1].startswith("x x")
    assert short[1].endswith("characters left out]")
    assert short[3].endswith("y y ")
    assert short[2] == "[5 characters left out]"
