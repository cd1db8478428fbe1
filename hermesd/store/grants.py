"""What operators decided at runtime: `state/grants.json`, with who decided it and when.

The operator's YAML is never written; where it speaks too, it wins (see `access.trust.effective_trust`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar, cast

from hermesd.clock import Clock
from hermesd.errors import AlreadyExistsError, InvalidRequestError, NotFoundError, StoreError
from hermesd.model.call import CEILINGS, SideEffects
from hermesd.store.durable import json_bytes, read_json_object, write_atomic

VERSION = 1
AUDIT_ENTRIES = 500
Isolation = Literal["inprocess", "process"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TrustGrant:
    """A content that an operator trusts; with `follow` whatever the folder holds (for development)."""

    digest: str
    isolation: Isolation
    follow: bool
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A plugin or tool switched on or off."""

    enabled: bool
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class PermissionGrant:
    """Permissions granted to a plugin, in the shape of a manifest's `permissions`."""

    permissions: Mapping[str, object]
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class Pin:
    """A content that a rollback holds a plugin at, until it is unpinned."""

    digest: str
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class PluginGrant:
    """Everything that was decided about one plugin; None where nothing was."""

    trust: TrustGrant | None = None
    enabled: Switch | None = None
    permissions: PermissionGrant | None = None
    pin: Pin | None = None


@dataclass(frozen=True, slots=True)
class AgentGrant:
    """An agent that `ctl` made. Of its token only the SHA-256 is kept. `expires`: ISO 8601, "" for never."""

    token_sha256: str
    roles: tuple[str, ...]
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    ceiling: SideEffects
    self_confirm: bool
    expires: str
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class Grants:
    """One state of the whole file. Immutable: a reload pass reads one of these from begin to end."""

    plugins: Mapping[str, PluginGrant] = field(default_factory=dict)
    tools: Mapping[str, Switch] = field(default_factory=dict)
    agents: Mapping[str, AgentGrant] = field(default_factory=dict)

    def plugin(self, name: str) -> PluginGrant:
        return self.plugins.get(name, PluginGrant())

    def tool_enabled(self, name: str) -> bool | None:
        """What an operator said about this tool, or None."""
        switch = self.tools.get(name)
        return None if switch is None else switch.enabled

    def digests(self) -> frozenset[str]:
        """Every digest that is trusted or pinned: what a sweep must spare."""
        trusted = {each.trust.digest for each in self.plugins.values() if each.trust is not None}
        pinned = {each.pin.digest for each in self.plugins.values() if each.pin is not None}
        return frozenset((trusted | pinned) - {""})


