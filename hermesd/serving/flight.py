"""The calls in flight: who asked, what runs, and how to end it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from hermesd.errors import AlreadyExistsError
from hermesd.model.call import Caller, Code
from hermesd.serving.course import Course
from hermesd.serving.instance import Instance


@dataclass(frozen=True, slots=True)
class Cut:
    """Why a call in flight was ended from outside, as its caller will read it."""

    code: Code
    message: str
    remedy: str


@dataclass(slots=True, eq=False)
class Flight:
    """One call in flight. `cut` is set before its task is cancelled, so that the answer says why."""

    request_id: str
    tool: str
    caller: Caller
    task: asyncio.Task[object]
    started: float
    instance: Instance | None = None
    cut: Cut | None = None
    course: Course | None = None

    def end(self, cut: Cut) -> None:
        """Cancel the call; a second reason does not replace the first."""
        if self.cut is None:
            self.cut = cut
            self.task.cancel()


@dataclass(slots=True)
class Flights:
    """All calls in flight, by request id."""

    _by_id: dict[str, Flight] = field(default_factory=dict)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._idle.set()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Flight]:
        return iter(list(self._by_id.values()))

    def enter(self, flight: Flight) -> Entered:
        """Keep `flight` listed while its call runs, which is a `with` block.

        Entering raises AlreadyExistsError for an id in use.
        """
        return Entered(self, flight)

    def find(self, request_id: str) -> Flight | None:
        return self._by_id.get(request_id)

    def of_instance(self, instance: Instance) -> list[Flight]:
        return [each for each in self if each.instance is instance]

    async def idle(self) -> None:
        """Return when no call is in flight."""
        await self._idle.wait()


class Entered:
    """A call's place among the flights, within a `with` block."""

    __slots__ = ("_flight", "_flights")

    def __init__(self, flights: Flights, flight: Flight) -> None:
        self._flights = flights
        self._flight = flight

    def __enter__(self) -> None:
        listed, flight = self._flights._by_id, self._flight
        if flight.request_id in listed:
            raise AlreadyExistsError(
                f"a call with request_id {flight.request_id!r} is in flight", remedy="use a fresh request_id"
            )
        listed[flight.request_id] = flight
        self._flights._idle.clear()

    def __exit__(self, *_: object) -> None:
        listed = self._flights._by_id
        del listed[self._flight.request_id]
        if not listed:
            self._flights._idle.set()
