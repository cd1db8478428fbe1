"""The calls in flight: who asked, what runs, and how to end it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from hermesd.access.policy import whose_calls
from hermesd.errors import AlreadyExistsError
from hermesd.model.call import Caller, Code
from hermesd.serving.course import Course
from hermesd.serving.instance import Instance

Key = tuple[str, str, str]


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
    #: It goes on without its caller.
    detached: bool = False
    #: How far it has come.
    course: Course | None = None

    @property
    def key(self) -> Key:
        """Ids are each caller's own: one that is in use by somebody else tells nobody so."""
        principal = self.caller.principal
        return self.request_id, principal.kind, principal.name

    def end(self, cut: Cut) -> None:
        """Cancel the call; a second reason does not replace the first."""
        if self.cut is None:
            self.cut = cut
            self.task.cancel()


@dataclass(slots=True)
class Flights:
    """All calls in flight, by the request id and on whose wish they are."""

    _by_id: dict[Key, Flight] = field(default_factory=dict)
    #: Made when somebody waits for it: each call would pay for its being cleared and set.
    _idle: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Flight]:
        return iter(list(self._by_id.values()))

    def enter(self, flight: Flight) -> Entered:
        """Keep `flight` listed while its call runs, which is a `with` block.

        Entering raises AlreadyExistsError for an id that the same principal has in use.
        """
        return Entered(self, flight)

    def find(self, request_id: str, caller: Caller) -> Flight | None:
        """The call that `caller` means: its own, or for the operator anybody's."""
        principal = caller.principal
        own = self._by_id.get((request_id, principal.kind, principal.name))
        if own is not None or whose_calls(caller) is not None:
            return own
        return next((each for each in self._by_id.values() if each.request_id == request_id), None)

    def of_instance(self, instance: Instance) -> list[Flight]:
        return [each for each in self if each.instance is instance]

    async def idle(self) -> None:
        """Return when no call is in flight."""
        while self._by_id:
            idle = self._idle = self._idle or asyncio.Event()
            await idle.wait()


class Entered:
    """A call's place among the flights, within a `with` block."""

    __slots__ = ("_flight", "_flights", "_key")

    def __init__(self, flights: Flights, flight: Flight) -> None:
        self._flights = flights
        self._flight = flight
        self._key = flight.key

    def __enter__(self) -> None:
        listed, flight = self._flights._by_id, self._flight
        if self._key in listed:
            raise AlreadyExistsError(
                f"a call with request_id {flight.request_id!r} is in flight", remedy="use a fresh request_id"
            )
        listed[self._key] = flight

    def __exit__(self, *_: object) -> None:
        listed = self._flights._by_id
        del listed[self._key]
        idle = self._flights._idle
        if idle is not None and not listed:
            idle.set()
            self._flights._idle = None
