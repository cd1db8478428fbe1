"""The calls in flight: who asked, what runs, and how to end it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from hermesd.access.policy import whose_calls
from hermesd.errors import AlreadyExistsError, ExhaustedError
from hermesd.model.call import Caller, Code
from hermesd.serving.course import Course
from hermesd.serving.instance import Instance

Key = tuple[str, str, str]
#: Arguments of more characters than this count, and of all calls together, and of one principal's, only so
#: many are held: a call keeps its arguments, in several forms, from its first moment to its last.
LARGE_CHARS = 256 * 1024
MAX_CHARS = 128 * 1024 * 1024
MAX_OWN_CHARS = MAX_CHARS // 2


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
    def size(self) -> int:
        """Characters of its arguments."""
        return 0 if self.course is None else len(self.course.request.arguments_json)

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
    #: Characters of the large arguments of each principal's calls.
    _held: dict[tuple[str, str], int] = field(default_factory=dict)

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

    def hold(self, flight: Flight) -> None:
        """Take room for large arguments, which stay in memory with their call. Raises ExhaustedError."""
        whose = flight.key[1:]
        own = self._held.get(whose, 0) + flight.size
        if own > MAX_OWN_CHARS or sum(self._held.values()) + flight.size > MAX_CHARS:
            raise ExhaustedError(
                "calls with large arguments hold as much memory as they may together",
                remedy="try again when some of them have ended, or pass less at a time",
            )
        self._held[whose] = own

    def let_go(self, flight: Flight) -> None:
        whose = flight.key[1:]
        self._held[whose] -= flight.size
        if not self._held[whose]:
            del self._held[whose]

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
        if flight.size > LARGE_CHARS:
            self._flights.hold(flight)
        listed[self._key] = flight

    def __exit__(self, *_: object) -> None:
        listed = self._flights._by_id
        del listed[self._key]
        if self._flight.size > LARGE_CHARS:
            self._flights.let_go(self._flight)
        idle = self._flights._idle
        if idle is not None and not listed:
            idle.set()
            self._flights._idle = None
