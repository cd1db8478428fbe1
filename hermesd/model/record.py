"""What is kept of a call: one record, and the questions that are asked of many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from hermesd.model.call import Owner


class CallRecord(NamedTuple):
    """One call that has ended. Nothing in it betrays a secret; `arguments` and `result` are its beginnings.

    `agent` is the operator or agent on whose wish it happened, `caller` the plugin that called for it, ""
    for a call of the agent's own. `at` is when it began (UTC). The durations are milliseconds and add up:
    `duration_ms` is what was spent in the queue, in tools that it called, and in running itself.

    A tuple, because thousands are made each second: a frozen dataclass of as many fields takes five times
    as long to make.
    """

    at: datetime
    request_id: str
    parent_request_id: str
    session_id: str
    agent: str
    agent_kind: str
    caller: str
    tool: str
    version: str
    generation: int
    source: str
    plugin: str
    code: str
    message: str
    reason: str
    effect: str
    attempts: int
    duration_ms: float
    queued_ms: float
    run_ms: float
    downstream_ms: float
    fingerprint: str
    arguments: str
    arguments_bytes: int
    arguments_whole: bool
    result: str
    result_bytes: int
    result_whole: bool
    truncated: bool
    degraded: bool
    replayed: bool
    trace_id: str
    span_id: str
    parent_span_id: str
    metadata_json: str = "{}"

    @property
    def metadata(self) -> dict[str, str]:
        """What the caller gave along."""
        given: dict[str, str] = json.loads(self.metadata_json)
        return given

    def line(self, *, content: bool) -> str:
        """The record as one line of JSON, with arguments and result or without."""
        values = dict(zip(NAMES, self, strict=True))
        values["at"] = self.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
        if not content:
            del values["arguments"], values["result"]
        values["metadata"] = self.metadata if values.pop("metadata_json") != "{}" else {}
        return _ENCODE(values)


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
NAMES = CallRecord._fields


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which records are meant: "" and None leave a thing open. `tool` is a glob, whose `*` crosses dots.

    `since` belongs to it, `until` does not. `failed`: with another code than OK. `owner`: only calls at the
    wish of this one, who asks for them. What a tool tried to call for it under a name that is no tool for it
    is not among them: it is a name that the owner never said.
    """

    tool: str = ""
    agent: str = ""
    code: str = ""
    session_id: str = ""
    plugin: str = ""
    parent_request_id: str = ""
    trace_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    failed: bool = False
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class ToolStats:
    """How the calls of one tool went. `codes`: how often each result code; durations are milliseconds."""

    tool: str
    calls: int
    codes: Mapping[str, int]
    p50_ms: float
    p95_ms: float
    p99_ms: float
    queued_p95_ms: float
    downstream_ms: float
    attempts: int
    last: datetime


@dataclass(frozen=True, slots=True)
class MiscalledTool:
    """A tool that callers get wrong, or a name that no tool has; `example` is the fault told most often."""

    tool: str
    code: str
    count: int
    calls: int
    example: str


@dataclass(frozen=True, slots=True)
class CallStats:
    """How all calls of a filter went. `unused`: tools that are served and were not called."""

    calls: int
    codes: Mapping[str, int]
    p50_ms: float
    p95_ms: float
    p99_ms: float
    tools: tuple[ToolStats, ...]
    unused: tuple[str, ...]
    miscalled: tuple[MiscalledTool, ...]
    first: datetime | None
