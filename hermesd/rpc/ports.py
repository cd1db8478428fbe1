"""What the gRPC edge needs from the daemon behind it.

The daemon's own classes satisfy these protocols; tests pass doubles held in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from hermesd.config.effective import EffectiveValue
from hermesd.model.call import Caller, CallRequest, Result, Rights
from hermesd.model.confirmation import Confirmation
from hermesd.model.definition import ToolDefinition
from hermesd.model.record import CallFilter, CallRecord, CallStats
from hermesd.model.status import AgentStatus, HistoryEntry, PluginStatus, ReloadReport, Standing
from hermesd.serving.journal import JournalEvent
from hermesd.telemetry.event import Event
from hermesd.telemetry.plugin_log import PluginLogLine

Emit = Callable[[str, dict[str, object]], None]
ItemT_co = TypeVar("ItemT_co", covariant=True)


class Calls(Protocol):
    """The one dispatcher."""

    async def call(self, request: CallRequest, emit: Emit | None = None) -> Result:
        """Never raises for a tool's failure. AlreadyExistsError, DrainingError."""

    def cancel(self, request_id: str, caller: Caller) -> bool:
        """False: that caller has no such call in flight."""


class Confirmations(Protocol):
    """The calls that wait for agreement."""

    def open(self) -> Sequence[Confirmation]: ...

    def resolve(
        self, reference: str, decision: Literal["approved", "denied"], operator: Caller, reason: str = ""
    ) -> Confirmation:
        """NotFoundError, PreconditionError."""


class Detached(Protocol):
    """Calls that go on without their caller."""

    async def start(self, request: CallRequest) -> Result:
        """AlreadyExistsError, DrainingError, ExhaustedError, StoreError."""

    async def watch(
        self, request_id: str, caller: Caller, after_seq: int | None
    ) -> AsyncIterator[JournalEvent]:
        """NotFoundError, FellBehindError, InvalidRequestError."""


class Outputs(Protocol):
    """What calls left behind for their owner."""

    async def page(self, caller: Caller, request_id: str, part: str, offset: int) -> tuple[str, int, int]:
        """Text, where the next page begins, the whole size. NotFoundError, InvalidRequestError."""


class Entry(Protocol):
    """A tool as it is served."""

    @property
    def definition(self) -> ToolDefinition: ...
    @property
    def plugin(self) -> str: ...
    @property
    def source(self) -> str: ...


class Catalogue(Protocol):
    """An immutable snapshot of all tools, sorted by name."""

    @property
    def generation(self) -> int: ...
    @property
    def tools(self) -> Mapping[str, Entry]: ...
    def find(self, name: str) -> Entry | None: ...


class Identities(Protocol):
    """Who may call, at this moment."""

    def of_token(self, token: str) -> Caller:
        """Whose token it is. UnauthenticatedError."""

    def of_certificate(self, name: str) -> Caller | None:
        """The agent of that name; None when there is none. UnauthenticatedError when it has expired."""

    def is_current(self, caller: Caller) -> bool:
        """Whether this very caller, as it was identified, still has its rights."""


class Agents(Protocol):
    """What the operator decides about agents.

    PreconditionError where the configuration file decides, AlreadyExistsError, NotFoundError.
    """

    def known(self) -> Sequence[AgentStatus]: ...
    async def add(self, name: str, rights: Rights, caller: Caller) -> tuple[AgentStatus, str]:
        """The agent, and its token, which nobody can read again."""

    async def rotate(self, name: str, caller: Caller) -> tuple[AgentStatus, str]: ...
    async def revoke(self, name: str, caller: Caller) -> None: ...


class Watchable(Protocol[ItemT_co]):
    """A numbered history that can be followed."""

    @property
    def last_seq(self) -> int:
        """The number of the newest item; 0 before the first."""

    def watch(self, after_seq: int | None = None) -> AsyncIterator[ItemT_co]:
        """Each item after `after_seq`, without gaps. FellBehindError when one that it owes is gone."""


