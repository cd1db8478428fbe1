"""The stage in which a call waits for somebody's agreement, and where the operator gives or refuses it.

A call that needs agreement and shows no token ends with one; the call that shows the token runs, once, if
it is the same call. All of it lives in memory: a restart voids every token.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, NoReturn

from hermesd.clock import Clock
from hermesd.errors import NotFoundError, PreconditionError
from hermesd.model.call import Caller, Code
from hermesd.model.confirmation import Binding, By, Confirmation, binding_of, describe, required_by
from hermesd.model.definition import Confirm
from hermesd.model.text import clean
from hermesd.serving.catalogue import Entry
from hermesd.serving.course import Course, Refused
from hermesd.serving.instance import Instance

#: Open confirmations of one principal: what it may leave for the operator to read.
MAX_OPEN = 50
#: Tokens that are remembered as used or expired, so that the answer can say so.
KEPT_SPENT = 1000
MAX_REASON = 500

Change = Literal["requested", "approved", "denied", "used", "expired"]
End = Literal["used", "expired", "replaced"]
Tell = Callable[[Change, Confirmation], None]
Later = Callable[[float, Callable[[], None]], object]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call that needs agreement, as far as its confirmation is concerned."""

    course: Course
    entry: Entry
    binding: Binding
    by: Confirm
    ttl_s: float


def _call_later(delay_s: float, action: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay_s, action)


