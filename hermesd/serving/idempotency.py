"""That a call with side effects never happens twice: intents before, idempotency keys after.

A call claims its key before anything else is done for it, so that duplicates wait for the one. Its intent is
on disk before the runtime is entered. When it has ended its result is what the key answers, unless nothing
can have happened: then the key is free again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Protocol

from hermesd.access.disclosure import disclosed
from hermesd.clock import Clock, uuid7
from hermesd.errors import StoreError
from hermesd.model.call import Code, Result
from hermesd.model.digest import digest_of
from hermesd.model.intent import Intent, Recorded, principal_of
from hermesd.serving.catalogue import Entry
from hermesd.serving.course import Course, Refused
from hermesd.serving.time_limit import TimeLimit

#: How long an answer may wait for its record beyond the call's own deadline, in seconds.
RECORD_S = 0.05
#: What a tool said, as against what became of a call that it never answered.
_ANSWERS = frozenset({Code.OK, Code.TOOL_ERROR, Code.INVALID_RESULT})
#: Side effects of which there is nothing to write down, and nothing to fear from a second time.
HARMLESS = frozenset({"none", "read"})

_log = logging.getLogger("hermesd.call")

Key = tuple[str, str, str]


class Ledger(Protocol):
    """Where intents and answers are kept. What it says is done is on disk, or as durable as it ever gets."""

    async def find(self, principal: str, tool: str, key: str, since: datetime) -> Recorded | None: ...

    async def begin(self, intent: Intent) -> None: ...

    def end(self, intent: Intent, result: Result | None) -> Future[object]: ...


class MemoryLedger:
    """A ledger that ends with its process."""

    def __init__(self) -> None:
        self.intents: dict[str, Intent] = {}
        self.answers: dict[Key, tuple[datetime, Recorded]] = {}

    async def find(self, principal: str, tool: str, key: str, since: datetime) -> Recorded | None:
        began, recorded = self.answers.get((principal, tool, key), (since, None))
        return recorded if began >= since else None

    async def begin(self, intent: Intent) -> None:
        self.intents[intent.id] = intent

    def end(self, intent: Intent, result: Result | None) -> Future[object]:
        if result is not None:
            key = (intent.principal, intent.tool, intent.idempotency_key)
            self.answers[key] = (intent.began, Recorded(intent.digest, result))
        self.intents.pop(intent.id, None)
        done: Future[object] = Future()
        done.set_result(None)
        return done


class Claim:
    """One call's hold on its key, if it has one, and on its intent, once that is asked for."""

    __slots__ = ("digest", "ended", "intent", "key")

    def __init__(self, key: Key | None, digest: str) -> None:
        self.key = key
        self.digest = digest
        self.intent: Intent | None = None
        #: What the key answers, or None when it is free; made for the first duplicate that waits.
        self.ended: asyncio.Future[Recorded | None] | None = None


