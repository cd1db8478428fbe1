"""What the operator decides on plugins and tools: trust, permissions, switches, which content serves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime
from functools import partial
from typing import cast

from hermesd.errors import NotFoundError, PreconditionError
from hermesd.model.call import Caller
from hermesd.model.name import nearest
from hermesd.model.status import HistoryEntry, PluginStatus
from hermesd.reload.reloader import Reloader
from hermesd.serving.catalogue import Entry
from hermesd.serving.circuit import Circuits
from hermesd.serving.registry import Registry
from hermesd.store.content import ContentStore
from hermesd.store.grants import GrantStore, Isolation
from hermesd.store.served import ServedStore
from hermesd.telemetry.event import EventLog


class Decisions:
    """Whatever is granted, trusted or switched is on disk before the answer, and in force when it comes.

    NotFoundError names what is not known, PreconditionError why a decision cannot be taken here; neither
    changes anything.
    """

    def __init__(
        self,
        *,
        reloader: Reloader,
        registry: Registry,
        grants: GrantStore,
        served: ServedStore,
        contents: ContentStore,
        events: EventLog,
        executor: Executor,
        circuits: Circuits,
    ) -> None:
        self._reloader = reloader
        self._registry = registry
        self._grants = grants
        self._served = served
        self._contents = contents
        self._events = events
        self._executor = executor
        self._circuits = circuits

    def switched_off(self) -> dict[str, datetime]:
        """The tools that the operator switched off, and since when."""
        tools = self._grants.current.tools
        return {name: _time(each.at) for name, each in tools.items() if not each.enabled}

    async def trust_plugin(
        self, name: str, digest: str, isolation: str, follow: bool, caller: Caller
    ) -> PluginStatus:
        plugin = self._known(name)
        self._refuse_if_configured(f"plugins.trusted.{name}", f"plugins.untrusted.{name}")
        if plugin.origin not in ("folder", "file"):
            raise PreconditionError(
                f"{name} is {plugin.origin}, which needs no trust", remedy="only dropped plugins are trusted"
            )
        plan = self._reloader.plan
        unsafe = plan.goals[name].unsafe if plan is not None and name in plan.goals else None
        if unsafe is not None:
            raise PreconditionError(unsafe[0], remedy=unsafe[1])
        pinned = digest or plugin.found_digest
        if not pinned:
            raise PreconditionError(f"{name} cannot be read", remedy="fix what its rejection names")
        if pinned != plugin.found_digest and not self._served_before(name, pinned):
            raise PreconditionError(
                f"{name} holds {plugin.found_digest}, not {pinned}", remedy="look again at what it holds now"
            )
        before = self._grants.current.plugin(name).trust
        where: Isolation = "process" if isolation == "process" else "inprocess"
        if not isolation and before is not None:
            where = before.isolation
        work = partial(self._grants.trust, name, pinned, isolation=where, follow=follow, by=caller.name)
        return await self._change(name, "plugin_trusted", work, digest=pinned, by=caller.name)

    async def untrust_plugin(self, name: str, caller: Caller) -> PluginStatus:
        self._known(name)
        self._refuse_if_configured(f"plugins.trusted.{name}")
        if self._grants.current.plugin(name).trust is None:
            raise PreconditionError(f"{name} is not trusted", remedy="hermesd ctl plugins list")
        work = partial(self._grants.untrust, name, by=caller.name)
        return await self._change(name, "plugin_untrusted", work, by=caller.name)

    async def grant_plugin(
        self, name: str, permissions: Mapping[str, object], caller: Caller
    ) -> PluginStatus:
        plugin = self._known(name)
        self._refuse_if_configured(f"plugins.trusted.{name}.grant", f"plugins.untrusted.{name}.grant")
        granted = _union(self._granted(name, plugin), permissions)
        work = partial(self._grants.grant, name, granted, by=caller.name)
        return await self._change(name, "plugin_granted", work, by=caller.name)

    async def revoke_plugin(
        self, name: str, permissions: Mapping[str, object], caller: Caller
    ) -> PluginStatus:
        plugin = self._known(name)
        self._refuse_if_configured(f"plugins.trusted.{name}.grant", f"plugins.untrusted.{name}.grant")
        left = _difference(self._granted(name, plugin), permissions) if permissions else {}
        work = partial(self._grants.grant, name, left, by=caller.name)
        return await self._change(name, "plugin_revoked", work, by=caller.name)

    async def set_plugin(self, name: str, enabled: bool, caller: Caller) -> PluginStatus:
        self._known(name)
        work = partial(self._grants.set_plugin, name, enabled=enabled, by=caller.name)
        kind = "plugin_enabled" if enabled else "plugin_disabled"
        return await self._change(name, kind, work, by=caller.name)

    async def set_tool(self, name: str, enabled: bool, caller: Caller) -> None:
        self._tool(name)
        await self._write(partial(self._grants.set_tool, name, enabled=enabled, by=caller.name))
        self._registry.switch_off(self.switched_off())
        self._events.emit("tool_enabled" if enabled else "tool_disabled", name, by=caller.name)

    async def reset_circuit(self, name: str, caller: Caller) -> bool:
        reset = self._circuits.reset(self._tool(name))
        if reset:
            self._events.emit("circuit_reset", name, by=caller.name)
        return reset

    def _tool(self, name: str) -> Entry:
        known = self._registry.catalogue.tools
        if (entry := known.get(name)) is None:
            near = nearest(name, known)
            hint = f"did you mean {', '.join(near)}?" if near else "hermesd ctl tools list"
            raise NotFoundError(f"there is no tool {name!r}", remedy=hint)
        return entry

    async def rollback_plugin(self, name: str, digest: str, caller: Caller) -> PluginStatus:
        plugin = self._known(name)
        self._refuse_if_configured(f"plugins.trusted.{name}")
        if self._grants.current.plugin(name).trust is None:
            raise PreconditionError(
                f"{name} is {plugin.origin} and was not trusted by ctl",
                remedy="only trusted plugins roll back",
            )
        wanted = digest or self._earlier(name, plugin.digest)
        if not self._served_before(name, wanted):
            raise NotFoundError(
                f"{name} never served {wanted}, or it is no longer kept",
                remedy=f"hermesd ctl plugins history {name}",
            )
        work = partial(self._grants.pin, name, wanted, by=caller.name)
        return await self._change(name, "plugin_rolled_back", work, digest=wanted, by=caller.name)

    async def plugin_history(self, name: str) -> Sequence[HistoryEntry]:
        return [
            HistoryEntry(each.digest, each.version, _time(each.first_served), _time(each.last_served))
            for each in self._served.history(name)
        ]

    async def _change(
        self, name: str, kind: str, work: Callable[[], object], /, **fields: object
    ) -> PluginStatus:
        await self._write(work)
        self._events.emit(kind, name, **fields)
        await self._reloader.reload(name=name)
        return self._known(name)

    async def _write(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _known(self, name: str) -> PluginStatus:
        plugins = {each.name: each for each in self._reloader.plugins()}
        if name not in plugins:
            near = nearest(name, plugins)
            hint = f"did you mean {', '.join(near)}?" if near else "hermesd ctl plugins list"
            raise NotFoundError(f"there is no plugin {name!r}", remedy=hint)
        return plugins[name]

    def _refuse_if_configured(self, *keys: str) -> None:
        plan = self._reloader.plan
        for key in keys:
            place = plan.configuration.place(key) if plan is not None else None
            if place is not None:
                raise PreconditionError(
                    f"{place.file}:{place.line} sets {key}, and the configuration file wins",
                    remedy="change it there and reload",
                )

    def _served_before(self, name: str, digest: str) -> bool:
        known = any(each.digest == digest for each in self._served.history(name))
        return known and self._contents.get(digest) is not None

    def _earlier(self, name: str, serving: str) -> str:
        for each in self._served.history(name):
            if each.digest != serving and self._contents.get(each.digest) is not None:
                return each.digest
        raise NotFoundError(f"no earlier content of {name} is kept", remedy="trust what it holds now")

    def _granted(self, name: str, plugin: PluginStatus) -> Mapping[str, object]:
        """What the plugin may do now: all that its manifest asks, until somebody said otherwise."""
        given = self._grants.current.plugin(name).permissions
        if given is not None:
            return given.permissions
        return cast("Mapping[str, object]", json.loads(plugin.permissions_json))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _union(granted: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    merged = dict(granted)
    for key, value in more.items():
        before = merged.get(key)
        merged[key] = [*dict.fromkeys([*before, *value])] if _lists(before, value) else value  # type: ignore[misc] # both are lists
    return merged


def _difference(granted: Mapping[str, object], less: Mapping[str, object]) -> dict[str, object]:
    left: dict[str, object] = {}
    for key, value in granted.items():
        taken = less.get(key)
        if taken is None:
            left[key] = value
        elif _lists(value, taken):
            left[key] = [each for each in value if each not in taken]  # type: ignore[attr-defined, operator] # both are lists
    return left


def _lists(*values: object) -> bool:
    return all(isinstance(each, list) for each in values)
