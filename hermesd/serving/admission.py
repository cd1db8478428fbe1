"""How many calls of one tool run at once, and how long the others may wait."""

from __future__ import annotations

import asyncio
from collections import deque

#: Waiting calls of one tool; more are refused at once, so that memory stays bounded.
QUEUE_FACTOR = 8


class Overloaded(Exception):  # noqa: N818 - an answer, not a failure of ours
    """The queue is full, or a place did not come free in time."""


class Gate:
    """The places of one tool: first come, first served, and a waiter that gives up takes no place."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def enter(self, wait_s: float) -> None:
        """Take a place, waiting at most `wait_s` seconds. Raises Overloaded."""
        if self.running < self.places and not self._waiting:
            self.running += 1
            return
        if len(self._waiting) >= self.places * QUEUE_FACTOR:
            raise Overloaded("its queue is full")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                raise Overloaded(f"no place came free within {wait_s * 1000:.0f} ms") from None
            raise

    def leave(self) -> None:
        """Give the place back, to the one that has waited longest."""
        self.running -= 1
        self._admit()

    def resize(self, places: int) -> None:
        """Change the number of places. Fewer: who is in stays in. More: the longest waiting go in at once."""
        self.places = places
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.running < self.places:
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)


class Admission:
    """The gates of all tools; they outlive reloads, so that a swap never doubles a limit."""

    def __init__(self) -> None:
        self._gates: dict[str, Gate] = {}

    def gate(self, tool: str, places: int) -> Gate:
        gate = self._gates.get(tool)
        if gate is None:
            gate = self._gates[tool] = Gate(places)
        gate.resize(places)
        return gate

    def forget_all_but(self, tools: object) -> None:
        """Drop the idle gates of tools that are gone. `tools` is a container of names."""
        for name in [each for each in self._gates if each not in tools]:  # type: ignore[operator]
            if not self._gates[name].running and not self._gates[name].waiting:
                del self._gates[name]
