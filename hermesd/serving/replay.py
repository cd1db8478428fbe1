"""Runs a recorded call again, as a new call of whoever asks.

What may change something is not run again by accident: the first request answers CONFIRMATION_REQUIRED
with what would happen and a token, the second one with that token runs exactly that.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta

from hermesd.clock import Clock, uuid7
from hermesd.errors import PreconditionError
from hermesd.model.call import Caller, CallRequest, Code, Outcome, Result
from hermesd.model.digest import digest_of
from hermesd.model.record import CallRecord
from hermesd.model.text import clean
from hermesd.serving.course import Course
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.envelope import envelope
from hermesd.serving.registry import Registry

#: How long a token may wait for its use, in seconds.
TOKEN_S = 600.0
MAX_TOKENS = 100
SHOWN = 300


@dataclass(frozen=True, slots=True)
class _Promise:
    """What a token stands for."""

    digest: str
    until: float


class Replayer:
    """Tokens live in memory, are good for one use, and die with the process."""

    def __init__(self, dispatcher: Dispatcher, registry: Registry, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._registry = registry
        self._clock = clock
        self._tokens: OrderedDict[str, _Promise] = OrderedDict()

    async def replay(
        self,
        record: CallRecord,
        caller: Caller,
        *,
        arguments_json: str = "",
        token: str = "",
        timeout_ms: int | None = None,
        deadline: float | None = None,
    ) -> Result:
        """Call the record's tool as it is now, with the record's arguments or with `arguments_json`.

        Raises PreconditionError when the record does not hold the whole arguments and none are given.
        """
        if not arguments_json and not record.arguments_whole:
            raise PreconditionError(
                f"the record of {record.request_id} lacks arguments: they were redacted or cut",
                remedy="give the arguments anew",
            )
        request = CallRequest(
            tool=record.tool,
            arguments_json=arguments_json or record.arguments,
            request_id=uuid7(self._clock),
            caller=caller,
            session_id=record.session_id,
            timeout_ms=timeout_ms,
            deadline=deadline,
            metadata={"replay_of": record.request_id},
        )
        unconfirmed = self._unconfirmed(request, token)
        return unconfirmed if unconfirmed is not None else await self._dispatcher.call(request)

    def _unconfirmed(self, request: CallRequest, token: str) -> Result | None:
        """The answer to a replay that may change something and is not confirmed; None: let it run."""
        entry = self._registry.catalogue.find(request.tool)
        if entry is None or entry.definition.side_effects in ("none", "read"):
            return None
        definition = entry.definition
        digest = digest_of(
            [request.tool, definition.digest, request.arguments_json, request.caller.name, request.metadata]
        )
        reason = ""
        if token:
            if self._redeem(token, digest):
                return None
            reason = "the token is used, has expired, or stands for something else"
        fresh, until = self._promise(digest)
        what = definition.title or definition.description or request.tool
        detail = {
            "summary": clean(f"{request.tool} ({definition.side_effects}) would run again: {what}", SHOWN)
            + f" {clean(request.arguments_json, SHOWN)}",
            "confirmation_token": fresh,
            "expires_at": until,
            "remedy": "look at the summary, then ask again with the token",
            **({"reason": reason} if reason else {}),
        }
        now = self._clock.monotonic()
        course = Course(request, None, now, self._registry.catalogue, entry=entry)
        message = f"{request.tool} may change something: running it again needs a confirmation"
        return envelope(course, Outcome(Code.CONFIRMATION_REQUIRED, message=message, detail=detail), now)

    def _promise(self, digest: str) -> tuple[str, str]:
        token = secrets.token_urlsafe(24)
        self._tokens[token] = _Promise(digest, self._clock.monotonic() + TOKEN_S)
        while len(self._tokens) > MAX_TOKENS:
            self._tokens.popitem(last=False)
        until = self._clock.now() + timedelta(seconds=TOKEN_S)
        return token, until.isoformat(timespec="seconds").replace("+00:00", "Z")

    def _redeem(self, token: str, digest: str) -> bool:
        found = next(
            (
                each
                for each in self._tokens
                if hmac.compare_digest(each.encode(), token.encode("utf-8", "replace"))
            ),
            None,
        )
        if found is None:
            return False
        promise = self._tokens.pop(found)
        return promise.until > self._clock.monotonic() and promise.digest == digest
