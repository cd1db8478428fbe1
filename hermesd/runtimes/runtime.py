"""The one seam between a call and whatever runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from hermesd.model.call import Outcome
from hermesd.model.value import value


@value
class Invocation:
    """One attempt of one call, already resolved, validated and authorised.

    `arguments_json` is the text of `arguments`, so that a runtime behind a pipe need not encode again.
    """

    tool: str
    arguments: Mapping[str, object]
    arguments_json: str
    request_id: str
    session_id: str
    attempt: int
    #: Monotonic seconds; None: no deadline.
    deadline: float | None
    #: Called on the daemon's loop only. Kinds: "progress" {done, total, message} and
    #: "log" {level, message, fields}.
    emit: Callable[[str, dict[str, object]], None]
    #: `ctx.call` back into the dispatcher, awaited on the daemon's loop.
    call: Callable[[str, dict[str, object]], Awaitable[Outcome]]
    #: Monotonic seconds: each progress moves the deadline to `allowance_s` from then, at most to `limit`.
    #: None: progress moves nothing.
    limit: float | None = None
    allowance_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a plugin offers.

    `tools` are raw definitions, each with "name"; `places` maps a tool's name to its file (relative to
    the plugin's root) and line.
    """

    tools: tuple[Mapping[str, object], ...]
    places: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Vitals:
    """Figures of a running runtime; 0 where a kind of runtime has no such thing."""

    stray_threads: int = 0
    pid: int = 0
    restarts: int = 0
    running: int = 0
    rss_bytes: int = 0


class Runtime(Protocol):
    """How one plugin's tools run: `prepare → ready → invoke… → close`."""

    #: "inprocess", "worker", …
    kind: str

    async def prepare(self) -> Prepared:
        """Load and describe. Raises PluginError; a failure leaves nothing behind."""
        ...

    async def ready(self) -> None:
        """Run the startup and shared hooks. Raises PluginError; a failure leaves nothing behind."""
        ...

    async def invoke(self, invocation: Invocation) -> Outcome:
        """Run a tool. Its failure is an Outcome; cancelling this cancels the tool and returns promptly.

        An Outcome with `entered` False says that the tool could not begin.
        """
        ...

    async def close(self) -> None:
        """End hooks, threads and processes. Bounded and idempotent."""
        ...

    def vitals(self) -> Vitals: ...

    def unavailable(self) -> tuple[str, str] | None:
        """(reason, remedy) when calls must be refused right now."""
        ...