class GrantStore:
    """Reads and changes `grants.json` (mode 0600). Safe from several threads.

    A change is on disk, with its audit entry, when the method returns; StoreError leaves all as it was.
    The calls flush to the device: keep them off the event loop.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        """Raises StoreError when the file is damaged or unreadable; it is never taken for empty."""
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._grants, self._audit = _read(path)

    @property
    def current(self) -> Grants:
        """The grants as they stand."""
        return self._grants

    @property
    def audit(self) -> tuple[Mapping[str, str], ...]:
        """The newest changes, the oldest first: {at, by, what, name, detail}."""
        return self._audit

    def trust(
        self, plugin: str, digest: str, *, isolation: Isolation = "inprocess", follow: bool = False, by: str
    ) -> TrustGrant:
        """Trust one content of a plugin; a pin to another content ends."""
        if not digest and not follow:
            raise InvalidRequestError("trust needs a digest", remedy="name one, or ask to follow the folder")
        grant = TrustGrant(digest, isolation, follow, by, self._now())
        detail = f"{digest or 'whatever the folder holds'} {isolation}{' follow' if follow else ''}"
        self._change(plugin, "trust", by, detail, lambda old: replace(old, trust=grant, pin=None))
        return grant

    def untrust(self, plugin: str, *, by: str) -> None:
        """Raises NotFoundError when nothing was trusted here."""
        self._require(self._grants.plugin(plugin).trust, plugin, "is not trusted by a grant")
        self._change(plugin, "untrust", by, "", lambda old: replace(old, trust=None, pin=None))

    def set_plugin(self, plugin: str, *, enabled: bool, by: str) -> None:
        switch = Switch(enabled, by, self._now())
        what = "enable" if enabled else "disable"
        self._change(plugin, what, by, "", lambda old: replace(old, enabled=switch))

    def set_tool(self, tool: str, *, enabled: bool, by: str) -> None:
        switch = Switch(enabled, by, self._now())
        with self._lock:
            tools = {**self._grants.tools, tool: switch}
            self._write(replace(self._grants, tools=tools), "enable" if enabled else "disable", tool, by, "")

    def grant(self, plugin: str, permissions: Mapping[str, object], *, by: str) -> None:
        """Set the permissions that are granted to a plugin; they replace those granted before."""
        given = PermissionGrant(MappingProxyType(dict(permissions)), by, self._now())
        detail = ", ".join(sorted(permissions))
        self._change(plugin, "grant", by, detail, lambda old: replace(old, permissions=given))

    def revoke(self, plugin: str, *, by: str) -> None:
        """Raises NotFoundError when nothing was granted here."""
        self._require(self._grants.plugin(plugin).permissions, plugin, "has no granted permissions")
        self._change(plugin, "revoke", by, "", lambda old: replace(old, permissions=None))

    def pin(self, plugin: str, digest: str, *, by: str) -> None:
        """Hold a plugin at one content (a rollback)."""
        pin = Pin(digest, by, self._now())
        self._change(plugin, "pin", by, digest, lambda old: replace(old, pin=pin))

    def unpin(self, plugin: str, *, by: str) -> None:
        """Raises NotFoundError when it was not pinned."""
        self._require(self._grants.plugin(plugin).pin, plugin, "is not pinned")
        self._change(plugin, "unpin", by, "", lambda old: replace(old, pin=None))

    def add_agent(self, name: str, grant: AgentGrant) -> None:
        """Raises AlreadyExistsError when there is an agent of that name."""
        with self._lock:
            if name in self._grants.agents:
                raise AlreadyExistsError(
                    f"there is an agent {name!r}",
                    remedy=f"hermesd ctl agents rotate {name}, or revoke it first",
                )
            self._write_agents({**self._grants.agents, name: grant}, "add agent", name, grant.by)

    def rotate_agent(self, name: str, token_sha256: str, *, by: str) -> None:
        """Put another token in the place of an agent's own. Raises NotFoundError."""
        with self._lock:
            old = self._agent(name)
            new = replace(old, token_sha256=token_sha256, by=by, at=self._now())
            self._write_agents({**self._grants.agents, name: new}, "rotate agent", name, by)

    def revoke_agent(self, name: str, *, by: str) -> None:
        """Raises NotFoundError when there is no agent of that name."""
        with self._lock:
            self._agent(name)
            left = {each: grant for each, grant in self._grants.agents.items() if each != name}
            self._write_agents(left, "revoke agent", name, by)

    def _agent(self, name: str) -> AgentGrant:
        if name not in self._grants.agents:
            raise NotFoundError(f"there is no agent {name!r}", remedy="hermesd ctl agents list")
        return self._grants.agents[name]

    def _write_agents(self, agents: Mapping[str, AgentGrant], what: str, name: str, by: str) -> None:
        self._write(replace(self._grants, agents=agents), what, name, by, "")

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="microseconds")

    def _require(self, value: object, plugin: str, reason: str) -> None:
        if value is None:
            raise NotFoundError(
                f"{plugin} {reason}", remedy="`hermesd ctl plugins show` says who decided what"
            )

    def _change(
        self, plugin: str, what: str, by: str, detail: str, change: Callable[[PluginGrant], PluginGrant]
    ) -> None:
        with self._lock:
            changed = change(self._grants.plugin(plugin))
            plugins = {name: each for name, each in self._grants.plugins.items() if name != plugin}
            if changed != PluginGrant():
                plugins[plugin] = changed
            self._write(replace(self._grants, plugins=plugins), what, plugin, by, detail)

    def _write(self, grants: Grants, what: str, name: str, by: str, detail: str) -> None:
        entry = {"at": self._now(), "by": by, "what": what, "name": name, "detail": detail}
        audit = (*self._audit, entry)[-AUDIT_ENTRIES:]
        document = {
            "version": VERSION,
            "plugins": {plugin: _plain(each) for plugin, each in grants.plugins.items()},
            "tools": {tool: asdict(each) for tool, each in grants.tools.items()},
            "agents": {agent: asdict(each) for agent, each in grants.agents.items()},
            "audit": list(audit),
        }
        write_atomic(self._path, json_bytes(document))
        self._grants, self._audit = grants, audit


