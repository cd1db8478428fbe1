"""What is, for whoever asks: the state of each plugin and tool, and the answer of a reload."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from hermesd.errors import Rejection
from hermesd.model.call import Rights


class State(StrEnum):
    """Where a plugin or tool stands. Nothing is silently absent: whatever was found has one."""

    READY = "ready"
    PENDING = "pending"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"
    REJECTED = "rejected"
    DISABLED = "disabled"


#: Calls of such a tool are taken. One that is degraded may answer by its fallback, or refuse for now.
CALLABLE_STATES = frozenset({State.READY, State.DEGRADED})


@dataclass(frozen=True, slots=True)
class Standing:
    """A state with its reason, the remedy, and since when (UTC)."""

    state: State
    since: datetime
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """One plugin as operators see it. `digest` is what serves; `found_digest` what the source holds now.

    `permissions_json` is what its manifest asks for; `granted_json` what it may do where it runs now.
    """

    name: str
    version: str
    origin: str
    source: str
    path: str
    standing: Standing
    digest: str = ""
    found_digest: str = ""
    isolation: str = ""
    generation: int = 0
    tools: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    warnings: tuple[str, ...] = ()
    draining: int = 0
    stray_threads: int = 0
    pid: int = 0
    files: tuple[str, ...] = ()
    permissions_json: str = "{}"
    granted_json: str = "{}"


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """An agent as the operator sees it. `by` and `at`: who gave it its token, when; `place`: file:line."""

    name: str
    state: Literal["active", "expired"]
    origin: Literal["ctl", "config"]
    rights: Rights
    has_token: bool
    by: str = ""
    at: datetime | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """The answer of one reload pass: a diff by plugin name, and where the daemon stands now."""

    revision: str
    generation: int
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    notices: tuple[Rejection, ...] = ()
    duration_ms: float = 0.0
    config_digest: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One content that a plugin served, and when (UTC)."""

    digest: str
    version: str
    first_served: datetime
    last_served: datetime
