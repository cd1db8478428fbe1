"""A call and its answer: the envelope that every runtime and every edge speaks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

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


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. `kind` operator: through the operator's socket; plugin: a tool, through `ctx.call`.

    `calls` bounds what may be called (globs of tool names; None: everything that exists). A plugin acts
    `on_behalf_of` its own caller, and has no right that either of the two lacks.
    """

    name: str
    kind: Literal["operator", "agent", "plugin"]
    calls: tuple[str, ...] | None = None
    on_behalf_of: Caller | None = None
    #: The operator decided that this agent may confirm its own calls.
    self_confirm: bool = False

    @property
    def principal(self) -> Caller:
        """The operator or agent at whose wish it all happens: whose limits, records and outputs they are."""
        caller = self
        while caller.on_behalf_of is not None:
            caller = caller.on_behalf_of
        return caller


@dataclass(frozen=True, slots=True)
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
    #: W3C trace context of whoever calls, checked; "" when it has none.
    traceparent: str = ""
    tracestate: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a runtime answers for one invocation.

    `data_json` is JSON text, so that long integers and key order survive. `effect` None means
    that the runtime does not know better than the tool's declared side effects.
    """

    code: Code
    data_json: str = "null"
    message: str = ""
    effect: Effect | None = None
    retryable: bool = False
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
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

    @property
    def status(self) -> Literal["ok", "error"]:
        return "ok" if self.code is Code.OK else "error"

    @property
    def detail_json(self) -> str:
        return json.dumps(self.detail, ensure_ascii=False, separators=(",", ":")) if self.detail else "{}"


def effect_of(code: Code, side_effects: SideEffects, *, entered: bool, stated: Effect | None) -> Effect:
    """Whether the tool's side effect can have happened.

    `entered`: the runtime was entered, so that the first byte may have left. `stated`: what the
    plugin itself said with `ToolError(effect=…)`.
    """
    if not entered or side_effects in ("none", "read"):
        return "none"
    if code in (Code.OK, Code.INVALID_RESULT):
        return "done"
    if code is Code.TOOL_ERROR and stated is not None:
        return stated
    return "unknown"
