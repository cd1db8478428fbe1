"""Every identity on every path with every object: a real server answers as the policy says, and no more.

What an agent may not see must answer like what does not exist. So a second world, in which the hidden tools
are truly absent, is asked the same, and must answer the same, word for word.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermesd.access.identity import Agent, new_token, token_sha256
from hermesd.access.policy import OF_OWN_CALLS
from hermesd.api.v1 import admin_pb2, agent_pb2, call_pb2, output_pb2, tool_pb2
from hermesd.model.call import CEILINGS, Caller, Rights
from tests.identity_world import Asker, World, tool

TOOLS = {
    str(each["name"]): each
    for each in (
        tool("orders.query_status", side_effects="read"),
        # Whether it may be called is asked here, not who agrees.
        tool("orders.delete_all", side_effects="destructive", confirm="none"),
        tool("orders.write_note", roles=["clerk"]),
        tool("orders.call_other", side_effects="none"),
        tool("lab.search_text", side_effects="none", roles=["clerk", "chemist"]),
        tool("lab.delete_sample", side_effects="write", enabled=False),
        tool("store.put_item", side_effects="write"),
    )
}
#: Names that no world has: near misses, foreign domains, what nobody could call.
ABSENT = ("orders.query_statu", "orders.delete_al", "lab.search", "nothing.at_all", "delete_all", "*")
GLOBS = ["*", "orders.*", "*.delete_*", "lab.*", "orders.query_status", "store.put_item", "*_all", "ORDERS.*"]
RIGHTS = st.builds(
    Rights,
    roles=st.lists(st.sampled_from(["agent", "clerk", "chemist"]), unique=True).map(tuple),
    allow=st.lists(st.sampled_from(GLOBS), unique=True, max_size=4).map(tuple),
    deny=st.lists(st.sampled_from(GLOBS[1:]), unique=True, max_size=2).map(tuple),
    ceiling=st.sampled_from(list(CEILINGS)),
)
ALL = Rights(allow=("*",))
ADMIN = {method.name: method for method in admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods}


def sees(rights: Rights, name: str) -> bool:
    """Said once more, in the plainest words: the oracle."""
    raw = TOOLS[name]
    if not any(fnmatchcase(name, each) for each in rights.allow):
        return False
    if any(fnmatchcase(name, each) for each in rights.deny):
        return False
    roles = raw.get("roles")
    return roles is None or bool(set(roles) & set(rights.roles))  # type: ignore[call-overload]


def may_call(rights: Rights, name: str) -> bool:
    return sees(rights, name) and CEILINGS[TOOLS[name]["side_effects"]] <= CEILINGS[rights.ceiling]  # type: ignore[index]


@pytest.fixture(autouse=True)
def prompt_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are asked for hundreds of times here, and their file waits for company each time."""
    monkeypatch.setattr("hermesd.store.calls.LINGER_S", 0.0)


@contextmanager
def folders() -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory(prefix="hd-") as one, tempfile.TemporaryDirectory(prefix="hd-") as two:
        yield Path(one), Path(two)


@pytest.mark.promise("IDN-2")
@pytest.mark.promise("IDN-9")
@pytest.mark.promise("REC-10")
def test_what_is_hidden_answers_like_what_does_not_exist_on_every_path() -> None:
    token = new_token()
    with folders() as (one, two), asyncio.Runner() as runner:
        whole = runner.run(_opened(one))
        partial = runner.run(_opened(two))
        runner.run(_used_by_others(whole))
        numbers = count()
        try:

            @settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
            @given(RIGHTS, st.sampled_from(["a", "o"]))
            def check(rights: Rights, door: str) -> None:
                name = f"reporter{next(numbers)}"
                runner.run(_compare(whole, partial, Agent(name, rights, token_sha256(token)), token, door))

            check()
        finally:
            runner.run(whole.__aexit__())
            runner.run(partial.__aexit__())


