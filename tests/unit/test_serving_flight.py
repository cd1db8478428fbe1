"""Calls in flight are listed exactly as long as they run."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.errors import AlreadyExistsError, ExhaustedError
from hermesd.model.call import Caller, CallRequest, Code, Rights
from hermesd.serving import flight as module
from hermesd.serving.catalogue import Catalogue
from hermesd.serving.course import Course
from hermesd.serving.flight import LARGE_CHARS, Cut, Flight, Flights
from tests.core_doubles import OPERATOR, settle


def flight(request_id: str) -> Flight:
    task = asyncio.current_task()
    assert task is not None
    return Flight(request_id, "a.b_c", OPERATOR, task, 0.0)


async def test_a_flight_is_listed_while_it_lasts() -> None:
    flights = Flights()
    with flights.enter(flight("one")) as _:
        assert len(flights) == 1
        assert flights.find("one", OPERATOR) is not None
    assert (len(flights), flights.find("one", OPERATOR)) == (0, None)


async def test_an_id_in_use_is_refused_and_its_holder_stays() -> None:
    flights = Flights()
    first = flight("one")
    with flights.enter(first):
        with pytest.raises(AlreadyExistsError), flights.enter(flight("one")):
            pass
        assert flights.find("one", OPERATOR) is first


async def test_idle_is_when_nothing_flies() -> None:
    flights = Flights()
    await flights.idle()
    with flights.enter(flight("one")):
        waiting = asyncio.create_task(flights.idle())
        await settle()
        assert not waiting.done()
    await waiting


async def test_the_first_reason_to_end_a_call_stands() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    each = Flight("one", "a.b_c", OPERATOR, task, 0.0)
    first = Cut(Code.CANCELLED, "first", "")
    each.end(first)
    each.end(Cut(Code.UNAVAILABLE, "second", ""))
    assert each.cut is first
    assert task.cancelling() == 1
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.promise("IDN-4")
async def test_ids_are_each_callers_own() -> None:
    flights = Flights()
    a, b = (Caller(name, "agent", rights=Rights()) for name in "ab")
    nested = Caller("text", "plugin", on_behalf_of=b)
    task = asyncio.current_task()
    assert task is not None
    first = Flight("one", "x.y_z", a, task, 0.0)
    second = Flight("one", "x.y_z", nested, task, 0.0)
    with flights.enter(first), flights.enter(second):
        assert flights.find("one", a) is first
        assert flights.find("one", b) is second
        assert flights.find("one", Caller("c", "agent")) is None
        assert flights.find("one", Caller("operator", "agent")) is None
        assert flights.find("one", OPERATOR) in (first, second)
        with flights.enter(flight("one")):
            assert flights.find("one", OPERATOR) not in (first, second)
    assert len(flights) == 0


def large(request_id: str, caller: Caller, characters: int) -> Flight:
    made = flight(request_id)
    made.caller = caller
    request = CallRequest("a.b_c", "x" * characters, request_id, caller)
    made.course = Course(request, None, 0.0, Catalogue(1, {}, {}, {}))
    return made


@pytest.mark.promise("HOS-11")
async def test_large_arguments_hold_so_much_memory_together_and_leave_room_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_CHARS", 5 * LARGE_CHARS)
    monkeypatch.setattr(module, "MAX_OWN_CHARS", 3 * LARGE_CHARS)
    flights, agent, size = Flights(), Caller("reporter", "agent"), LARGE_CHARS + 1
    with flights.enter(large("1", agent, size)), flights.enter(large("2", agent, size)):
        with pytest.raises(ExhaustedError), flights.enter(large("3", agent, size)):
            pass
        with flights.enter(large("4", agent, LARGE_CHARS)):  # a small one always
            pass
        with flights.enter(large("1", OPERATOR, size)), flights.enter(large("2", OPERATOR, size)):
            with pytest.raises(ExhaustedError), flights.enter(large("1", Caller("w", "agent"), size)):
                pass
            assert len(flights) == 4
    for number in range(10):
        with flights.enter(large(f"{number}", agent, 2 * size)):
            pass
    assert (len(flights), flights._held) == (0, {})
