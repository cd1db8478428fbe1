"""Agents: what the configuration and the operator say of them, in force from the moment it is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from datetime import datetime
from functools import partial

from hermesd.access.identity import Agent, Change, Identities, new_token, token_sha256
from hermesd.access.policy import decide, is_same_principal
from hermesd.clock import Clock
from hermesd.config.configuration import AgentEntry, Configuration
from hermesd.errors import AlreadyExistsError, InvalidRequestError, NotFoundError, PreconditionError
from hermesd.model.call import Caller, Code, Rights
from hermesd.model.name import nearest
from hermesd.model.status import AgentStatus
from hermesd.serving.flight import Cut, Flight, Flights
from hermesd.serving.registry import Registry
from hermesd.store.grants import AgentGrant, GrantStore
from hermesd.telemetry.event import EventLog

#: How late the end of an agent's time may be noticed by what it left open; a new request notices at once.
EXPIRY_CHECK_S = 1.0
REVOKED = Cut(
    Code.CANCELLED, "the agent's token was taken back while this call ran", "ask the operator for a new token"
)
EXPIRED = Cut(
    Code.CANCELLED, "the agent's time ended while this call ran", "ask the operator for a new token"
)
NARROWED = Cut(
    Code.CANCELLED, "the agent may not call this tool any more", "ask the operator, or use another tool"
)


class Agents:
    """Whoever loses its token or rights loses what it has open with them: watches, and calls in flight.

    A decision is on disk before the answer. PreconditionError names the line where the configuration speaks.
    """

    def __init__(
        self,
        *,
        identities: Identities,
        grants: GrantStore,
        flights: Flights,
        registry: Registry,
        events: EventLog,
        executor: Executor,
        clock: Clock,
        configuration: Configuration,
        rights_changed: Callable[[], None],
        gone: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`gone` hears the name of each agent whose token is not taken any more."""
        self._identities = identities
        self._grants = grants
        self._flights = flights
        self._registry = registry
        self._events = events
        self._executor = executor
        self._clock = clock
        self._configuration = configuration
        self._rights_changed = rights_changed
        self._gone = gone
        self._told_expired: set[str] = set()
        self._lock = asyncio.Lock()
        self._apply()

    def configure(self, configuration: Configuration) -> None:
        """Put what a reload read in force."""
        self._configuration = configuration
        self._apply("configuration")

    def known(self) -> Sequence[AgentStatus]:
        return [self._status(each) for each in self._identities.roster]

    async def add(self, name: str, rights: Rights, caller: Caller) -> tuple[AgentStatus, str]:
        async with self._lock:
            self._refuse_if_configured(name)
            if rights.expires is not None and rights.expires <= self._clock.now():
                raise InvalidRequestError("expires has passed already", remedy="name a later moment")
            if self._identities.roster.agent(name) is not None:
                raise AlreadyExistsError(
                    f"there is an agent {name!r}",
                    remedy=f"hermesd ctl agents rotate {name} gives it a new token; revoke removes it",
                )
            token = new_token()
            expires = "" if rights.expires is None else rights.expires.isoformat()
            grant = AgentGrant(
                token_sha256(token), rights.roles, rights.allow, rights.deny, rights.ceiling,
                rights.self_confirm, expires, caller.name, self._now(),
            )  # fmt: skip
            await self._write(partial(self._grants.add_agent, name, grant))
            self._apply()
        self._events.emit(
            "agent_added", name, by=caller.name, allow=list(rights.allow), ceiling=rights.ceiling
        )
        return self._known(name), token

    async def rotate(self, name: str, caller: Caller) -> tuple[AgentStatus, str]:
        async with self._lock:
            self._refuse_if_configured(name)
            self._known(name)
            token = new_token()
            await self._write(partial(self._grants.rotate_agent, name, token_sha256(token), by=caller.name))
            self._apply()
        self._events.emit("agent_rotated", name, by=caller.name)
        return self._known(name), token

    async def revoke(self, name: str, caller: Caller) -> None:
        async with self._lock:
            self._refuse_if_configured(name)
            self._known(name)
            await self._write(partial(self._grants.revoke_agent, name, by=caller.name))
            self._apply()
        self._events.emit("agent_revoked", name, by=caller.name)

    async def watch_expiry(self) -> None:
        """End what agents whose time has passed have open. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(EXPIRY_CHECK_S)
            self.look_for_expired()

    def look_for_expired(self) -> None:
        expired = {each.name: each for each in self._identities.expired()}
        self._told_expired &= expired.keys()
        fresh = [each for name, each in expired.items() if name not in self._told_expired]
        for caller in fresh:
            self._told_expired.add(caller.name)
            self._cut(caller, EXPIRED)
            self._events.emit("agent_expired", caller.name)
        if fresh:
            self._rights_changed()

    def _apply(self, cause: str = "") -> None:
        configured = {name: _configured(name, each) for name, each in self._configuration.agents.items()}
        granted = {name: _granted(name, each) for name, each in self._grants.current.agents.items()}
        changes = self._identities.replace(granted, configured)
        for change in changes:
            self._end(change)
            if cause:
                what = "its rights are others now" if change.now else "its token is not taken any more"
                self._events.emit("agent_changed", change.was.name, what, by=cause)
        if changes:
            self._rights_changed()

    def _end(self, change: Change) -> None:
        if change.now is None:
            self._cut(change.was, REVOKED)
            return
        tools = self._registry.catalogue.tools
        for flight in self._of(change.was):
            # A nested call ends with the one that it is part of, and is itself judged like any other.
            entry = tools.get(flight.tool)
            if not decide(change.now, "call", flight.tool if entry is None else entry.definition).allowed:
                flight.end(NARROWED)

    def _cut(self, caller: Caller, cut: Cut) -> None:
        for flight in self._of(caller):
            flight.end(cut)
        self._gone(caller.name)

    def _of(self, caller: Caller) -> list[Flight]:
        return [each for each in self._flights if is_same_principal(each.caller, caller)]

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="microseconds")

    async def _write(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _known(self, name: str) -> AgentStatus:
        agent = self._identities.roster.agent(name)
        if agent is None:
            near = nearest(name, [each.name for each in self._identities.roster])
            hint = f"did you mean {', '.join(near)}?" if near else "hermesd ctl agents list"
            raise NotFoundError(f"there is no agent {name!r}", remedy=hint)
        return self._status(agent)

    def _refuse_if_configured(self, name: str) -> None:
        place = self._configuration.place(f"agents.{name}")
        if place is not None:
            raise PreconditionError(
                f"{place.file}:{place.line} sets agents.{name}, and the configuration file wins",
                remedy="change it there and reload",
            )

    def _status(self, agent: Agent) -> AgentStatus:
        place = self._configuration.place(f"agents.{agent.name}") if agent.origin == "config" else None
        return AgentStatus(
            name=agent.name,
            state="expired" if agent.is_expired(self._clock.now()) else "active",
            origin=agent.origin,
            rights=agent.rights,
            has_token=bool(agent.token_sha256),
            by=agent.by,
            at=datetime.fromisoformat(agent.at) if agent.at else None,
            place=f"{place.file}:{place.line}" if place is not None else "",
        )


def _configured(name: str, entry: AgentEntry) -> Agent:
    rights = Rights(
        entry.roles, entry.tools.allow, entry.tools.deny, entry.ceiling, entry.self_confirm,
        datetime.fromisoformat(entry.expires) if entry.expires else None,
    )  # fmt: skip
    return Agent(name, rights, entry.token_sha256, "config")


def _granted(name: str, grant: AgentGrant) -> Agent:
    rights = Rights(
        grant.roles, grant.allow, grant.deny, grant.ceiling, grant.self_confirm,
        datetime.fromisoformat(grant.expires) if grant.expires else None,
    )  # fmt: skip
    return Agent(name, rights, grant.token_sha256, "ctl", grant.by, grant.at)
