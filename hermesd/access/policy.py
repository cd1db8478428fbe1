"""The one place that says whether a caller may do something. What no rule allows is denied."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Literal, Protocol

from hermesd.model.call import CEILINGS, Caller, Owner, Rights, SideEffects

#: `see`: list, show, follow or suggest a tool; `call`: run it. `read`: the record, output or events of a
#: call; `cancel`: end it. `administer`: an RPC of AdminService.
Action = Literal["see", "call", "read", "cancel", "administer"]

#: The RPCs of AdminService that an agent may use: they tell it of its own calls, and of nothing else.
OF_OWN_CALLS = frozenset(("ListCalls", "GetCall", "GetCallStats"))


class Seen(Protocol):
    """What seeing a tool depends on."""

    @property
    def name(self) -> str: ...
    @property
    def roles(self) -> Sequence[str]: ...


class Tool(Seen, Protocol):
    """What calling a tool depends on; a definition is one."""

    @property
    def side_effects(self) -> SideEffects: ...


@dataclass(frozen=True, slots=True)
class Decision:
    """`visible` False: to this caller the object does not exist, and is never among the nearest names."""

    allowed: bool
    visible: bool
    reason: str = ""


ALLOWED = Decision(True, True)
Subject = Seen | Caller | Owner | str


def decide(caller: Caller, action: Action, subject: Subject = "") -> Decision:
    """Whether `caller` may do `action` with `subject`.

    The subject of see and call is a tool's definition, or a mere name where there is no such tool; of read
    and cancel it is the caller or owner whose call it is, "" for everybody's; of administer the name of the
    RPC.

    The operator may do everything. An agent sees what its globs allow and do not deny, unless the tool is
    for roles that it lacks, and may call what is not above its ceiling; it reads and cancels what was called
    at its own wish. A plugin may see and call what the globs of its granted `calls` match, and nothing that
    the caller on whose behalf it acts may not do itself. Nobody but the operator administers; an agent may
    ask for its own calls.
    """
    if caller.kind == "operator":
        return ALLOWED
    if action == "see" or action == "call":  # noqa: PLR1714 - each call comes here: no tuple to search
        return _on_tool(caller, action, subject)
    if action in ("read", "cancel"):
        return _on_call(caller, subject)
    if caller.kind == "agent" and isinstance(subject, str) and subject in OF_OWN_CALLS:
        return ALLOWED
    return Decision(False, False, f"the {caller.kind} {caller.name!r} has no right to {action}")


def is_same_principal(one: Caller, other: Caller) -> bool:
    """Whether both act at the wish of the same operator or agent."""
    return one.owner == other.owner


def whose_calls(caller: Caller) -> Owner | None:
    """Whose calls a caller may read: None for everybody's. It belongs into the query, so that nothing is
    filtered afterwards."""
    return None if decide(caller, "read").allowed else Owner(caller.kind, caller.name)


def matches(name: str, globs: tuple[str, ...]) -> bool:
    """Whether one of the globs matches the whole name; `*` crosses dots, letters keep their case."""
    return bool(globs) and _compiled(globs).match(name) is not None


def _on_tool(caller: Caller, action: Action, subject: Subject) -> Decision:
    name = subject if isinstance(subject, str) else subject.name
    if caller.kind == "agent":
        return _agent_on_tool(caller, action, name, subject)
    if not matches(name, caller.calls or ()):
        return Decision(False, False, f"the plugin {caller.name!r} was not granted calls of {name!r}")
    behalf = caller.on_behalf_of
    return ALLOWED if behalf is None else decide(behalf, action, subject)


def _agent_on_tool(caller: Caller, action: Action, name: str, subject: Subject) -> Decision:
    rights = caller.rights
    if rights is None or not matches(name, rights.allow) or matches(name, rights.deny):
        return Decision(False, False, f"the agent {caller.name!r} was not given {name!r}")
    roles: Sequence[str] = getattr(subject, "roles", ())
    if roles and not set(roles) & set(rights.roles):
        return Decision(False, False, f"the agent {caller.name!r} has none of the roles of {name!r}")
    return ALLOWED if action == "see" else _below_ceiling(caller, rights, name, subject)


def _below_ceiling(caller: Caller, rights: Rights, name: str, subject: Subject) -> Decision:
    effects: SideEffects | None = getattr(subject, "side_effects", None)
    if effects is None:
        return Decision(False, False, f"there is no tool {name!r}")
    if CEILINGS[effects] > CEILINGS[rights.ceiling]:
        ceiling = f"the ceiling of {caller.name!r} is {rights.ceiling}"
        return Decision(False, True, f"the side effects of {name} are {effects}, and {ceiling}")
    return ALLOWED


def _on_call(caller: Caller, subject: Subject) -> Decision:
    owner = subject.owner if isinstance(subject, Caller) else subject
    if isinstance(owner, Owner) and caller.kind == "agent" and caller.owner == owner:
        return ALLOWED
    return Decision(False, False, f"it is no call of the {caller.kind} {caller.name!r}")


@lru_cache(maxsize=1024)
def _compiled(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(translate(each) for each in globs))
