"""Streams that would go on for ever, and their end when the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from hermesd.errors import DrainingError

ItemT = TypeVar("ItemT")


class OpenStreams:
    """The watches that stand. `end` wakes each: it raises DrainingError where it waits, and cleans up."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Timeout] = set()
        self._ended = False

    def end(self) -> None:
        """End all streams, and every one that begins from now on. Idempotent."""
        self._ended = True
        now = asyncio.get_running_loop().time()
        for wait in tuple(self._waits):
            wait.reschedule(now)
        self._waits.clear()

    async def each(self, items: AsyncIterator[ItemT]) -> AsyncIterator[ItemT]:
        """The items until they end or the server stops. The source is closed in either case."""
        close = getattr(items, "aclose", None)
        try:
            while True:
                try:
                    item = await self._next(items)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if close is not None:
                await close()

    async def _next(self, items: AsyncIterator[ItemT]) -> ItemT:
        if self._ended:
            raise _stopping()
        wait = asyncio.timeout(None)
        try:
            async with wait:
                self._waits.add(wait)
                return await anext(items)
        except TimeoutError:
            if wait.expired():
                raise _stopping() from None
            raise
        finally:
            self._waits.discard(wait)


def _stopping() -> DrainingError:
    return DrainingError("the daemon is stopping", remedy="watch again after it has started")
