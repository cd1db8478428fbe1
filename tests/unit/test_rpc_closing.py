"""Streams that end with the server."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.errors import DrainingError
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
