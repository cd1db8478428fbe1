"""Streams that end with the server."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.errors import DrainingError, FellBehindError, HermesdError, UnauthenticatedError
from hermesd.model.call import Caller
from hermesd.rpc.closing import OpenStreams


async def numbers(state: list[str]):
    try:
        yield 1
        await asyncio.Event().wait()
    finally:
        state.append("closed")


async def test_a_stream_that_waits_is_ended_and_its_source_closed():
    streams, state = OpenStreams(), []
    seen = []

    async def follow() -> None:
        async for each in streams.each(numbers(state)):
            seen.append(each)

    task = asyncio.create_task(follow())
    while not seen:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    streams.end()
    with pytest.raises(DrainingError):
        await task
    assert (seen, state) == ([1], ["closed"])


async def test_a_stream_that_begins_after_the_end_is_refused():
    streams = OpenStreams()
    streams.end()
    streams.end()
    with pytest.raises(DrainingError):
        [each async for each in streams.each(numbers([]))]


async def test_a_stream_that_ends_by_itself_just_ends():
    async def two():
        yield 1
        yield 2

    assert [each async for each in OpenStreams().each(two())] == [1, 2]


async def test_a_timeout_of_the_source_itself_is_no_end_of_ours():
    async def late():
        raise TimeoutError("of the source")
        yield 1

    with pytest.raises(TimeoutError, match="of the source"):
        [each async for each in OpenStreams().each(late())]


@pytest.mark.promise("IDN-5")
async def test_only_the_streams_of_callers_who_may_not_go_on_are_ended():
    gone: set[str] = set()

    def fault(caller: Caller) -> HermesdError | None:
        return UnauthenticatedError("the token was taken back") if caller.name in gone else None

    streams, state = OpenStreams(fault), []
    begun: list[int] = []

    async def follow(name: str | None) -> None:
        async for each in streams.each(numbers(state), None if name is None else Caller(name, "agent")):
            begun.append(each)

    tasks = {name: asyncio.create_task(follow(name)) for name in ("a", "b", None)}
    while len(begun) < 3:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    gone.add("a")
    streams.look_again()
    with pytest.raises(UnauthenticatedError):
        await tasks["a"]
    await asyncio.sleep(0)
    assert state == ["closed"]
    assert not tasks["b"].done()
    assert not tasks[None].done()
    streams.end()
    for name in ("b", None):
        with pytest.raises(DrainingError):
            await tasks[name]


async def test_a_caller_that_lost_its_rights_gets_nothing_more_even_without_a_wake():
    lost = asyncio.Event()

    async def three():
        yield 1
        lost.set()
        yield 2

    streams = OpenStreams(lambda caller: FellBehindError("other rights") if lost.is_set() else None)
    seen = []

    async def follow() -> None:
        async for each in streams.each(three(), Caller("a", "agent")):
            seen.append(each)
            lost.set()

    with pytest.raises(FellBehindError):
        await follow()
    assert seen == [1]