#: How a call stands when others ask for it. `cut`: it has ended, and its whole result can be read.
STANDINGS = {
    "running": "wait_long",
    "going_on": "wait_long",
    "ended": "do_it",
    "left": "do_it",
    "cut": "say_much",
}
CALLS = st.dictionaries(
    st.tuples(st.sampled_from(["operator", "a", "b"]), st.sampled_from(["call-x", "call-y"])),
    st.sampled_from(list(STANDINGS)),
    max_size=4,
)


@pytest.mark.promise("IDN-4")
@pytest.mark.promise("OUT-4")
@pytest.mark.promise("REC-10")
def test_every_trace_of_a_call_is_its_owners_and_the_operators() -> None:
    """Identity by path by object: calls in flight, detached ones, outputs and records, some under one id."""
    with folders() as (one, _), asyncio.Runner() as runner:
        tools = [tool("jobs.wait_long", timeout_ms=60_000), tool("jobs.do_it"), tool("jobs.say_much")]
        world = runner.run(World(one, tools).__aenter__())
        numbers = count()
        try:

            @settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
            @given(CALLS)
            def check(calls: dict[tuple[str, str], str]) -> None:
                runner.run(_traces(world, calls, f"-{next(numbers)}"))

            check()
        finally:
            runner.run(world.__aexit__())


async def _traces(world: World, calls: dict[tuple[str, str], str], suffix: str) -> None:
    """`suffix` makes names and ids new: nothing of an earlier example is told of these agents."""
    tokens = {each: new_token() for each in ("a", "b", "nobody")}
    world.release = asyncio.Event()
    world.agents(*(Agent(name + suffix, ALL, token_sha256(each)) for name, each in tokens.items()))
    async with AsyncExitStack() as stack:
        stack.callback(world.release.set)
        askers = {
            name: await stack.enter_async_context(Asker(world, token)) for name, token in tokens.items()
        }
        askers["operator"] = await stack.enter_async_context(Asker(world, None, "o"))
        running = [await _made(askers[who], name + suffix, how) for (who, name), how in calls.items()]
        while len(world.served.flights) < sum(each in ("running", "going_on") for each in calls.values()):
            await asyncio.sleep(0.005)
        for who, asker in askers.items():
            known = {key: how for key, how in calls.items() if who in (key[0], "operator")}
            for name in ("call-x", "call-y"):
                hows = {how for (_, own), how in known.items() if own == name}
                await _one_trace(asker, name + suffix, hows, who)
            await _counted(asker, known, who, suffix)
        world.release.set()
        await asyncio.gather(*filter(None, running))
        while world.served.flights:
            await asyncio.sleep(0.005)


async def _made(asker: Asker, name: str, how: str) -> asyncio.Future[Any] | None:
    detach = how in ("going_on", "left")
    request = tool_pb2.CallToolRequest(name=f"jobs.{STANDINGS[how]}", request_id=name, detach=detach)
    answer = asyncio.ensure_future(asker.tools.CallTool(request, metadata=asker.metadata))
    if how == "running":
        return answer
    await answer
    if how == "left":
        watch = tool_pb2.WatchCallRequest(request_id=name)
        async for _ in asker.tools.WatchCall(watch, metadata=asker.metadata, timeout=10):
            pass
    return None


async def _one_trace(asker: Asker, name: str, hows: set[str], who: str) -> None:
    """`hows` empty: to this asker there is no such call, and it hears what it would hear of a made-up one."""
    paths: dict[str, tuple[Any, Any, set[str]]] = {
        "record": (asker.admin.GetCall, call_pb2.GetCallRequest, set(STANDINGS)),
        "output": (asker.tools.ReadCallOutput, output_pb2.ReadCallOutputRequest, {"left", "cut"}),
        "watch": (asker.first, tool_pb2.WatchCallRequest, {"going_on", "left"}),
    }
    if not hows:
        paths["cancel"] = (asker.tools.CancelCall, tool_pb2.CancelCallRequest, set())
    if who != "operator":
        paths["replay"] = (asker.admin.ReplayCall, call_pb2.ReplayCallRequest, set())
    for path, (rpc, request, found) in paths.items():
        answer = await asker.ask(rpc, request(request_id=name))
        if not hows & found:
            absent = await asker.ask(rpc, request(request_id="none"))
            assert answer.replace(name, "none") == absent, (who, path, hows)
            assert answer.startswith(("NOT_FOUND", "PERMISSION_DENIED")), (who, path, hows)
        elif hows <= found:
            assert "NOT_FOUND" not in answer, (who, path, hows)
        else:
            assert who == "operator"  # to whom several calls have this id: which it means is another matter


