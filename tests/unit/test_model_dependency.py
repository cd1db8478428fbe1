"""What cannot work is what cannot work, and nothing else; order is order."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermesd.model.dependency import blocked_tools, start_order

NAMES = [f"t{number}" for number in range(7)]
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.sets(st.sampled_from([*NAMES, "absent"]), max_size=4), max_size=7
)


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Everything that `start` depends on, however far."""
    seen: set[str] = set()
    stack = list(graph.get(start, ()))
    while stack:
        each = stack.pop()
        if each not in seen:
            seen.add(each)
            stack.extend(graph.get(each, ()))
    return seen


def cannot_work(graph: Mapping[str, set[str]], name: str) -> bool:
    needed = reachable(graph, name)
    in_cycle = {each for each in {name, *needed} if each in reachable(graph, each)}
    return bool(in_cycle) or not needed <= graph.keys()


@pytest.mark.promise("CORE-16")
@given(GRAPHS)
@settings(max_examples=400, deadline=None)
def test_blocked_is_exactly_what_reaches_something_absent_or_a_cycle(graph: dict[str, set[str]]) -> None:
    blocked = blocked_tools(graph)
    assert blocked.keys() == {name for name in graph if cannot_work(graph, name)}
    assert all(blocked.values())


@given(GRAPHS)
@settings(max_examples=400, deadline=None)
def test_each_starts_after_what_it_depends_on_unless_they_are_in_a_cycle(graph: dict[str, set[str]]) -> None:
    order = start_order(graph)
    assert sorted(order) == sorted(graph)
    place = {name: index for index, name in enumerate(order)}
    for name, needed in graph.items():
        for each in needed & graph.keys():
            in_one_cycle = name in reachable(graph, each) or name == each
            assert in_one_cycle or place[each] < place[name]


@given(GRAPHS)
def test_the_order_of_the_input_does_not_matter(graph: dict[str, set[str]]) -> None:
    turned = dict(reversed(graph.items()))
    assert start_order(turned) == start_order(graph)
    assert blocked_tools(turned).keys() == blocked_tools(graph).keys()


def test_the_reason_names_what_is_missing() -> None:
    blocked = blocked_tools({"a": ["b"], "b": ["absent"], "c": []})
    assert "absent" in blocked["b"]
    assert "depends on b" in blocked["a"]
    assert "absent" in blocked["a"]


def test_a_cycle_is_named() -> None:
    blocked = blocked_tools({"a": ["b"], "b": ["a"], "c": ["a"]})
    assert "a → b → a" in blocked["a"]
    assert "cycle" in blocked["c"]
