"""Text from outside is fit for a terminal and a log."""

from __future__ import annotations

import json
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.model.text import clean, clean_value


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("查询订单 ✅ über", "查询订单 ✅ über"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;owned title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]never ended", "]never ended"),
        ("\x1bc reset", " reset"),
        ("a\r\nb\rc\nd\te", "a b c d e"),
        ("a\u2028b\x85c", "a b c"),
        ("abc\u202efdp.exe", "abcfdp.exe"),
        ("pass\u200bword\ufeff", "password"),
        ("bell\x07 back\x08 nul\x00 del\x7f", "bell back nul del"),
        ("tag\U000e0041\U000e0042s", "tags"),
        ("heart\u2764\ufe0f", "heart\u2764\ufe0f"),
        ("x\ufe00\ufe01\ufe02", "x\ufe00"),
        ("bad\ud800half", "bad\ufffdhalf"),
    ],
)
def test_what_can_rewrite_or_hide_is_taken_out_and_letters_stay(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_line_breaks_and_tabs_stay_when_asked_for() -> None:
    assert clean("a\r\n\tb\x0bc\x1b[2J", multiline=True) == "a\n\tb\nc"


@pytest.mark.parametrize(("limit", "shown"), [(5, "hello"), (4, "hel…"), (1, "…"), (0, "")])
def test_longer_text_ends_in_an_ellipsis_within_the_limit(limit: int, shown: str) -> None:
    assert clean("hello", limit) == shown


@given(st.text(st.characters(codec=None)), st.booleans(), st.integers(0, 40))
@pytest.mark.promise("OPS-6")
def test_cleaning_is_idempotent_encodable_bounded_and_leaves_no_control(
    raw: str, multiline: bool, limit: int
) -> None:
    once = clean(raw, limit, multiline=multiline)
    assert clean(once, limit, multiline=multiline) == once
    assert len(once) <= limit
    once.encode("utf-8")
    allowed = "\n\t" if multiline else ""
    assert all(unicodedata.category(each) != "Cc" or each in allowed for each in once)


@given(st.text(st.sampled_from("\x1b[]0;m\x07\\\x9b\u202e \nA"), max_size=60))
def test_no_mixture_of_sequences_leaves_an_introducer(raw: str) -> None:
    assert not set(clean(raw)) & set("\x1b\x9b\x07\u202e\n")


@pytest.mark.parametrize("part", ["\x1b[", "\x1b]", "\x1b[1;", "\x9b0", "\ufe0f", "\x1b]x\x1b"])
def test_hostile_text_takes_time_in_proportion_to_its_length(part: str) -> None:
    began = time.process_time()
    clean(part * 100_000)
    assert time.process_time() - began < 5  # quadratic work would take minutes


class _Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_any_value_becomes_bounded_clean_json() -> None:
    deep: object = "end"
    for _ in range(50):
        deep = [deep]
    value = clean_value(
        {
            "k\x1b[1mey": "v\u202e",
            "list": [1, True, None, 2.5, float("nan"), float("inf")],
            "set": {1},
            "long": list(range(500)),
            "wide": {str(each): each for each in range(500)},
            "deep": deep,
            "huge": 10**6000,
            "rude": _Rude(),
            "中文": "值",
        }
    )
    assert isinstance(value, dict)
    assert value["key"] == "v"
    assert value["list"] == [1, True, None, 2.5, "nan", "inf"]
    assert value["set"] == [1]
    assert value["long"][-1] == "…"
    assert len(value["long"]) == 101
    assert value["wide"]["…"] == 400
    assert value["rude"] == "<_Rude>"
    assert value["中文"] == "值"
    assert len(json.dumps(value, allow_nan=False)) < 10_000
