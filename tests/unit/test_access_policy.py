"""One policy function; what no rule allows is denied."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hermesd.access.policy import OF_OWN_CALLS, Action, decide, whose_calls
from hermesd.api.v1 import admin_pb2
from hermesd.model.call import Caller, Owner, Rights, SideEffects

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
    assume(tool not in OF_OWN_CALLS)
    decision = decide(Caller("x", kind, calls), action, tool)  # type: ignore[arg-type]
    if decision.allowed:
        assert kind == "plugin"
        assert action in ("see", "call")
        assert calls
        assert decision.visible
    else:
        assert decision.reason
        assert not decision.visible


@dataclass(frozen=True)
class Tool:
    name: str = TOOL
    roles: tuple[str, ...] = ()
    side_effects: SideEffects = "write"


def agent(name: str = "reporter", **rights: Any) -> Caller:
    return Caller(name, "agent", rights=Rights(**rights))


@pytest.mark.promise("IDN-2")
@pytest.mark.parametrize(
    ("rights", "tool", "visible", "allowed"),
    [
        ({}, Tool(), False, False),
        ({"allow": ("orders.*",)}, Tool(), True, True),
        ({"allow": ("*",)}, Tool("lab.search.find"), True, True),
        ({"allow": ("*",), "deny": ("*.delete_*",)}, Tool("orders.delete_one"), False, False),
        ({"allow": ("orders.delete_one",), "deny": ("orders.*",)}, Tool("orders.delete_one"), False, False),
        ({"allow": ("Orders.*",)}, Tool(), False, False),
        ({"allow": ("*",), "ceiling": "read"}, Tool(), True, False),
        ({"allow": ("*",), "ceiling": "write"}, Tool(side_effects="destructive"), True, False),
        ({"allow": ("*",), "ceiling": "none"}, Tool(side_effects="none"), True, True),
        ({"allow": ("*",)}, Tool(roles=("clerk",)), False, False),
        ({"allow": ("*",), "roles": ("clerk", "agent")}, Tool(roles=("clerk",)), True, True),
        ({"allow": ("*",), "roles": ()}, Tool(), True, True),
    ],
)
def test_an_agent_sees_and_calls_what_its_rights_say(
    rights: dict[str, Any], tool: Tool, visible: bool, allowed: bool
) -> None:
    caller = agent(**rights)
    assert decide(caller, "see", tool).visible is visible
    decision = decide(caller, "call", tool)
    assert (decision.visible, decision.allowed) == (visible, allowed)
    assert allowed or decision.reason


def test_an_agent_without_rights_and_a_tool_that_is_a_mere_name_are_denied() -> None:
    assert not decide(Caller("x", "agent"), "see", Tool()).visible
    assert not decide(agent(allow=("*",)), "call", TOOL).allowed


def test_a_denial_above_the_ceiling_names_both() -> None:
    decision = decide(agent(allow=("*",), ceiling="read"), "call", Tool(side_effects="destructive"))
    assert (
        decision.reason
        == f"the side effects of {TOOL} are destructive, and the ceiling of 'reporter' is read"
    )


@pytest.mark.promise("IDN-3")
def test_a_plugin_has_no_right_that_the_agent_behind_it_lacks() -> None:
    def plugin(behalf: Caller) -> Caller:
        return Caller("text", "plugin", calls=("orders.*",), on_behalf_of=behalf)

    assert decide(plugin(agent(allow=("*",))), "call", Tool()).allowed
    assert not decide(plugin(agent(allow=("*",), ceiling="read")), "call", Tool()).allowed
    assert not decide(plugin(agent(allow=("text.*",))), "see", Tool()).visible
    assert not decide(plugin(agent(allow=("*",))), "see", Tool("files.read_file")).visible


@pytest.mark.promise("IDN-4")
@pytest.mark.parametrize("action", ["read", "cancel"])
def test_a_call_is_its_principals_and_the_operators(action: Action) -> None:
    mine, other = agent("a"), agent("b")
    nested = Caller("b", "plugin", calls=("*",), on_behalf_of=Caller("c", "plugin", on_behalf_of=mine))
    operator = Caller("operator", "operator")
    assert decide(mine, action, agent("a", allow=("x",))).allowed
    assert decide(mine, action, nested).allowed
    assert not decide(other, action, nested).allowed
    assert not decide(other, action, mine).allowed
    assert not decide(Caller("operator", "agent", rights=Rights()), action, operator).allowed
    assert not decide(nested, action, mine).allowed
    assert decide(operator, action, mine).allowed


@pytest.mark.promise("REC-10")
def test_of_admin_service_an_agent_may_use_what_tells_it_of_its_own_calls_and_nothing_else() -> None:
    methods = {each.name for each in admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods}
    everything = agent(allow=("*",), ceiling="destructive", self_confirm=True)
    plugin = Caller("text", "plugin", calls=("*",), on_behalf_of=Caller("operator", "operator"))
    allowed = {each for each in methods if decide(everything, "administer", each).allowed}
    assert allowed == {"ListCalls", "GetCall", "GetCallStats"}
    assert not any(decide(plugin, "administer", each).allowed for each in methods)


@pytest.mark.promise("REC-8")
def test_whose_calls_a_caller_reads_is_what_the_policy_says_of_each_owner() -> None:
    operator, mine = Caller("operator", "operator"), agent("a")
    assert whose_calls(operator) is None
    assert whose_calls(mine) == mine.owner == Owner("agent", "a") == Owner.parse(str(mine.owner))
    plugin = Caller("a", "plugin", calls=("*",), on_behalf_of=mine)
    assert whose_calls(plugin) not in (None, mine.owner)
    for owner in (Owner("agent", "a"), Owner("agent", "b"), Owner("operator", "a"), Owner("plugin", "a")):
        assert decide(operator, "read", owner).allowed
        assert decide(mine, "read", owner).allowed is (owner == whose_calls(mine))
        assert not decide(plugin, "read", owner).allowed


@given(
    st.lists(st.sampled_from(["*", "a.*", "*.b", "a.?_b", "[ab].*", "a.b", ""]), max_size=3).map(tuple),
    st.lists(st.sampled_from(["*", "a.*", "*_b", "c.d", ""]), max_size=2).map(tuple),
    st.sampled_from(["a.b", "a.b_b", "c.d", "a.x_b", "b.b.b", "", "a\nb"]),
)
def test_globs_mean_what_fnmatch_means(allow: tuple[str, ...], deny: tuple[str, ...], name: str) -> None:
    expected = any(fnmatchcase(name, each) for each in allow) and not any(
        fnmatchcase(name, each) for each in deny
    )
    assert decide(agent(allow=allow, deny=deny), "see", Tool(name)).visible is expected
