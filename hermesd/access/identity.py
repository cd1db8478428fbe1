"""Who may call: agents with their tokens and rights, as one roster that is replaced as a whole."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from hermesd.clock import Clock
from hermesd.errors import UnauthenticatedError
from hermesd.model.call import Caller, Rights

TOKEN_BYTES = 32
#: Lets people and scanners for leaked secrets recognise a token.
TOKEN_PREFIX = "hermesd_"  # noqa: S105 - what every token begins with
MAX_TOKEN = 4096


def new_token() -> str:
    """A token of 256 random bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def token_sha256(token: str) -> str:
    """What is kept of a token: 64 hexadecimal digits. A token of 256 random bits needs no salt."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent as somebody decided. `token_sha256` "": only a certificate shows who it is.

    `origin` ctl: `by` and `at` say who and when (ISO). config: the configuration file speaks.
    """

    name: str
    rights: Rights
    token_sha256: str = ""
    origin: Literal["config", "ctl"] = "ctl"
    by: str = ""
    at: str = ""

    def is_expired(self, now: datetime) -> bool:
        return self.rights.expires is not None and self.rights.expires <= now

    def is_like(self, other: Agent | None) -> bool:
        """Whether both let the same caller do the same, whoever decided it."""
        return other is not None and (self.token_sha256, self.rights) == (other.token_sha256, other.rights)

    def caller(self) -> Caller:
        return Caller(self.name, "agent", self_confirm=self.rights.self_confirm, rights=self.rights)


class Roster:
    """All agents of one moment. An agent that stays as it was keeps its Caller, so that `is` tells."""

    def __init__(self, agents: Iterable[Agent] = (), before: Roster | None = None) -> None:
        self._agents = {each.name: each for each in agents}
        # Of two with one token the later one counts: the configuration comes last.
        self._by_digest = {each.token_sha256: each for each in self._agents.values() if each.token_sha256}
        self._callers: dict[str, Caller] = {}
        for name, each in self._agents.items():
            kept = before.caller(name) if before is not None and each.is_like(before.agent(name)) else None
            self._callers[name] = kept or each.caller()

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents.values())

    def agent(self, name: str) -> Agent | None:
        return self._agents.get(name)

    def caller(self, name: str) -> Caller | None:
        return self._callers.get(name)

    def with_digest(self, digest: str) -> Agent | None:
        """The agent whose token has this digest. What is looked up is a digest, which nobody can steer, and
        the last word is a comparison in constant time."""
        found = self._by_digest.get(digest)
        return found if found is not None and hmac.compare_digest(found.token_sha256, digest) else None


@dataclass(frozen=True, slots=True)
class Change:
    """What became of an agent. `now`: with its new rights; None: gone, or its token is another."""

    was: Caller
    now: Caller | None


class Identities:
    """The roster in force. `identify` and `is_current` always speak of now: expiry needs no reload."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.roster = Roster()

    def replace(self, granted: Mapping[str, Agent], configured: Mapping[str, Agent]) -> list[Change]:
        """Put a new roster in force; what the configuration names is the configuration's. What changed."""
        before = self.roster
        merged = {**{name: each for name, each in granted.items() if name not in configured}, **configured}
        self.roster = Roster(merged.values(), before)
        return [change for each in before if (change := self._change(before, each)) is not None]

    def of_token(self, token: str) -> Caller:
        """Whose token this is. UnauthenticatedError."""
        agent = self.roster.with_digest(token_sha256(token)) if 0 < len(token) <= MAX_TOKEN else None
        if agent is None:
            raise UnauthenticatedError(
                "the token is not known", remedy="ask the operator for a token: hermesd ctl agents add NAME"
            )
        return self._unexpired(agent)

    def of_certificate(self, name: str) -> Caller | None:
        """The agent that a verified certificate names; None when there is no such agent."""
        agent = self.roster.agent(name)
        return None if agent is None else self._unexpired(agent)

    def is_current(self, caller: Caller) -> bool:
        """Whether this very caller still has the rights that it came with."""
        if caller.kind != "agent":
            return True
        agent = self.roster.agent(caller.name)
        if agent is None or agent.is_expired(self._clock.now()):
            return False
        return self.roster.caller(caller.name) is caller

    def present(self, caller: Caller) -> Caller:
        """The same with the rights of now: what a long call calls is judged by them. One that is gone stays
        as it was, as its calls are cut.
        """
        if (behind := caller.on_behalf_of) is not None:
            now = self.present(behind)
            return caller if now is behind else replace(caller, on_behalf_of=now)
        return (self.roster.caller(caller.name) or caller) if caller.kind == "agent" else caller

    def expired(self) -> list[Caller]:
        """Callers whose time has passed."""
        now = self._clock.now()
        found = (self.roster.caller(each.name) for each in self.roster if each.is_expired(now))
        return [each for each in found if each is not None]

    def next_expiry_s(self) -> float | None:
        """How long until the next agent expires; None when none will."""
        now = self._clock.now()
        times = [each.rights.expires for each in self.roster if each.rights.expires is not None]
        left = [(each - now).total_seconds() for each in times if each > now]
        return min(left, default=None)

    def _unexpired(self, agent: Agent) -> Caller:
        caller = self.roster.caller(agent.name)
        if caller is None or agent.is_expired(self._clock.now()):
            raise UnauthenticatedError(
                f"the agent {agent.name!r} has expired", remedy="ask the operator for a new one"
            )
        return caller

    def _change(self, before: Roster, old: Agent) -> Change | None:
        was, now = before.caller(old.name), self.roster.caller(old.name)
        if was is None or was is now:
            return None
        new = self.roster.agent(old.name)
        return Change(was, now if new is not None and new.token_sha256 == old.token_sha256 else None)