class Idempotency:
    """The stage of the dispatcher. `window_s` says for how long a key answers, in seconds."""

    def __init__(self, ledger: Ledger, clock: Clock, window_s: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._window_s = window_s
        self._claims: dict[Key, Claim] = {}
        #: Results that could not be written down, by what they belong to: kept, and tried again.
        self._unsaved: dict[Key, tuple[Intent, Recorded]] = {}

    async def replay(self, course: Course) -> Result | None:
        """Claim the key of a call that has one; a result: the key answers that, and nothing is to run.

        Waits for a call that has the same key, until `course.deadline`: TimeoutError.
        Refused: the key belongs to other arguments, or the store cannot be read.
        """
        request = course.request
        key = (principal_of(request.caller), request.tool, request.idempotency_key)
        digest = digest_of(course.arguments)
        recorded = await self._claim(course, key, digest)
        if recorded is None:
            return None
        if recorded.digest != digest:
            raise _other_arguments(request.idempotency_key)
        return recorded.result

    async def _claim(self, course: Course, key: Key, digest: str) -> Recorded | None:
        while (other := self._claims.get(key)) is not None:
            if other.digest != digest:
                raise _other_arguments(key[2])
            if (recorded := await self._wait(course, other)) is not None:
                return recorded
        course.claim = self._claims[key] = Claim(key, digest)
        if (unsaved := self._unsaved.get(key)) is not None:
            return unsaved[1]
        since = self._clock.now() - timedelta(seconds=self._window_s())
        try:
            with TimeLimit(max(0.0, course.deadline - self._clock.monotonic())):
                return await self._ledger.find(*key, since)
        except StoreError as error:
            raise _unwritable(disclosed(error, course.request.caller)) from None

    async def _wait(self, course: Course, other: Claim) -> Recorded | None:
        if other.ended is None:
            other.ended = asyncio.get_running_loop().create_future()
        try:
            with TimeLimit(max(0.0, course.deadline - self._clock.monotonic())):
                return await asyncio.shield(other.ended)
        except (TimeoutError, asyncio.CancelledError):
            # The one that it waited for has entered its runtime, or may yet: what this one wished may happen.
            course.entered = True
            raise

    async def begin(self, course: Course, entry: Entry) -> None:
        """Return when the call's intent is on disk. Refused when it cannot be; TimeoutError when too slow."""
        claim = course.claim
        if claim is None:
            claim = course.claim = Claim(None, "")
        intent = claim.intent = self._intent(course, entry, claim)
        try:
            with TimeLimit(max(0.0, course.deadline - self._clock.monotonic())):
                await self._ledger.begin(intent)
        except StoreError as error:
            claim.intent = None
            raise _unwritable(disclosed(error, course.request.caller)) from None

    def _intent(self, course: Course, entry: Entry, claim: Claim) -> Intent:
        request, definition = course.request, entry.definition
        return Intent(
            id=uuid7(self._clock),
            request_id=request.request_id,
            parent_request_id=request.parent_request_id,
            session_id=request.session_id,
            principal=principal_of(request.caller),
            tool=request.tool,
            version=definition.version,
            generation=course.catalogue.generation,
            source=entry.source,
            plugin=entry.plugin,
            side_effects=definition.side_effects,
            repeatable=definition.idempotent or definition.side_effects in HARMLESS,
            idempotency_key=request.idempotency_key,
            digest=claim.digest,
            began=self._clock.now(),
        )

    async def settle(self, course: Course, result: Result) -> None:
        """The call has ended with `result`: return when its key answers that, or when that takes too long."""
        written = self.end(course, result)
        if written is not None:
            patience = max(course.deadline - self._clock.monotonic(), RECORD_S)
            await asyncio.wait([asyncio.wrap_future(written)], timeout=patience)

    def end(self, course: Course, result: Result) -> Future[object] | None:
        """Let go of the call's claim, and of its key when its fate is written. The future is that writing."""
        claim = course.claim
        if claim is None:
            return None
        intent = claim.intent
        if intent is None:
            self._release(claim, None)
            return None
        kept = claim.key is not None and course.entered and _lasts(result, intent)
        written = self._ledger.end(intent, result if kept else None)
        if claim.key is None:
            written.add_done_callback(_tell_failure)
            return None
        recorded = Recorded(claim.digest, result) if kept else None
        self._await_writing(claim, intent, recorded, written)
        return written if kept else None

    def _await_writing(
        self, claim: Claim, intent: Intent, recorded: Recorded | None, written: Future[object]
    ) -> None:
        loop = asyncio.get_running_loop()
        written.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._written, claim, intent, recorded, done)
        )

    def _written(self, claim: Claim, intent: Intent, recorded: Recorded | None, done: Future[object]) -> None:
        assert claim.key is not None  # noqa: S101 - only claims of a key come here
        failed = done.cancelled() or done.exception() is not None
        if failed and recorded is not None:
            self._unsaved[claim.key] = (intent, recorded)
        else:
            self._unsaved.pop(claim.key, None)
        _tell_failure(done)
        self._release(claim, recorded)

    def _release(self, claim: Claim, recorded: Recorded | None) -> None:
        if claim.key is not None and self._claims.get(claim.key) is claim:
            del self._claims[claim.key]
        if claim.ended is not None and not claim.ended.done():
            claim.ended.set_result(recorded)

    def save_again(self) -> None:
        """Try again to write down what could not be written."""
        for key, (intent, recorded) in list(self._unsaved.items()):
            if key not in self._claims:
                claim = self._claims[key] = Claim(key, recorded.digest)
                written = self._ledger.end(intent, recorded.result)
                self._await_writing(claim, intent, recorded, written)


def _lasts(result: Result, intent: Intent) -> bool:
    """Whether a key goes on answering this: a tool's own answer, or what may have happened once already."""
    return result.code in _ANSWERS or (result.effect != "none" and not intent.repeatable)


def _other_arguments(key: str) -> Refused:
    return Refused(
        Code.INVALID_ARGUMENT,
        f"idempotency_key {key!r} was used with other arguments",
        reason="idempotency_key",
        remedy="repeat the arguments of the first call, or use a new idempotency_key",
    )


def _unwritable(error: StoreError) -> Refused:
    return Refused(
        Code.UNAVAILABLE,
        "what this call is about to do cannot be written down, so it was not begun",
        reason=error.message,
        remedy=error.remedy or "ask the operator to look at the store",
    )


def _tell_failure(done: Future[object]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.warning("the end of a call could not be written down: %s", error)