async def _counted(asker: Asker, known: dict[tuple[str, str], str], who: str, suffix: str) -> None:
    ask = {"metadata": asker.metadata, "timeout": 10}
    listed = (await asker.admin.ListCalls(call_pb2.ListCallsRequest(page_size=1000), **ask)).calls
    if who == "operator":
        made = {(whose if whose == "operator" else whose + suffix, name + suffix) for whose, name in known}
        assert made <= {(each.agent, each.request_id) for each in listed}
        return
    assert {each.agent for each in listed} <= {who + suffix}
    assert sorted(each.request_id for each in listed) == sorted(name + suffix for _, name in known)
    stats = await asker.admin.GetCallStats(call_pb2.GetCallStatsRequest(), **ask)
    assert stats.calls == sum(how not in ("running", "going_on") for how in known.values())


async def _opened(path: Path) -> World:
    return await World(path, TOOLS.values()).__aenter__()


async def _used_by_others(world: World) -> None:
    """What is called there by others, of which the other world knows nothing."""
    clerk = Caller("clerk", "agent", rights=Rights(allow=("*",), ceiling="destructive"))
    for name in (*TOOLS, *ABSENT):
        await world.served.call(name)
        await world.served.call(name, "[1", caller=clerk)


async def _compare(whole: World, partial: World, agent: Agent, token: str, door: str) -> None:
    rights = agent.rights
    visible = {name for name in TOOLS if sees(rights, name)}
    partial.offer(each for name, each in TOOLS.items() if name in visible)
    whole.agents(agent)
    partial.agents(agent)
    async with Asker(whole, token, door) as here, Asker(partial, token, door) as there:
        answers = {}
        for key, (rpc, request) in _questions().items():
            answers[key] = await here.ask(_of(here, rpc), request)
            assert answers[key] == await there.ask(_of(there, rpc), request), key
        for name in (*TOOLS, *ABSENT):
            assert await here.stream(name) == await there.stream(name), name
    for name in TOOLS:
        assert ("NOT_FOUND" in answers[f"GetTool {name}"]) is (name not in visible)
        assert (f'name: "{name}"' in answers["ListTools all"]) is (name in visible)
        called = answers[f"CallTool {name}"]
        expected = (
            "UNKNOWN_TOOL"
            if name not in visible
            else "PERMISSION_DENIED"
            if not may_call(rights, name)
            else "UNAVAILABLE"
            if name == "lab.delete_sample"
            else "OK"
            if name != "orders.call_other"
            else "UNKNOWN_TOOL"
        )
        assert f'code: "{expected}"' in called, (name, called)
        if may_call(rights, "orders.call_other"):
            nested = answers[f"nested {name}"]
            fits = may_call(rights, name) and name not in ("lab.delete_sample", "orders.call_other")
            assert ('code: "OK"' in nested) is fits, (name, nested)
    for name in ADMIN.keys() - STREAMS.keys() - OF_OWN_CALLS:
        assert answers[f"admin {name}"].startswith("PERMISSION_DENIED"), name


