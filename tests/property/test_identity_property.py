"""Every identity on every path with every object: a real server answers as the policy says, and no more.

What an agent may not see must answer like what does not exist. So a second world, in which the hidden tools
are truly absent, is asked the same, and must answer the same, word for word.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermesd.access.identity import Agent, new_token, token_sha256
from hermesd.api.v1 import admin_pb2, agent_pb2, output_pb2, tool_pb2
from hermesd.model.call import CEILINGS, Rights
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


@contextmanager
def folders() -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory(prefix="hd-") as one, tempfile.TemporaryDirectory(prefix="hd-") as two:
        yield Path(one), Path(two)


@pytest.mark.promise("IDN-2")
@pytest.mark.promise("IDN-9")
def test_what_is_hidden_answers_like_what_does_not_exist_on_every_path() -> None:
    token = new_token()
    with folders() as (one, two), asyncio.Runner() as runner:
        whole = runner.run(_opened(one))
        partial = runner.run(_opened(two))
        try:

            @settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
            @given(RIGHTS, st.sampled_from(["a", "o"]))
            def check(rights: Rights, door: str) -> None:
                runner.run(_compare(whole, partial, rights, token, door))

            check()
        finally:
            runner.run(whole.__aexit__())
            runner.run(partial.__aexit__())


async def _opened(path: Path) -> World:
    return await World(path, TOOLS.values()).__aenter__()


async def _compare(whole: World, partial: World, rights: Rights, token: str, door: str) -> None:
    agent = Agent("reporter", rights, token_sha256(token))
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
    for name in ADMIN.keys() - STREAMS.keys():
        assert answers[f"admin {name}"].startswith("PERMISSION_DENIED"), name


def _questions() -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {
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
