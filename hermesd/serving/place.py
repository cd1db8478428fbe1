"""The places that calls take, and who gets the next one.

A call needs a place of its tool, one of its plugin and one of the agent at whose wish it happens. It takes
all three at once or none: whoever waits for one holds no other, so that a tool which is full holds up no call
of another tool, and nothing can lock up. Nobody who waits could go in, since each lacks a place; so a
newcomer that finds its three places free overtakes nobody.

Whose turn it is goes round by party, which is an agent or the operator, and within a party to the oldest
call; where a plugin's places are short, within the party to the tool that has the fewest calls running. Calls
that tools make through `ctx.call` belong to a party of their own, which has no bounds and does not wait for a
plugin's places, because their parents hold places while they wait for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TypeVar

from hermesd.model.rate import Bucket

#: Waiting calls of one tool for each of its places; more are refused, so that memory stays bounded.
QUEUE_FACTOR = 8
#: More places than there can be calls.
UNBOUNDED = 1 << 30

#: Whoever waits: True is the place itself, False the news that it was put out of the queue for another.
Turn = asyncio.Future[bool]
K = TypeVar("K")
V = TypeVar("V")


class Party:
    """On whose wish calls happen. `gates`: where calls of this party wait."""

    __slots__ = ("bucket", "gates", "name", "nested", "places", "running")

    def __init__(self, name: str, places: int = UNBOUNDED, *, nested: bool = False) -> None:
        self.name = name
        self.places = places
        self.nested = nested
        self.running = 0
        self.bucket: Bucket | None = None
        self.gates: dict[Gate, None] = {}


class Pool:
    """The places of one plugin. `parties`: who waits at which of its gates, next in turn first."""

    __slots__ = ("bucket", "name", "parties", "places", "running")

    def __init__(self, name: str, places: int = UNBOUNDED) -> None:
        self.name = name
        self.places = places
        self.running = 0
        self.bucket: Bucket | None = None
        self.parties: dict[Party, dict[Gate, None]] = {}

    def serve(self) -> bool:
        """Let one waiting call in that can go in; False: there is none."""
        while self.running < self.places and (found := self._next()) is not None:
            gate, party = found
            if gate.admit(party):
                return True
        return False

    def _next(self) -> tuple[Gate, Party] | None:
        for party, gates in self.parties.items():
            if (gate := _idlest(gates, party)) is not None:
                return gate, party
        return None


class Gate:
    """The places of one tool. `lines`: the calls of each party that wait here, next in turn first."""

    __slots__ = ("bucket", "lines", "name", "places", "pool", "running", "waiting")

    def __init__(self, name: str, places: int, pool: Pool) -> None:
        self.name = name
        self.places = places
        self.pool = pool
        self.running = 0
        self.waiting = 0
        self.bucket: Bucket | None = None
        self.lines: dict[Party, deque[Turn]] = {}

    def open_to(self, party: Party) -> bool:
        """Whether all places that a call of `party` needs here are free."""
        return (
            self.running < self.places
            and party.running < party.places
            and (self.pool.running < self.pool.places or party.nested)
        )

    def enter(self, party: Party) -> bool:
        """Take the places if they are free; False: nothing was taken."""
        if not self.open_to(party):
            return False
        self.running += 1
        self.pool.running += 1
        party.running += 1
        return True

    def leave(self, party: Party) -> None:
        """Give the places back, each to whoever is next in turn for it."""
        pool = self.pool
        self.running -= 1
        pool.running -= 1
        party.running -= 1
        # Only a place that was the last can be what somebody waits for, and then it is one who gets it.
        if pool.parties and pool.running == pool.places - 1:
            pool.serve()
        if party.gates and party.running == party.places - 1:
            serve_party(party)
        if self.lines:
            self.serve()

    def serve(self) -> bool:
        """Let one waiting call in that can go in; False: there is none."""
        while self.running < self.places:
            party = next((each for each in self.lines if self.open_to(each)), None)
            if party is None:
                return False
            if self.admit(party):
                return True
        return False

    def admit(self, party: Party) -> bool:
        """Let in the oldest waiting call of `party`, for which there is room; the party's turn is over.

        False: it had been cancelled in this very instant, and waits no longer.
        """
        turn = self.lines[party].popleft()
        self._shorten(party)
        if turn.done():
            return False
        if party in self.lines:
            _to_the_end(self.lines, party)
            _to_the_end(self.pool.parties, party)
            _to_the_end(self.pool.parties[party], self)
            _to_the_end(party.gates, self)
        elif party in self.pool.parties:
            _to_the_end(self.pool.parties, party)
        self.running += 1
        self.pool.running += 1
        party.running += 1
        turn.set_result(True)
        return True

    def queue(self, party: Party, turn: Turn) -> bool:
        """Put `turn` at the end of its party's line; False: the queue is full.

        A full queue makes room for a party that has less in it than another, whose newest call is put out.
        """
        line = self.lines.get(party)
        if self.waiting >= self.places * QUEUE_FACTOR:
            longest = max(self.lines, key=lambda each: len(self.lines[each]))
            if len(self.lines[longest]) <= (len(line) if line is not None else 0) + 1:
                return False
            newest = self.lines[longest].pop()
            self._shorten(longest)
            if not newest.done():
                newest.set_result(False)
        if line is None:
            line = self.lines[party] = deque()
            self.pool.parties.setdefault(party, {})[self] = None
            party.gates[self] = None
        line.append(turn)
        self.waiting += 1
        return True

    def give_up(self, party: Party, turn: Turn) -> None:
        """`turn` waits no longer: it was cancelled, or has waited long enough."""
        line = self.lines.get(party)
        if line is not None and turn in line:
            line.remove(turn)
            self._shorten(party)

    def _shorten(self, party: Party) -> None:
        """One call of `party` fewer waits here; an empty line is no line."""
        self.waiting -= 1
        if self.lines[party]:
            return
        del self.lines[party]
        del party.gates[self]
        gates = self.pool.parties[party]
        del gates[self]
        if not gates:
            del self.pool.parties[party]


def serve_party(party: Party) -> bool:
    """Let one waiting call of `party` in that can go in; False: there is none."""
    while party.running < party.places and (gate := _idlest(party.gates, party)) is not None:
        if gate.admit(party):
            return True
    return False


def _idlest(gates: Iterable[Gate], party: Party) -> Gate | None:
    """The gate with the fewest calls running at which `party` can go in; the one first in turn of several."""
    return min((each for each in gates if each.open_to(party)), key=_running, default=None)


def _running(gate: Gate) -> int:
    return gate.running


def _to_the_end(order: dict[K, V], key: K) -> None:
    order[key] = order.pop(key)