def _questions() -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {
        "GetCall nobody's": ("admin.GetCall", call_pb2.GetCallRequest(request_id="nobodys")),
        "ListTools": ("tools.ListTools", tool_pb2.ListToolsRequest()),
        "ListTools all": ("tools.ListTools", tool_pb2.ListToolsRequest(include_unavailable=True)),
        "ListTools one": ("tools.ListTools", tool_pb2.ListToolsRequest(page_size=1)),
        "ListTools orders": ("tools.ListTools", tool_pb2.ListToolsRequest(domain="orders")),
        "ListTools mcp": ("tools.ListTools", tool_pb2.ListToolsRequest(source="mcp")),
        "CancelCall": ("tools.CancelCall", tool_pb2.CancelCallRequest(request_id="nobodys")),
        "ReadCallOutput": ("tools.ReadCallOutput", output_pb2.ReadCallOutputRequest(request_id="nobodys")),
        "WhoAmI": ("agent.WhoAmI", agent_pb2.WhoAmIRequest()),
    }
    for name in (*TOOLS, *ABSENT):
        found[f"GetTool {name}"] = ("tools.GetTool", tool_pb2.GetToolRequest(name=name))
        found[f"CallTool {name}"] = ("tools.CallTool", tool_pb2.CallToolRequest(name=name))
        other = f'{{"tool": "{name}"}}'
        found[f"nested {name}"] = (
            "tools.CallTool",
            tool_pb2.CallToolRequest(name="orders.call_other", arguments_json=other),
        )
        bad = tool_pb2.CallToolRequest(name=name, arguments_json="[1")
        found[f"malformed {name}"] = ("tools.CallTool", bad)
    for name, method in ADMIN.items():
        if name not in STREAMS:
            found[f"admin {name}"] = (f"admin.{name}", GetMessageClass(method.input_type)())
    for name in (*TOOLS, "lab.*", "*"):
        found[f"ListCalls {name}"] = ("admin.ListCalls", call_pb2.ListCallsRequest(tool=name))
        found[f"GetCallStats {name}"] = ("admin.GetCallStats", call_pb2.GetCallStatsRequest(tool=name))
    for other in ("clerk", "operator"):
        found[f"ListCalls of {other}"] = ("admin.ListCalls", call_pb2.ListCallsRequest(agent=other))
    return found


def _of(asker: Asker, path: str) -> Any:
    service, _, name = path.partition(".")
    return getattr(getattr(asker, service), name)


STREAMS = {
    "WatchTools": ("tools", tool_pb2.WatchToolsRequest()),
    "WatchCall": ("tools", tool_pb2.WatchCallRequest(request_id="nobodys")),
    "WatchEvents": ("admin", admin_pb2.WatchEventsRequest()),
    "ReadPluginLog": ("admin", admin_pb2.ReadPluginLogRequest(name="demo")),
    "StreamCallTool": (
        "tools",
        tool_pb2.StreamCallToolRequest(call=tool_pb2.CallToolRequest(name="orders.query_status")),
    ),
}


@pytest.mark.promise("IDN-1")
@pytest.mark.promise("IDN-10")
@pytest.mark.parametrize(
    "metadata", [(), ("Bearer x",), ("Bearer ",), ("Basic x",), ("x",), ("Bearer a", "Bearer b")]
)
@pytest.mark.parametrize("door", ["a", "o"])
async def test_nobody_passes_any_rpc_without_being_known(metadata: tuple[str, ...], door: str) -> None:
    if door == "o" and not metadata:
        pytest.skip("at the operator's own socket who shows nothing is the operator")
    with tempfile.TemporaryDirectory(prefix="hd-") as folder:
        async with World(Path(folder), TOOLS.values()) as world, Asker(world, None, door) as asker:
            asker.metadata = tuple(("authorization", each) for each in metadata)
            for key, (rpc, request) in _questions().items():
                assert (await asker.ask(_of(asker, rpc), request)).startswith("UNAUTHENTICATED"), key
            for name, (service, request) in STREAMS.items():
                call = _of(asker, f"{service}.{name}")(request, metadata=asker.metadata, timeout=10)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call.read()
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED, name
            assert {each[:2] for each in world.denials} == {("", "identify")}
            assert not world.served.told.results


@pytest.mark.promise("IDN-9")
@pytest.mark.parametrize("name", ["WatchEvents", "ReadPluginLog"])
async def test_the_operators_streams_are_no_agents(name: str) -> None:
    token = new_token()
    with tempfile.TemporaryDirectory(prefix="hd-") as folder:
        async with World(Path(folder), TOOLS.values()) as world, Asker(world, token) as asker:
            world.agents(Agent("reporter", Rights(allow=("*",)), token_sha256(token)))
            service, request = STREAMS[name]
            call = _of(asker, f"{service}.{name}")(request, metadata=asker.metadata, timeout=10)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
