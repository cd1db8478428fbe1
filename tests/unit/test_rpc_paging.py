"""Page tokens."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.api.v1 import tool_pb2
from hermesd.errors import InvalidRequestError
from hermesd.rpc import paging

NAMES = st.lists(st.text(min_size=1, max_size=20), unique=True).map(sorted)


@given(NAMES, st.integers(1, 7))
def test_every_name_comes_exactly_once_and_in_order(names: list[str], size: int):
    seen: list[str] = []
    token = ""
    while True:
        page, more = paging.slice_names(names, size, paging.after(token, "q"))
        assert len(page) <= size
        seen += page
        if not more:
            break
        token = paging.page_token(page[-1], "q")
    assert seen == names


@given(NAMES, NAMES)
def test_what_exists_throughout_is_never_missed_or_repeated(before: list[str], after: list[str]):
    first, more = paging.slice_names(before, 3, "")
    last = first[-1] if more else ""
    second = paging.slice_names(after, 1000, last)[0] if more else []
    stable = set(before) & set(after)
    if more:
        assert stable <= set(first) | set(second)
    assert not set(first) & set(second)


@given(st.text(max_size=2000))
def test_no_forged_token_does_more_than_being_refused(token: str):
    with contextlib.suppress(InvalidRequestError):
        assert isinstance(paging.after(token, "q"), str)


@given(st.text(min_size=1, max_size=80).filter(str.isprintable))
def test_a_token_gives_back_what_it_was_made_from(name: str):
    token = paging.page_token(name, "tools 真")
    assert paging.after(token, "tools 真") == name
    with pytest.raises(InvalidRequestError, match="other filters"):
        paging.after(token, "tools")


@pytest.mark.parametrize(
    ("asked", "given_"), [(0, 100), (1, 1), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)]
)
def test_the_page_size_has_a_default_and_a_ceiling(asked: int, given_: int):
    assert paging.page_size(asked) == given_


def test_a_negative_page_size_is_refused():
    with pytest.raises(InvalidRequestError):
        paging.page_size(-1)


@pytest.mark.promise("HOS-2")
def test_a_page_ends_where_an_answer_is_full_and_has_one_item_at_least():
    def build(name: str) -> tool_pb2.Tool:
        return tool_pb2.Tool(name=name, description="x" * 1000)

    names = ["a", "b", "c"]
    assert [each.name for each in paging.fitting(names, build, 2500)] == ["a", "b"]
    assert [each.name for each in paging.fitting(names, build, 1)] == ["a"]
    assert paging.fitting([], build, 1) == []
