"""A call and its answer: the envelope that every runtime and every edge speaks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from hermesd.model.value import value

Effect = Literal["none", "done", "unknown"]
SideEffects = Literal["none", "read", "write", "destructive"]


class Code(StrEnum):
    """Every code that a result can carry; the whole list is public."""

    OK = "OK"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    UNAVAILABLE = "UNAVAILABLE"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    CONFIRMATION_REQUIRED = "CONFIRMATION_REQUIRED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    RATE_LIMITED = "RATE_LIMITED"
    OVERLOADED = "OVERLOADED"
    TOOL_ERROR = "TOOL_ERROR"
    INVALID_RESULT = "INVALID_RESULT"
    SANDBOX_KILLED = "SANDBOX_KILLED"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    INTERNAL = "INTERNAL"


#: The worst that a call may do, from the least.
CEILINGS: Mapping[SideEffects, int] = {"none": 0, "read": 1, "write": 2, "destructive": 3}


@dataclass(frozen=True, slots=True)
class Rights:
    """What the operator gave an agent. `allow` and `deny` are globs of tool names in which `*` crosses dots.

    Deny wins; without `allow` there is no tool. Tools that do worse than `ceiling` are seen and cannot be
    called. From `expires` on (aware) the agent is nobody.
    """

    roles: tuple[str, ...] = ("agent",)
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ceiling: SideEffects = "write"
    self_confirm: bool = False
    expires: datetime | None = None


class Owner(NamedTuple):
    """At whose wish a call happened: what is kept of its caller with all that the call leaves behind."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Owner:
        """What `str` made a text of."""
        kind, _, name = text.partition(":")
        return cls(kind, name)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `kind` operator: through the operator's socket; plugin: a tool, through `ctx.call`.

    An agent may do what its `rights` say, and nothing without them. `calls` bounds what a plugin may call
    (globs of tool names; None: nothing). A plugin acts `on_behalf_of` its own caller, and has no right that
    either of the two lacks.
    """

    name: str
    kind: Literal["operator", "agent", "plugin"]
    calls: tuple[str, ...] | None = None
    on_behalf_of: Caller | None = None
    #: The operator decided that this agent may confirm its own calls.
    self_confirm: bool = False
    rights: Rights | None = None

    @property
    def principal(self) -> Caller:
        """The operator or agent at whose wish it all happens: whose limits, records and outputs they are."""
        caller = self
        while caller.on_behalf_of is not None:
            caller = caller.on_behalf_of
        return caller

    @property
    def owner(self) -> Owner:
        """Whose the caller's calls are."""
        principal = self.principal
        return Owner(principal.kind, principal.name)


@value
class CallRequest:
    """What a caller asks for. `deadline` is monotonic seconds, already less the edge's reserve."""

    tool: str
    arguments_json: str
    request_id: str
    caller: Caller
    session_id: str = ""
    timeout_ms: int | None = None
    deadline: float | None = None
    depth: int = 0
    parent_request_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str = ""
    confirmation_token: str = ""
    #: Needs its caller's agreement although its tool may need none: it was not thought up for this moment.
    must_confirm: bool = False
    #: It goes on without its caller, under the operator's ceiling instead of the tool's own timeout.
    detach: bool = False
    #: W3C trace context of whoever calls, checked; "" when it has none.
    traceparent: str = ""
    tracestate: str = ""


@value
class Outcome:
    """What a runtime answers for one invocation.

    `data_json` is JSON text, so that long integers and key order survive. `effect` None means
    that the runtime does not know better than the tool's declared side effects. `entered` False: the
    runtime refused before the tool could begin (it was starting, say), so that nothing can have happened.
    """

    code: Code
    data_json: str = "null"
    message: str = ""
    effect: Effect | None = None
    retryable: bool = False
    detail: Mapping[str, object] = field(default_factory=dict)
    entered: bool = True
    #: JSON text of the list of content parts; "": none.
    content_json: str = ""
    #: What stands here is not all that the tool answered; `detail.output` says where the rest is.
    truncated: bool = False


@value
class Result:
    """The envelope: the same for every tool, whatever ran it. Durations are milliseconds."""

    code: Code
    message: str
    data_json: str
    request_id: str
    session_id: str
    tool: str
    version: str
    generation: int
    attempts: int
    duration_ms: float
    queued_ms: float
    retryable: bool
    effect: Effect
    detail: Mapping[str, object] = field(default_factory=dict)
    truncated: bool = False
    content_json: str = ""

    @property
    def status(self) -> Literal["ok", "error"]:
        return "ok" if self.code is Code.OK else "error"

    @property
    def detail_json(self) -> str:
        return json.dumps(self.detail, ensure_ascii=False, separators=(",", ":")) if self.detail else "{}"


_CUT_SHORT = frozenset({Code.TIMEOUT, Code.CANCELLED, Code.SANDBOX_KILLED, Code.INTERNAL})


def effect_of(code: Code, side_effects: SideEffects, *, entered: bool, stated: Effect | None) -> Effect:
    """Whether the tool's side effect can have happened.

    `entered`: the runtime was entered, so that the first byte may have left. `stated`: what the
    plugin itself said with `ToolError(effect=…)`; of a call that was cut, what it said does not count.
    """
    if not entered or side_effects in ("none", "read"):
        return "none"
    if code in (Code.OK, Code.INVALID_RESULT):
        return "done"
    if stated is not None and code not in _CUT_SHORT:
        return stated
    return "unknown"
