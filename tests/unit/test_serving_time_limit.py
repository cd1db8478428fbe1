"""A block that takes too long ends as TimeoutError; every other cancellation passes."""

import asyncio

import pytest

from hermesd.serving.time_limit import TimeLimit


async def test_a_block_that_takes_too_long_is_a_timeout_and_the_task_goes_on() -> None:
    with pytest.raises(TimeoutError), TimeLimit(0.0):
        await asyncio.Event().wait()
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_block_that_ends_in_time_is_left_alone() -> None:
    with TimeLimit(0.001):
        await asyncio.sleep(0)
    await asyncio.sleep(0.005)


async def test_what_the_block_raises_passes() -> None:
    with pytest.raises(KeyError), TimeLimit(10.0):
        raise KeyError


async def test_a_cancellation_from_outside_passes() -> None:
    async def limited() -> None:
        with TimeLimit(10.0):
            await asyncio.Event().wait()

    task = asyncio.create_task(limited())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_that_comes_with_the_timeout_wins() -> None:
    async def limited() -> None:
        task = asyncio.current_task()
        assert task is not None
        with TimeLimit(0.0):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                task.cancel()
                raise

    task = asyncio.create_task(limited())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_limit_within_a_limit_ends_its_own_block_alone() -> None:
    with TimeLimit(10.0):
        with pytest.raises(TimeoutError), TimeLimit(0.0):
            await asyncio.Event().wait()
        await asyncio.sleep(0)