class Confirmations:
    """The calls that wait for agreement. All methods belong to the event loop's thread.

    `tell` hears of each change, at once; `hide` takes secrets out of the JSON text that people are shown.
    A token never appears in what `tell` may write down: it is the caller's alone.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        tell: Tell = lambda change, confirmation: None,
        hide: Callable[[str], str] = lambda text: text,
        later: Later = _call_later,
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._hide = hide
        self._later = later
        self._open: dict[str, Confirmation] = {}
        self._by_binding: dict[Binding, str] = {}
        self._spent: OrderedDict[str, tuple[Confirmation, End]] = OrderedDict()
        self._armed = False

    def confirm(self, course: Course, entry: Entry, instance: Instance, ttl_s: float) -> None:
        """Let the call pass if it is agreed to; it then holds its confirmation until `settle`.

        Refused: CONFIRMATION_REQUIRED with the token to show, PERMISSION_DENIED when the operator said no,
        OVERLOADED when too many calls of this principal wait already. A token that is shown has to hold,
        also where none is needed: who shows one means the call that was agreed to and no other.
        """
        self.sweep()
        request, principal = course.request, course.request.caller.principal
        definition = entry.definition
        by = required_by(definition, principal, must_confirm=request.must_confirm)
        binding = binding_of(definition, instance.digest, principal, request.session_id, course.arguments)
        asked = _Asked(course, entry, binding, by, ttl_s)
        if not request.confirmation_token:
            self._ask(asked, "")
        found, fault = self._shown(request.confirmation_token, binding)
        if found is not None and by == "operator" and found.by == "caller":
            fault = "was the caller's own, and this call needs the operator's agreement"
        if found is None or fault:
            self._ask(asked, f"the confirmation_token {fault}")
        if found.decision == "denied":
            self._deny(found)
        if found.by == "operator" and found.decision == "pending":
            self._answer(found, "the operator has not decided yet")
        self._close(found, "used")
        course.confirmation = found

    def settle(self, course: Course) -> None:
        """The call has ended. Its confirmation is used if the tool was entered, and else holds again."""
        confirmation = course.confirmation
        if confirmation is None:
            return
        if course.entered:
            self._tell("used", confirmation)
        elif self._is_used(confirmation) and confirmation.binding not in self._by_binding:
            del self._spent[confirmation.id]
            self._keep(confirmation)

    def _is_used(self, confirmation: Confirmation) -> bool:
        spent = self._spent.get(confirmation.id)
        return spent is not None and spent[1] == "used"

    def open(self) -> tuple[Confirmation, ...]:
        """Those that wait for the operator, or for the call that uses them."""
        self.sweep()
        return tuple(self._open.values())

    @property
    def awaiting_operator(self) -> int:
        """How many the operator has to decide."""
        return sum(each.by == "operator" and each.decision == "pending" for each in self._open.values())

    def resolve(
        self, reference: str, decision: Literal["approved", "denied"], operator: Caller, reason: str = ""
    ) -> Confirmation:
        """The operator's word on one, named by its id or its token; until it is used it may change.

        NotFoundError; PreconditionError when it is used or expired, or its caller's own to confirm.
        """
        self.sweep()
        identity = reference.partition(".")[0]
        found = self._open.get(identity)
        if found is not None and reference != found.id and not _same(found.token, reference):
            found = None
        if found is None:
            if identity in self._spent:
                why = self._spent[identity][1]
                raise PreconditionError(
                    f"the confirmation {identity} is {why}", remedy="let its caller ask again"
                )
            raise NotFoundError(
                f"there is no confirmation {clean(identity, 40)!r}",
                remedy="hermesd ctl confirmations list shows those that wait",
            )
        if decision == "approved" and found.by == "caller":
            raise PreconditionError(
                f"the confirmation {identity} is its caller's own to give",
                remedy="the caller calls again with its confirmation_token",
            )
        if found.decision == decision:
            return found
        decided = replace(
            found, decision=decision, decided_by=operator.name, reason=clean(reason, MAX_REASON)
        )
        if decision == "approved":  # who waited for it needs the time to call again
            decided = replace(
                decided,
                expires_at=self._clock.now() + timedelta(seconds=found.ttl_s),
                deadline=self._clock.monotonic() + found.ttl_s,
            )
        self._keep(decided)
        self._tell(decision, decided)
        return decided

    def forget(self, name: str) -> None:
        """Void all of the agent `name`: it was revoked, or is another one now."""
        for each in [each for each in self._open.values() if each.binding.principal == name]:
            if each.binding.kind == "agent":
                self._close(each, "expired")
                self._tell("expired", each)
        # Those in the hands of a call that has not begun, which would give them back.
        for identity, (spent, _) in self._spent.items():
            if (spent.binding.kind, spent.binding.principal) == ("agent", name):
                self._spent[identity] = spent, "expired"

    def sweep(self) -> None:
        """Close those whose time is over."""
        now = self._clock.monotonic()
        for each in [each for each in self._open.values() if each.deadline <= now]:
            self._close(each, "expired")
            self._tell("expired", each)

    def _shown(self, token: str, binding: Binding) -> tuple[Confirmation | None, str]:
        """The confirmation that `token` stands for, and why it does not hold for this call ("": it does).

        What belongs to another principal is answered as what never was.
        """
        identity = token.partition(".")[0]
        found = self._open.get(identity)
        spent = self._spent.get(identity) if found is None else None
        candidate = spent[0] if spent is not None else found
        if candidate is None or not _same(candidate.token, token) or not _of(candidate, binding):
            return None, "is not known; tokens do not outlive the daemon"
        if spent is not None:
            return None, "was used" if spent[1] == "used" else f"is {spent[1]}"
        return candidate, candidate.binding.difference(binding)

    def _ask(self, asked: _Asked, reason: str) -> NoReturn:
        """Answer with the confirmation of this very call, which is made if there is none."""
        if asked.by == "none":
            raise Refused(
                Code.CONFIRMATION_REQUIRED,
                f"{reason}; nothing was run",
                reason=reason,
                remedy=f"{asked.binding.tool} needs no confirmation: call it without a token",
            )
        known = self._by_binding.get(asked.binding)
        found = self._open[known] if known is not None else None
        if found is not None and found.by != asked.by:
            self._close(found, "replaced")
            found = None
        if found is None:
            found = self._issue(asked, asked.by)
        if found.decision == "denied":
            self._deny(found)
        self._answer(found, reason)

    def _answer(self, found: Confirmation, reason: str) -> NoReturn:
        tool, again = found.binding.tool, "call again with the same arguments and detail.confirmation_token"
        if found.by == "caller":
            message = f"{tool} runs when its caller has confirmed it"
            remedy = f"show the summary to whoever decides; if it is wanted, {again}"
        elif found.decision == "approved":
            message, remedy = f"the operator has approved this call of {tool}", again
        else:
            message = f"{tool} runs when the operator has approved it ({found.id})"
            remedy = f"have the operator run `hermesd ctl confirmations approve {found.id}`, then {again}"
        detail = {"reason": reason} if reason else {}
        raise Refused(
            Code.CONFIRMATION_REQUIRED,
            message,
            **detail,
            summary=found.summary,
            confirm=found.by,
            confirmation_token=found.token,
            expires_at=_expiry(found),
            remedy=remedy,
        )

    def _deny(self, found: Confirmation) -> NoReturn:
        why = f": {found.reason}" if found.reason else ""
        raise Refused(
            Code.PERMISSION_DENIED,
            f"the operator has denied this call of {found.binding.tool}{why}",
            reason="denied by the operator",
            summary=found.summary,
            expires_at=_expiry(found),
            remedy="do without it; after detail.expires_at the same call may be asked for again",
        )

    def _issue(self, asked: _Asked, by: By) -> Confirmation:
        self._make_room(asked.binding)
        identity = secrets.token_hex(4)
        while identity in self._open or identity in self._spent:
            identity = secrets.token_hex(4)
        definition, request = asked.entry.definition, asked.course.request
        summary, arguments = describe(definition, asked.course.arguments, self._hide)
        now = self._clock.now()
        made = Confirmation(
            id=identity,
            token=f"{identity}.{secrets.token_urlsafe(32)}",
            by=by,
            binding=asked.binding,
            version=definition.version,
            request_id=request.request_id,
            summary=summary,
            arguments_json=arguments,
            ttl_s=asked.ttl_s,
            created_at=now,
            expires_at=now + timedelta(seconds=asked.ttl_s),
            deadline=self._clock.monotonic() + asked.ttl_s,
        )
        self._keep(made)
        self._tell("requested", made)
        return made

    def _make_room(self, binding: Binding) -> None:
        """One more of this principal's: the oldest that it could confirm itself gives way."""
        own = [each for each in self._open.values() if _of(each, binding)]
        if len(own) < MAX_OPEN:
            return
        oldest = next((each for each in own if each.by == "caller"), None)
        if oldest is not None:
            self._close(oldest, "replaced")
            return
        wait_s = max(0.0, min(each.deadline for each in own) - self._clock.monotonic())
        raise Refused(
            Code.OVERLOADED,
            f"{len(own)} calls of {binding.principal} wait for the operator already",
            retry_after_ms=int(wait_s * 1000) + 1,
            remedy="have the operator decide them: hermesd ctl confirmations list",
        )

    def _keep(self, confirmation: Confirmation) -> None:
        self._open[confirmation.id] = confirmation
        self._by_binding[confirmation.binding] = confirmation.id
        self._arm()

    def _close(self, confirmation: Confirmation, why: End) -> None:
        del self._open[confirmation.id]
        del self._by_binding[confirmation.binding]
        remembered = replace(confirmation, summary="", arguments_json="")
        self._spent[confirmation.id] = (remembered, why)
        if len(self._spent) > KEPT_SPENT:
            self._spent.popitem(last=False)

    def _arm(self) -> None:
        """See to it that what expires is told when it does, and not when somebody looks."""
        if self._armed or not self._open:
            return
        self._armed = True
        first = min(each.deadline for each in self._open.values())
        self._later(max(0.05, first - self._clock.monotonic()), self._wake)

    def _wake(self) -> None:
        self._armed = False
        self.sweep()
        self._arm()


def _same(one: str, other: str) -> bool:
    """Equal, in a time that does not tell how much of it is."""
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))


def _of(confirmation: Confirmation, binding: Binding) -> bool:
    own = confirmation.binding
    return (own.kind, own.principal) == (binding.kind, binding.principal)


def _expiry(confirmation: Confirmation) -> str:
    return confirmation.expires_at.isoformat().replace("+00:00", "Z")
