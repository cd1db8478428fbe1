"""Detached calls: answered at once, watched and read later by whoever made them.

A call is noted on the disk before it begins, and its answer when it has ended; so a daemon that starts again
knows the answers, and says of the calls that it did not see end that their fate is unknown.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from hermesd.access.policy import whose_calls
from hermesd.errors import (
    AlreadyExistsError,
    ExhaustedError,
    HermesdError,
    NotFoundError,
    StoreError,
    UnauthenticatedError,
)
from hermesd.model.call import Caller, CallRequest, Code, Effect, Result
from hermesd.serving.course import ACCEPTED, Emit
from hermesd.serving.journal import Journal, JournalEvent
from hermesd.serving.output import Outputs, may_read, owner_of
from hermesd.serving.registry import Registry
from hermesd.store.output import Kept

_log = logging.getLogger("hermesd.serving")

MAX_RUNNING = 1000
#: Of one principal: nobody takes all places.
MAX_OWN = 250
#: Of so many calls that have ended what they said on the way can be watched again.
MAX_ENDED = 100
#: A call that waits longer for its acceptance (behind a duplicate, say) is answered as accepted.
ACCEPT_S = 0.25
FAILED: Mapping[str, object] = {"remedy": "report it to the operator with the request_id"}
LOST_MESSAGE = "the daemon ended before this call did"
LOST_REMEDY = "look at what it changed before you call again"


class Calls(Protocol):
    async def call(self, request: CallRequest, emit: Emit | None = None) -> Result: ...


@dataclass(slots=True, eq=False)
class _Detached:
    request: CallRequest
    owner: str
    journal: Journal = field(default_factory=Journal)
    accepted: asyncio.Event = field(default_factory=asyncio.Event)
    result: Result | None = None
    error: HermesdError | None = None
    #: Its answer is on the disk, and expires there.
    kept: bool = False

    def emit(self, kind: str, payload: dict[str, object]) -> None:
        if kind == ACCEPTED:
            self.accepted.set()
        else:
            self.journal.add(kind, payload)


class DetachedCalls:
    """All of them, by owner and request id. Used on the daemon's loop; `tasks` owns the running ones."""

    def __init__(
        self,
        calls: Calls,
        registry: Registry,
        outputs: Outputs,
        tasks: asyncio.TaskGroup,
        *,
        is_current: Callable[[Caller], bool] = lambda caller: True,
    ) -> None:
        """`is_current` says whether a caller has the rights that it came with."""
        self._is_current = is_current
        self._calls = calls
        self._registry = registry
        self._outputs = outputs
        self._tasks = tasks
        self._running: dict[tuple[str, str], _Detached] = {}
        #: How many of them each owner has.
        self._own: dict[str, int] = {}
        self._ended: OrderedDict[tuple[str, str], _Detached] = OrderedDict()

    def __len__(self) -> int:
        return len(self._running)

    async def start(self, request: CallRequest) -> Result:
        """Begin a call and answer that it goes on; what is refused at once is answered with its refusal.

        Raises AlreadyExistsError, DrainingError, ExhaustedError (1,000 run), and StoreError when it cannot be
        noted on the disk: then nothing has begun.
        """
        key = owner_of(request.caller), request.request_id
        if key in self._running:
            raise AlreadyExistsError(
                f"a call with request_id {request.request_id!r} is in flight", remedy="use a fresh request_id"
            )
        if len(self._running) >= MAX_RUNNING or self._own.get(key[0], 0) >= MAX_OWN:
            whose = "detached calls of yours" if len(self._running) < MAX_RUNNING else "detached calls"
            most = MAX_OWN if len(self._running) < MAX_RUNNING else MAX_RUNNING
            raise ExhaustedError(f"{most} {whose} run already", remedy="wait until some have ended")
        call = self._enter(key, replace(request, deadline=None))
        try:
            await self._note(call)
        except BaseException:
            self._leave(key)
            raise
        if not self._is_current(request.caller):  # what ends its calls did not find this one
            self._leave(key)
            await self._outputs.remove("call", *key)
            raise UnauthenticatedError("this agent's rights have changed", remedy="call again")
        task = self._tasks.create_task(self._run(call), name=f"detached call {request.request_id}")
        accepted = asyncio.ensure_future(call.accepted.wait())
        try:
            await asyncio.wait((task, accepted), timeout=ACCEPT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            accepted.cancel()
            if not task.done():
                call.accepted.set()  # from here on its answer is kept, whatever it is
        if call.error is not None:
            raise call.error
        if call.result is not None and not call.accepted.is_set():
            return call.result
        return self._goes_on(request)

    def _enter(self, key: tuple[str, str], request: CallRequest) -> _Detached:
        call = self._running[key] = _Detached(request, key[0])
        self._own[key[0]] = self._own.get(key[0], 0) + 1
        return call

    def _leave(self, key: tuple[str, str]) -> None:
        del self._running[key]
        self._own[key[0]] -= 1
        if not self._own[key[0]]:
            del self._own[key[0]]

    async def watch(
        self, request_id: str, caller: Caller, after_seq: int | None
    ) -> AsyncIterator[JournalEvent]:
        """`started`, then what the call said and says, and `result` last.

        NotFoundError, alike for what is not there and what is not the caller's; FellBehindError.
        """
        call = self._find(request_id, caller)
        if call is not None and not (call.kept and self._outputs.find("call", caller, request_id) is None):
            call.journal.check(after_seq)
            return call.journal.read(request_id, after_seq)
        kept = self._outputs.find("call", caller, request_id)
        if kept is None or kept.expires is None:
            raise _absent(request_id)
        journal = Journal()
        result = await self._answer(kept)
        journal.last_seq = max(journal.last_seq, int(str(kept.about.get("seq", 2))) - 1)
        journal.end(result)
        journal.check(after_seq)
        return journal.read(request_id, after_seq)

    async def recover(self, unended: list[Kept]) -> None:
        """Say of the calls that an earlier daemon did not see end that their fate is unknown."""
        for kept in unended:
            effect = cast("Effect", kept.about.get("effect") or "unknown")
            result = _result(
                {
                    **kept.about,
                    "code": Code.UNAVAILABLE,
                    "message": LOST_MESSAGE,
                    "effect": effect,
                    "detail": {"reason": "restarted", "remedy": LOST_REMEDY},
                },
                request_id=kept.request_id,
            )
            await self._keep(kept.owner, result, seq=2)

    def _find(self, request_id: str, caller: Caller) -> _Detached | None:
        own = owner_of(caller), request_id
        found = self._running.get(own) or self._ended.get(own)
        if found is None and whose_calls(caller) is None:
            every = [*self._running.items(), *self._ended.items()]
            found = next((call for (_, name), call in every if name == request_id), None)
        return found if found is not None and may_read(caller, found.owner) else None

    async def _note(self, call: _Detached) -> None:
        """On the disk before it begins: what a restart has to say of it."""
        entry = self._registry.catalogue.find(call.request.tool)
        definition = entry.definition if entry is not None else None
        harmless = definition is not None and definition.side_effects in ("none", "read")
        about = {
            "tool": call.request.tool,
            "version": definition.version if definition is not None else "",
            "session_id": call.request.session_id,
            "generation": self._registry.catalogue.generation,
            "effect": "none" if harmless else "unknown",
        }
        await self._outputs.keep("call", call.owner, call.request.request_id, about=about, lasting=True)

    async def _run(self, call: _Detached) -> None:
        key = call.owner, call.request.request_id
        try:
            try:
                result = await self._calls.call(call.request, call.emit)
            except HermesdError as error:
                call.error = error
            except Exception:  # noqa: BLE001 - told with its traceback; the other calls go on
                _log.exception("the detached call %s failed", call.request.request_id)
                result = replace(self._goes_on(call.request), code=Code.INTERNAL, detail=FAILED)
            if call.error is not None or not call.accepted.is_set():
                # Whoever asked is told now, and there is nothing that could be asked for later.
                await self._outputs.remove("call", *key)
                call.result = None if call.error is not None else result
                return
            # The disk has the answer before anybody hears it.
            call.kept = await self._keep(call.owner, result, seq=call.journal.last_seq + 1)
            call.result = result
            call.journal.end(result)
            self._remember(key, call)
        finally:
            call.request = replace(call.request, arguments_json="")  # nobody keeps megabytes of them
            self._leave(key)

    def _remember(self, key: tuple[str, str], call: _Detached) -> None:
        self._ended.pop(key, None)
        self._ended[key] = call
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    async def _keep(self, owner: str, result: Result, *, seq: int) -> bool:
        try:
            await self._outputs.keep(
                "call",
                owner,
                result.request_id,
                data=result.data_json,
                content=result.content_json,
                about={**_about(result), "seq": seq},
            )
        except StoreError as error:
            told = "the answer of the detached call %s is not kept: %s"
            _log.warning(told, result.request_id, error.message)
            return False
        return True

    async def _answer(self, kept: Kept) -> Result:
        try:
            data = await self._outputs.text(kept, "data")
            content = await self._outputs.text(kept, "content")
        except StoreError as error:
            _log.warning("the answer of %s is gone: %s", kept.request_id, error.message)
            raise _absent(kept.request_id) from error
        about = {**kept.about, "data_json": data, "content_json": content}
        return _result(about, request_id=kept.request_id)

    def _goes_on(self, request: CallRequest) -> Result:
        entry = self._registry.catalogue.find(request.tool)
        definition = entry.definition if entry is not None else None
        harmless = definition is not None and definition.side_effects in ("none", "read")
        return Result(
            code=Code.OK,
            message="",
            data_json="null",
            request_id=request.request_id,
            session_id=request.session_id,
            tool=request.tool,
            version=definition.version if definition is not None else "",
            generation=self._registry.catalogue.generation,
            attempts=0,
            duration_ms=0.0,
            queued_ms=0.0,
            retryable=False,
            effect="none" if harmless else "unknown",
            detail={"detached": True},
        )


def _absent(request_id: str) -> NotFoundError:
    return NotFoundError(
        f"there is no detached call {request_id!r}",
        remedy="it may have expired; a call that waits for its answer cannot be watched",
    )


_TOLD = ("message", "session_id", "tool", "version", "generation", "attempts", "duration_ms", "queued_ms",
         "retryable", "effect", "truncated")  # fmt: skip


def _about(result: Result) -> dict[str, object]:
    told: dict[str, object] = {name: getattr(result, name) for name in _TOLD}
    detail = json.loads(json.dumps(dict(result.detail), default=str))
    return {**told, "code": result.code.value, "detail": detail}


def _result(about: Mapping[str, object], *, request_id: str) -> Result:
    def text(name: str) -> str:
        return str(about.get(name) or "")

    def number(name: str) -> float:
        value = about.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    return Result(
        code=Code(text("code")),
        message=text("message"),
        data_json=text("data_json") or "null",
        request_id=request_id,
        session_id=text("session_id"),
        tool=text("tool"),
        version=text("version"),
        generation=int(number("generation")),
        attempts=int(number("attempts")),
        duration_ms=number("duration_ms"),
        queued_ms=number("queued_ms"),
        retryable=about.get("retryable") is True,
        effect=cast("Effect", text("effect")),
        detail=cast("Mapping[str, object]", about.get("detail") or {}),
        truncated=about.get("truncated") is True,
        content_json=text("content_json"),
    )
