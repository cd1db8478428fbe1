"""Agents at a real server: what is whose, what watchers see, and what ends when rights do."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from hermesd.access.identity import Agent, new_token, token_sha256
from hermesd.api.v1 import agent_pb2, tool_pb2
from hermesd.model.call import Rights
from tests.identity_world import Asker, World, tool
from tests.rpc_wire import failure

ALL = Rights(allow=("*",))
A, B = new_token(), new_token()
TOOLS = (tool("jobs.wait_long"), tool("jobs.do_it"), tool("lab.run_test", roles=["chemist"]))


def agent(name: str, token: str, rights: Rights = ALL) -> Agent:
    return Agent(name, rights, token_sha256(token))


@pytest.fixture
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with World(tmp_path_factory.mktemp("w"), TOOLS) as made:
        made.agents(agent("a", A), agent("b", B))
        yield made


async def inflight(world: World, count: int) -> None:
    while len(world.served.flights) < count:
        await asyncio.sleep(0.005)


def call(name: str = "jobs.wait_long", **more: Any) -> tool_pb2.CallToolRequest:
    return tool_pb2.CallToolRequest(name=name, **more)


@pytest.mark.promise("IDN-4")
async def test_another_agents_call_is_no_call_at_all(world: World) -> None:
    async with Asker(world, A) as a, Asker(world, B) as b, Asker(world, None, "o") as operator:
        first = asyncio.ensure_future(a.tools.CallTool(call(request_id="mine"), metadata=a.metadata))
        await inflight(world, 1)
        cancel = tool_pb2.CancelCallRequest(request_id="mine")
        absent = await b.ask(b.tools.CancelCall, tool_pb2.CancelCallRequest(request_id="none"))
        assert (await b.ask(b.tools.CancelCall, cancel)).replace("mine", "none") == absent
        second = asyncio.ensure_future(b.tools.CallTool(call(request_id="mine"), metadata=b.metadata))
        await inflight(world, 2)
        assert "ALREADY_EXISTS" in await a.ask(a.tools.CallTool, call(request_id="mine"))
        await a.tools.CancelCall(cancel, metadata=a.metadata)
        assert (await first).result.code == "CANCELLED"
        assert not second.done()
        await operator.tools.CancelCall(cancel)
        assert (await second).result.code == "CANCELLED"


@pytest.mark.promise("IDN-9")
async def test_a_watcher_sees_what_begins_and_ceases_to_exist_for_it(world: World) -> None:
    seen: dict[str, list[tuple[str, str]]] = {"a": [], "b": []}
    chemist = Rights(("chemist",), ("lab.*",))
    world.agents(agent("a", A, chemist), agent("b", B, Rights(("agent",), ("lab.*",))))

    async def follow(name: str, asker: Asker) -> None:
        async for each in asker.tools.WatchTools(tool_pb2.WatchToolsRequest(), metadata=asker.metadata):
            seen[name].append((each.change.kind, each.change.name))

    async with Asker(world, A) as a, Asker(world, B) as b:
        tasks = [asyncio.ensure_future(follow(*each)) for each in (("a", a), ("b", b))]
        while not all(seen.values()):
            await asyncio.sleep(0.005)
        for roles in (["agent"], ["agent", "chemist"], ["chemist"], None):
            world.served.offer(tool("lab.run_test", **({"roles": roles} if roles else {})))
        world.served.offer(tool("other.run_test"))
        world.served.registry.commit({"lab": None})
        while seen["a"][-1][0] != "removed" or seen["b"][-1][0] != "removed" or len(seen["b"]) < 6:
            await asyncio.sleep(0.005)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    name = "lab.run_test"
    assert seen["a"] == [
        ("", ""),
        *((k, name) for k in ("removed", "added", "changed", "changed", "removed")),
    ]
    assert seen["b"] == [("", ""), *((k, name) for k in ("added", "changed", "removed", "added", "removed"))]


@pytest.mark.promise("IDN-5")
@pytest.mark.parametrize(
    ("now", "code"),
    [
        ([], grpc.StatusCode.UNAUTHENTICATED),
        ([agent("a", new_token())], grpc.StatusCode.UNAUTHENTICATED),
        ([agent("a", A, Rights(allow=("jobs.*",)))], grpc.StatusCode.OUT_OF_RANGE),
    ],
    ids=["revoked", "rotated", "other rights"],
)
async def test_a_watch_ends_with_the_rights_it_began_with(
    world: World, now: list[Agent], code: grpc.StatusCode
) -> None:
    async with Asker(world, A) as a, Asker(world, B) as b:
        mine = a.tools.WatchTools(tool_pb2.WatchToolsRequest(), metadata=a.metadata)
        other = b.tools.WatchTools(tool_pb2.WatchToolsRequest(), metadata=b.metadata)
        await mine.read()
        await other.read()
        world.agents(*now, agent("b", B))
        assert (await failure(mine.read())).code() is code
        world.served.offer(tool("more.do_it"))
        assert (await other.read()).change.name == "more.do_it"
        other.cancel()


async def test_a_watch_that_began_before_its_end_was_known_gets_no_word_more(world: World) -> None:
    async with Asker(world, A) as a:
        mine = a.tools.WatchTools(tool_pb2.WatchToolsRequest(), metadata=a.metadata)
        await mine.read()
        world.identities.replace({}, {})  # without telling the streams
        world.served.offer(tool("secret.do_it"))
        world.served.offer(tool("secret.do_more"))
        seen: list[str] = []

        async def read_on() -> None:
            while True:
                seen.append((await mine.read()).change.name)

        await failure(read_on())
        assert "secret.do_more" not in seen


@pytest.mark.promise("IDN-1")
async def test_a_token_at_the_operators_socket_makes_its_agent_and_not_the_operator(world: World) -> None:
    world.agents(agent("a", A, Rights(allow=("jobs.*",))))
    async with Asker(world, A, "o") as a, Asker(world, None, "o") as operator:
        listed = await a.tools.ListTools(tool_pb2.ListToolsRequest(), metadata=a.metadata)
        assert {each.name for each in listed.tools} == {"jobs.wait_long", "jobs.do_it"}
        listed = await operator.tools.ListTools(tool_pb2.ListToolsRequest())
        assert len(listed.tools) == 3


@pytest.mark.promise("IDN-10")
async def test_a_socket_that_is_made_again_is_the_same_door(world: World) -> None:
    for door in ("a", "o"):
        (world.path / door).unlink()
    lost = world.server.lost()
    assert {Path(each.path).name for each in lost} == {"a", "o"}
    for each in lost:
        await world.server.reopen(each)
    async with (
        Asker(world, None, "a") as nobody,
        Asker(world, A, "a") as a,
        Asker(world, None, "o") as operator,
    ):
        who = agent_pb2.WhoAmIRequest()
        assert (await nobody.ask(nobody.agent.WhoAmI, who)).startswith("UNAUTHENTICATED")
        assert (await a.agent.WhoAmI(who, metadata=a.metadata)).name == "a"
        assert (await operator.agent.WhoAmI(who)).kind == "operator"
    assert stat.S_IMODE((world.path / "a").stat().st_mode) == 0o666
    assert stat.S_IMODE((world.path / "o").stat().st_mode) == 0o600


@pytest.mark.promise("IDN-5")
async def test_no_call_begins_after_a_token_was_taken_back(world: World) -> None:
    async with Asker(world, A) as a:
        many = [asyncio.ensure_future(a.ask(a.tools.CallTool, call("jobs.do_it"))) for _ in range(200)]
        while len(world.served.told.began) < 20:
            await asyncio.sleep(0)
        world.agents(agent("b", B))
        began = len(world.served.told.began)
        answers = await asyncio.gather(*many)
        assert len(world.served.told.began) == began
        assert all('code: "OK"' in each or each.startswith("UNAUTHENTICATED") for each in answers)
        assert sum('code: "OK"' in each for each in answers) == began


@pytest.mark.promise("IDN-13")
async def test_an_agent_hears_nothing_of_the_operators_disk(world: World) -> None:
    world.layout.output.rmdir()
    world.layout.output.write_text("in the way")
    world.offer([tool("jobs.do_it"), tool("jobs.say_much")])
    for name, detach in (("jobs.do_it", True), ("jobs.say_much", False)):
        request = call(name, detach=detach)
        async with Asker(world, A) as a, Asker(world, None, "o") as operator:
            heard = await a.ask(a.tools.CallTool, request)
            assert "store does not answer" in heard
            assert str(world.path) not in heard
            assert str(world.path) in await operator.ask(operator.tools.CallTool, request)