class ToolChange(Protocol):
    @property
    def seq(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def roles(self) -> Sequence[str] | None:
        """For agents of which roles it is there now, () for all; None: it is gone."""

    @property
    def roles_before(self) -> Sequence[str] | None:
        """The same before the change; None: it was not there."""


class Registry(Watchable[ToolChange], Protocol):
    """Where the present catalogue is found, what each tool's state is, and the changes are followed."""

    @property
    def catalogue(self) -> Catalogue: ...
    def standing(self, entry: Any) -> Standing:  # an Entry of its own catalogue
        """The whole truth about one tool's state: the operator's switches and missing dependencies too."""


class Events(Watchable[Event], Protocol):
    """The daemon's events."""

    def recent(self, count: int) -> Sequence[Event]:
        """The newest `count` events that are kept, oldest first."""


class Reload(Protocol):
    async def reload(
        self,
        *,
        name: str = "",
        dry_run: bool = False,
        atomic: bool = False,
        no_wait: bool = False,
        if_revision: str = "",
        cause: str = "rpc",
    ) -> ReloadReport:
        """NotFoundError, ConflictError."""

    def plugins(self) -> Sequence[PluginStatus]: ...


class Inspection(Protocol):
    """What the daemon says of itself."""

    async def status(self) -> dict[str, object]: ...
    async def effective_config(self) -> Sequence[EffectiveValue]: ...
    async def dump_state(self) -> dict[str, object]: ...
    def read_plugin_log(self, name: str, lines: int, follow: bool) -> AsyncIterator[PluginLogLine]: ...


class Records(Protocol):
    """The records of calls, to each caller of those that it may read. StoreError when they cannot be read."""

    async def page(
        self, caller: Caller, asked: CallFilter, limit: int, before: int | None
    ) -> Sequence[tuple[int, CallRecord]]:
        """At most `limit` calls that ended, each with its number, the last first, below `before`."""

    def in_flight(self, caller: Caller, asked: CallFilter) -> Sequence[CallRecord]: ...
    async def find(self, caller: Caller, request_id: str) -> CallRecord | None: ...
    async def stats(self, caller: Caller, asked: CallFilter) -> CallStats:
        """`unused` are of the tools that the caller sees."""

    async def replay(
        self,
        record: CallRecord,
        caller: Caller,
        *,
        arguments_json: str,
        token: str,
        timeout_ms: int | None,
        deadline: float | None,
    ) -> Result:
        """PreconditionError when the record does not hold the whole arguments; DrainingError."""


class Lifecycle(Protocol):
    """Whether the daemon takes calls, and its end."""

    async def drain(self) -> None: ...
    async def resume(self) -> None: ...
    async def shutdown(self) -> None:
        """Begins to end the daemon and returns at once."""


class Decisions(Protocol):
    """What the operator decides about plugins and tools.

    `permissions` has the shape of a manifest's permissions; an empty one revokes everything.
    NotFoundError for a plugin or tool that does not exist, PreconditionError where the configuration
    file decides already or the object is in the wrong state.
    """

    async def trust_plugin(
        self, name: str, digest: str, isolation: str, follow: bool, caller: Caller
    ) -> PluginStatus: ...
    async def untrust_plugin(self, name: str, caller: Caller) -> PluginStatus: ...
    async def grant_plugin(
        self, name: str, permissions: Mapping[str, object], caller: Caller
    ) -> PluginStatus: ...
    async def revoke_plugin(
        self, name: str, permissions: Mapping[str, object], caller: Caller
    ) -> PluginStatus: ...
    async def set_plugin(self, name: str, enabled: bool, caller: Caller) -> PluginStatus: ...
    async def set_tool(self, name: str, enabled: bool, caller: Caller) -> object: ...
    async def reset_circuit(self, name: str, caller: Caller) -> bool:
        """Whether a circuit of this tool, or one that it shares, was open."""

    async def rollback_plugin(self, name: str, digest: str, caller: Caller) -> PluginStatus: ...
    async def plugin_history(self, name: str) -> Sequence[HistoryEntry]:
        """Newest first."""
