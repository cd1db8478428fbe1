"""Streams that would go on for ever, and their end when the server stops or their caller's rights change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from hermesd.errors import DrainingError, HermesdError
from hermesd.model.call import Caller

ItemT = TypeVar("ItemT")


class OpenStreams:
    """The watches that stand. `end` wakes each: it raises DrainingError where it waits, and cleans up.

    `fault` says why a caller may not go on watching, None when it may; it is asked before each item, and of
    those that wait when `look_again` is called.
    """

    def __init__(self, fault: Callable[[Caller], HermesdError | None] = lambda caller: None) -> None:
        self._fault = fault
        self._waits: dict[asyncio.Timeout, Caller | None] = {}
        self._ended = False

    def end(self) -> None:
        """End all streams, and every one that begins from now on. Idempotent."""
        self._ended = True
        self._wake(tuple(self._waits))

    def look_again(self) -> None:
        """End the streams of callers that may not go on."""
        self._wake([wait for wait, caller in self._waits.items() if self._why(caller) is not None])

    def _wake(self, waits: Iterable[asyncio.Timeout]) -> None:
        now = asyncio.get_running_loop().time()
        for wait in waits:
            wait.reschedule(now)
            del self._waits[wait]

    async def each(self, items: AsyncIterator[ItemT], caller: Caller | None = None) -> AsyncIterator[ItemT]:
        """The items until they end, the server stops or `caller` may not go on; the source is closed then."""
        close = getattr(items, "aclose", None)
        try:
            while True:
                try:
                    item = await self._next(items, caller)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if close is not None:
                await close()

    async def _next(self, items: AsyncIterator[ItemT], caller: Caller | None) -> ItemT:
        if (fault := self._why(caller)) is not None:
            raise fault
        wait = asyncio.timeout(None)
        try:
            async with wait:
                self._waits[wait] = caller
                return await anext(items)
        except TimeoutError:
            if wait.expired():
                raise self._why(caller) or _stopping() from None
            raise
        finally:
            self._waits.pop(wait, None)

    def _why(self, caller: Caller | None) -> HermesdError | None:
        if self._ended:
            return _stopping()
        return None if caller is None else self._fault(caller)


def _stopping() -> DrainingError:
    return DrainingError("the daemon is stopping", remedy="watch again after it has started")
