"""What answers in place of a tool whose circuit is open."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace

from hermesd.clock import Clock, uuid7
from hermesd.model.call import CallRequest, Code, Outcome, Result, SideEffects
from hermesd.model.digest import canonical_json
from hermesd.model.fallback import Fallback
from hermesd.serving.catalogue import Entry
from hermesd.serving.course import Course

#: Of all last good answers together, in characters; the oldest go first.
MAX_KEPT = 4 * 1024 * 1024
#: A larger answer is not kept.
MAX_ONE = 64 * 1024
READ = 1
_RANK: dict[SideEffects, int] = {"none": 0, "read": READ, "write": 2, "destructive": 3}

Key = tuple[str, str, str, str, str]


class LastGood:
    """The last good answers of tools that ask for it, each for one caller, session and arguments: nobody is
    given what another was told. In memory, bounded; `max_kept` characters.
    """

    def __init__(self, clock: Clock, *, max_kept: int = MAX_KEPT) -> None:
        self._clock = clock
        self._max_kept = max_kept
        self._kept: OrderedDict[Key, tuple[float, Entry, str]] = OrderedDict()
        self._size = 0

    def keep(self, course: Course, entry: Entry, data_json: str) -> None:
        """Remember what this call was answered."""
        if len(data_json) > MAX_ONE:
            return
        key = _key(course)
        self._drop(key)
        self._kept[key] = (self._clock.monotonic(), entry, data_json)
        self._size += _size_of(key, data_json)
        while self._size > self._max_kept:
            self._drop(next(iter(self._kept)))

    def find(self, course: Course, entry: Entry, max_age_s: float) -> tuple[float, str] | None:
        """(age in seconds, data) of the last good answer to the same question; None: there is none."""
        known = self._kept.get(_key(course))
        if known is None:
            return None
        at, of, data_json = known
        age = self._clock.monotonic() - at
        if age > max_age_s or of.instance is not entry.instance:
            return None
        return age, data_json

    def _drop(self, key: Key) -> None:
        known = self._kept.pop(key, None)
        if known is not None:
            self._size -= _size_of(key, known[2])


class Fallbacks:
    """`call` runs another call from its beginning, with all its stages."""

    def __init__(self, clock: Clock, call: Callable[[CallRequest], Awaitable[Result]]) -> None:
        self._clock = clock
        self._call = call
        self._last_good = LastGood(clock)

    def keep(self, course: Course, entry: Entry, outcome: Outcome) -> None:
        """A tool with a fallback was answered, as it promised: remember it where that is what stands in."""
        fallback = entry.definition.fallback
        own = outcome.code is Code.OK and not outcome.detail.get("degraded")
        if own and fallback is not None and fallback.kind == "last_good":
            self._last_good.keep(course, entry, outcome.data_json)

    async def answer(self, course: Course, entry: Entry, refusal: Outcome) -> Outcome:
        """The tool's fallback, or the refusal itself where there is none that answers."""
        fallback = entry.definition.fallback
        if fallback is None:
            return refusal
        if fallback.kind == "value":
            return _degraded(refusal, json.dumps(fallback.value, ensure_ascii=False), fallback="value")
        if fallback.kind == "tool":
            return await self._other_tool(course, entry, fallback, refusal)
        known = self._last_good.find(course, entry, fallback.max_age_s)
        if known is None:
            return _without(refusal, "its last_good has no answer to this call yet")
        age, data_json = known
        return _degraded(refusal, data_json, fallback="last_good", age_s=round(age, 3))

    async def _other_tool(
        self, course: Course, entry: Entry, fallback: Fallback, refusal: Outcome
    ) -> Outcome:
        request = course.request
        if unfit := _unfit(course.catalogue.find(fallback.tool), entry, request):
            return _without(refusal, f"{fallback.tool} has {unfit}, and so does not stand in")
        nested = CallRequest(
            tool=fallback.tool,
            arguments_json=course.arguments_json,
            request_id=uuid7(self._clock),
            caller=request.caller,
            session_id=request.session_id,
            deadline=course.deadline,
            depth=request.depth + 1,
            parent_request_id=request.request_id,
            metadata=request.metadata,
        )
        async with asyncio.TaskGroup() as group:  # cutting it must cut nothing else
            task = group.create_task(_awaited(self._call(nested)))
        result = task.result()
        course.effect = result.effect
        if result.code is not Code.OK:
            return _without(
                refusal, f"{fallback.tool}, which stands in, answered {result.code}: {result.message}"
            )
        return _degraded(refusal, result.data_json, result, fallback=fallback.tool)


async def _awaited(call: Awaitable[Result]) -> Result:
    return await call


def _unfit(other: Entry | None, entry: Entry, request: CallRequest) -> str:
    """What keeps `other` from standing in, or "". That it does not exist is told by its call."""
    if other is None:
        return ""
    rank = _RANK[other.definition.side_effects]
    if rank > _RANK[entry.definition.side_effects]:
        return "more side effects"
    # Under its key the tool itself may be called later, and then both would have happened.
    return "side effects under an idempotency key" if request.idempotency_key and rank > READ else ""


def _degraded(refusal: Outcome, data_json: str, result: Result | None = None, **more: object) -> Outcome:
    known = result.detail if result is not None else {}
    detail = {**known, "degraded": True, "reason": refusal.detail.get("reason", ""), **more}
    return Outcome(Code.OK, data_json, message=refusal.message, detail=detail)


def _without(refusal: Outcome, why: str) -> Outcome:
    return replace(refusal, message=f"{refusal.message}; {why}")


def _key(course: Course) -> Key:
    request = course.request
    who = request.caller.principal
    return request.tool, who.kind, who.name, request.session_id, canonical_json(course.arguments)


def _size_of(key: Key, data_json: str) -> int:
    return len(data_json) + len(key[4])