def _plain(grant: PluginGrant) -> dict[str, object]:
    plain: dict[str, object] = {}
    for name in ("trust", "enabled", "pin"):
        value = getattr(grant, name)
        if value is not None:
            plain[name] = asdict(value)
    if grant.permissions is not None:
        given = grant.permissions
        plain["permissions"] = {"permissions": dict(given.permissions), "by": given.by, "at": given.at}
    return plain


def _read(path: Path) -> tuple[Grants, tuple[Mapping[str, str], ...]]:
    value = read_json_object(path, version=VERSION)
    if value is None:
        return Grants(), ()
    try:
        plugins = cast("dict[str, dict[str, dict[str, object]]]", value["plugins"])
        tools = cast("dict[str, dict[str, object]]", value["tools"])
        agents = cast("dict[str, dict[str, object]]", value.get("agents", {}))
        audit = cast("list[dict[str, str]]", value["audit"])
        grants = Grants(
            plugins={name: _plugin(each) for name, each in plugins.items()},
            tools={name: _one(Switch, each) for name, each in tools.items()},
            agents={name: _one(AgentGrant, each) for name, each in agents.items()},
        )
        return grants, tuple(dict(each) for each in audit)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path} is damaged: {error}",
            remedy=f"restore {path.name} from a backup, or move {path} away: every grant is gone then",
        ) from error


def _plugin(plain: Mapping[str, dict[str, object]]) -> PluginGrant:
    unknown = plain.keys() - {"trust", "enabled", "permissions", "pin"}
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
    return PluginGrant(
        trust=_one(TrustGrant, plain["trust"]) if "trust" in plain else None,
        enabled=_one(Switch, plain["enabled"]) if "enabled" in plain else None,
        permissions=_one(PermissionGrant, plain["permissions"]) if "permissions" in plain else None,
        pin=_one(Pin, plain["pin"]) if "pin" in plain else None,
    )


_LISTS = ("roles", "allow", "deny")
_TYPES: Mapping[str, type] = {
    "enabled": bool, "follow": bool, "permissions": dict, "self_confirm": bool, **dict.fromkeys(_LISTS, list)
}  # fmt: skip


def _one(kind: Callable[..., _T], plain: Mapping[str, object]) -> _T:
    """Build one entry, or raise: a field that is missing, unknown or of another type is damage."""
    for key, value in plain.items():
        if not isinstance(value, _TYPES.get(key, str)):
            raise ValueError(f"{key} is {value!r}")
    if "isolation" in plain and plain["isolation"] not in ("inprocess", "process"):
        raise ValueError(f"isolation is {plain['isolation']!r}")
    if "ceiling" in plain:
        return kind(**_agent_fields(plain))
    return kind(**plain)


def _agent_fields(plain: Mapping[str, object]) -> dict[str, object]:
    """An agent's rights in their own types. What is damaged is refused: it must never give more rights."""
    if plain["ceiling"] not in CEILINGS:
        raise ValueError(f"ceiling is {plain['ceiling']!r}")
    if plain.get("expires"):
        datetime.fromisoformat(str(plain["expires"]))
    fields = dict(plain)
    for key in _LISTS:
        texts = cast("list[object]", plain.get(key, []))
        if not all(isinstance(each, str) for each in texts):
            raise ValueError(f"{key} is {texts!r}")
        fields[key] = tuple(texts)
    return fields
