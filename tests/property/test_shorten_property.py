"""Whatever is cut, what is left is JSON within its budget, and says what is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermesd.model.shorten import _cost, shorten, shorten_texts
from hermesd.model.token import estimated_tokens, exceeds

pytestmark = pytest.mark.promise("OUT-3")

TEXT = st.text(
    st.sampled_from(list('aB9 _.,!"\\\n\t\x01é你🙂')) | st.characters(codec="utf-8"), max_size=120
) | st.integers(0, 400).map(lambda n: "word, " * n)
LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUE = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(TEXT, inner, max_size=8),
    max_leaves=60,
)


def text_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@given(VALUE)
def test_a_cost_is_never_below_the_tokens_of_the_json(value: Any) -> None:
    assert estimated_tokens(text_of(value)) <= _cost(value, 10**9, 0) + 2


@settings(max_examples=300)
@given(VALUE, st.integers(0, 60), st.integers(0, 60))
def test_what_is_left_is_json_within_its_budget_and_markers(value: Any, head: int, tail: int) -> None:
    short = shorten(value, head, tail)
    text = text_of(short)
    assert json.loads(text) == short
    # A marker stands on each level of the two ways down, and a way down spends its budget.
    assert estimated_tokens(text) <= head + tail + 24 * (2 + min(depth(value), 5 + (head + tail) // 4) * 2)


@given(VALUE)
def test_what_fits_is_not_touched(value: Any) -> None:
    budget = _cost(value, 10**9, 0) + 2
    assert text_of(shorten(value, budget, 0)) == text_of(value)
    assert text_of(shorten(value, 0, budget)) == text_of(value)


@given(TEXT, st.integers(0, 30), st.integers(0, 30))
def test_a_text_keeps_its_beginning_and_its_end(text: str, head: int, tail: int) -> None:
    short = shorten(text, head, tail)
    if short == text:
        return
    before, _, rest = short.partition("[")
    marker, _, after = rest.partition(" characters left out]")
    if "[" in text:  # the marker may not be the first bracket
        return
    kept = before.removesuffix("… ") + after.removeprefix(" …")
    assert text.startswith(before.removesuffix("… "))
    assert text.endswith(after.removeprefix(" …"))
    assert int(marker) + len(kept) == len(text)


@given(st.lists(TEXT, max_size=6), st.integers(0, 40), st.integers(0, 40))
def test_a_row_of_texts_keeps_its_length(texts: list[str], head: int, tail: int) -> None:
    short = shorten_texts(texts, head, tail)
    assert len(short) == len(texts)
    if not exceeds("".join(texts), min(head, tail)) and sum(map(len, texts)) == 0:
        assert short == texts


@given(TEXT, st.integers(0, 500))
def test_exceeding_is_what_counting_says(text: str, limit: int) -> None:
    if len(text) <= limit * 16:
        assert exceeds(text, limit) == (estimated_tokens(text) > limit)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0
