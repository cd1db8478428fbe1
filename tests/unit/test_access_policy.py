"""One policy function; what no rule allows is denied."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.access.policy import Action, decide
from hermesd.model.call import Caller

TOOL = "orders.query_status"


@pytest.mark.parametrize("action", get_args(Action))
def test_the_operator_may_do_everything(action: Action) -> None:
    decision = decide(Caller("operator", "operator"), action, TOOL)
    assert (decision.allowed, decision.visible) == (True, True)


@pytest.mark.parametrize("pattern", ["orders.query_status", "orders.*", "*", "*.query_*"])
def test_a_plugin_may_call_what_its_globs_match(pattern: str) -> None:
    assert decide(Caller("text", "plugin", (pattern,)), "call", TOOL).allowed


def test_a_star_crosses_dots() -> None:
    assert decide(Caller("text", "plugin", ("lab.*",)), "call", "lab.search.find").allowed


@pytest.mark.parametrize("calls", [None, (), ("orders.delete_*",), ("ORDERS.*",), ("order",)])
def test_a_plugin_without_a_matching_grant_does_not_even_see_the_tool(calls: tuple[str, ...] | None) -> None:
    decision = decide(Caller("text", "plugin", calls), "call", TOOL)
    assert (decision.allowed, decision.visible) == (False, False)
    assert TOOL in decision.reason


def test_a_plugin_never_administers() -> None:
    assert not decide(Caller("text", "plugin", ("*",)), "administer").allowed


@given(
    st.sampled_from(["plugin", "agent"]),
    st.none() | st.lists(st.text(max_size=8), max_size=3).map(tuple),
    st.sampled_from(get_args(Action)),
    st.text(max_size=10),
)
def test_only_a_plugins_own_glob_opens_anything(
    kind: str, calls: tuple[str, ...] | None, action: Action, tool: str
) -> None:
    decision = decide(Caller("x", kind, calls), action, tool)  # type: ignore[arg-type]
    if decision.allowed:
        assert kind == "plugin"
        assert action in ("see", "call")
        assert calls
        assert decision.visible
    else:
        assert decision.reason
        assert not decision.visible
