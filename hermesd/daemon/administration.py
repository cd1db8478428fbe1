"""What the operator can see and do, behind AdminService and the health endpoints."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import cast

from hermesd.clock import Clock
from hermesd.config.effective import EffectiveValue, jsonable
from hermesd.daemon.git import WorkTree
from hermesd.daemon.listener import CallListener
from hermesd.errors import NotFoundError, PreconditionError
from hermesd.model.call import Caller
from hermesd.model.name import nearest
from hermesd.model.status import PluginStatus
from hermesd.reload.reloader import Reloader
from hermesd.reload.watch import Watcher
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.registry import Registry
from hermesd.store.content import ContentStore
from hermesd.store.grants import GrantStore, Isolation
from hermesd.store.served import ServedStore
from hermesd.supervise.launcher import Launcher
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.lag import LoopLag
from hermesd.telemetry.metric import Metrics
from hermesd.telemetry.plugin_log import PluginLog, PluginLogLine
from hermesd.telemetry.process import ProcessTable
from hermesd.version import __version__


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One content that a plugin served, and when (UTC)."""

    digest: str
    version: str
    first_served: datetime
    last_served: datetime


class Administration:
    """The daemon's own account of itself, and the operator's switches.

    Whatever is granted, trusted or switched is on disk before the answer, and in force when it comes.
    """

    def __init__(
        self,
        *,
        reloader: Reloader,
        registry: Registry,
        flights: Flights,
        dispatcher: Dispatcher,
        calls: CallListener,
        grants: GrantStore,
        served: ServedStore,
        contents: ContentStore,
        events: EventLog,
        plugin_log: PluginLog,
        launcher: Launcher,
        metrics: Metrics,
        watcher: Watcher,
        lag: LoopLag,
        executor: Executor,
        clock: Clock,
        addresses: Sequence[str],
        work_tree: WorkTree,
        stop: Callable[[], None],
        serving: Callable[[bool], Awaitable[None]],
    ) -> None:
        """`serving` tells whoever watches the daemon's health whether it takes calls."""
        self._reloader = reloader
        self._registry = registry
        self._flights = flights
        self._dispatcher = dispatcher
        self._calls = calls
        self._grants = grants
        self._served = served
        self._contents = contents
        self._events = events
        self._plugin_log = plugin_log
        self._launcher = launcher
        self._metrics = metrics
        self._watcher = watcher
        self._lag = lag
        self._executor = executor
        self._clock = clock
        self._addresses = addresses
        self._work_tree = work_tree
        self._stop = stop
        self._serving = serving
        self._began = clock.monotonic()
        self._processes = ProcessTable()
        self._state = "starting"

    # The daemon's life tells of itself.

    def loaded(self) -> None:
        """The first pass has committed."""
        if self._state == "starting":
            self._state = "ready"

    def stopping(self) -> None:
        self._state = "stopping"

    def switched_off(self) -> dict[str, datetime]:
        """The tools that the operator switched off, and since when."""
        tools = self._grants.current.tools
        return {name: _time(each.at) for name, each in tools.items() if not each.enabled}

    # Health.

    def alive(self) -> bool:
        return True

    def readiness(self) -> tuple[bool, Mapping[str, object]]:
        """Ready: the first pass has committed and calls are taken."""
        waiting = [each.name for each in self._reloader.plugins() if each.standing.state == "pending"]
        reasons = [] if self._state == "ready" else [f"the daemon is {self._state}"]
        return not reasons, {
            "ready": not reasons,
            "generation": self._registry.catalogue.generation,
            "not_ready": reasons,
            "pending": waiting,
        }

    # What is.

    async def status(self) -> dict[str, object]:
        plan = self._reloader.plan
        configuration = plan.configuration if plan is not None else None
        catalogue = self._registry.catalogue
        states = Counter(self._registry.standing(entry).state.value for entry in catalogue.tools.values())
        plugins = self._reloader.plugins()
        children = self.children(plugins)
        loop = asyncio.get_running_loop()
        figures = await loop.run_in_executor(self._executor, self._processes.sample, children)
        last = self._reloader.last
        return {
            "version": __version__,
            "state": self._state,
            "pid": os.getpid(),
            "uptime_s": round(self._clock.monotonic() - self._began, 3),
            "revision": self._reloader.revision,
            "generation": catalogue.generation,
            "config_digest": configuration.digest if configuration is not None else "",
            "config_files": [str(each) for each in configuration.files] if configuration is not None else [],
            "git": await self._work_tree.state(),
            "reload": {
                "last_result": "" if last is None else "rejected" if last.rejected else "ok",
                "at": None if last is None else last.at,
                "rejected": [_plain(each) for each in self._reloader.rejections()],
            },
            "tools": dict(states),
            "plugins": plugins,
            "calls": {"inflight": len(self._flights), "total": self._calls.total},
            "processes": [asdict(each) for each in figures],
            "warnings": self._warnings(plugins),
            "threads": dict(Counter(_thread_group(each.name) for each in threading.enumerate())),
            "addresses": list(self._addresses),
        }

    async def effective_config(self) -> Sequence[EffectiveValue]:
        plan = self._reloader.plan
        values = plan.configuration.effective() if plan is not None else []
        return [*values, *self._granted_values()]

    async def dump_state(self) -> dict[str, object]:
        """Everything that helps to find a fault, for people: tasks, threads, children, calls, plugins."""
        now = self._clock.monotonic()
        tools = self._registry.catalogue.tools
        frames = sys._current_frames()
        return {
            "status": {key: value for key, value in (await self.status()).items() if key != "plugins"},
            "plugins": [_plain_status(each) for each in self._reloader.plugins()],
            "calls": [
                {"request_id": each.request_id, "tool": each.tool, "caller": each.caller.name,
                 "seconds": round(now - each.started, 3)}
                for each in self._flights
            ],
            "instances": [
                {"plugin": each.plugin, "digest": each.digest, "runs": each.runtime.kind,
                 "leases": each.leases, **asdict(each.runtime.vitals())}
                for each in {id(entry.instance): entry.instance for entry in tools.values()}.values()
                if each is not None
            ],
            "tasks": sorted(_task_name(each) for each in asyncio.all_tasks()),
            "threads": [
                {"name": each.name, "stack": _stack(frames.get(each.ident or 0))}
                for each in threading.enumerate()
            ],
            "children": [{"name": each.name, "pid": each.pid} for each in self._launcher.children()],
            "loop_lag_s": {"last": round(self._lag.last_lag, 4), "worst": round(self._lag.worst_lag, 4)},
        }  # fmt: skip

    # What the operator does.

    async def drain(self) -> None:
        if self._state == "ready":
            self._state = "draining"
            self._dispatcher.draining = True
            await self._serving(False)
            self._events.emit("daemon_draining", "", calls=len(self._flights))

    async def resume(self) -> None:
        if self._state == "stopping":
            raise PreconditionError("the daemon is stopping", remedy="start it again")
        if self._state == "draining":
            self._state = "ready"
            self._dispatcher.draining = False
            await self._serving(True)
            self._events.emit("daemon_resumed", "")

    async def shutdown(self) -> None:
        # After this answer has left: a stop that cuts its own asker would look like a failure.
        asyncio.get_running_loop().call_later(0.05, self._stop)

    async def trust_plugin(
        self, name: str, digest: str, isolation: str, follow: bool, caller: Caller
    ) -> PluginStatus:
        plugin = self._known(name)
        self._refuse_where_yaml_speaks(f"plugins.trusted.{name}", f"plugins.untrusted.{name}")
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
            raise PreconditionError(f"{name} cannot be read", remedy="mend what its rejection names")
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
        self._refuse_where_yaml_speaks(f"plugins.trusted.{name}")
        if self._grants.current.plugin(name).trust is None:
            raise PreconditionError(f"{name} is not trusted", remedy="hermesd ctl plugins list")
        work = partial(self._grants.untrust, name, by=caller.name)
        return await self._change(name, "plugin_untrusted", work, by=caller.name)

    async def grant_plugin(
        self, name: str, permissions: Mapping[str, object], caller: Caller
    ) -> PluginStatus:
        plugin = self._known(name)
        self._refuse_where_yaml_speaks(f"plugins.trusted.{name}.grant", f"plugins.untrusted.{name}.grant")
        granted = _union(self._granted(name, plugin), permissions)
        work = partial(self._grants.grant, name, granted, by=caller.name)
        return await self._change(name, "plugin_granted", work, by=caller.name)

    async def revoke_plugin(
        self, name: str, permissions: Mapping[str, object], caller: Caller
    ) -> PluginStatus:
        plugin = self._known(name)
        self._refuse_where_yaml_speaks(f"plugins.trusted.{name}.grant", f"plugins.untrusted.{name}.grant")
        left = _difference(self._granted(name, plugin), permissions) if permissions else {}
        work = partial(self._grants.grant, name, left, by=caller.name)
        return await self._change(name, "plugin_revoked", work, by=caller.name)

    async def set_plugin(self, name: str, enabled: bool, caller: Caller) -> PluginStatus:
        self._known(name)
        work = partial(self._grants.set_plugin, name, enabled=enabled, by=caller.name)
        kind = "plugin_enabled" if enabled else "plugin_disabled"
        return await self._change(name, kind, work, by=caller.name)

    async def set_tool(self, name: str, enabled: bool, caller: Caller) -> None:
        known = self._registry.catalogue.tools
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {', '.join(near)}?" if near else "hermesd ctl tools list"
            raise NotFoundError(f"there is no tool {name!r}", remedy=hint)
        await self._write(partial(self._grants.set_tool, name, enabled=enabled, by=caller.name))
        self._registry.switch_off(self.switched_off())
        self._events.emit("tool_enabled" if enabled else "tool_disabled", name, by=caller.name)

    async def rollback_plugin(self, name: str, digest: str, caller: Caller) -> PluginStatus:
        plugin = self._known(name)
        self._refuse_where_yaml_speaks(f"plugins.trusted.{name}")
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

    async def read_plugin_log(self, name: str, lines: int, follow: bool) -> AsyncIterator[PluginLogLine]:
        if not follow:
            for line in await self._plugin_log.tail(name, lines):
                yield line
            return
        async for line in self._plugin_log.follow(name, lines):
            yield line

    # How.

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

    def _refuse_where_yaml_speaks(self, *keys: str) -> None:
        plan = self._reloader.plan
        for key in keys:
            place = plan.configuration.place(key) if plan is not None else None
            if place is not None:
                raise PreconditionError(
                    f"{place.file}:{place.line} speaks of {key}, and the configuration wins",
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

    def _granted_values(self) -> list[EffectiveValue]:
        """What `ctl` said, where the configuration does not speak."""
        current = self._grants.current
        values = []
        for name, grant in sorted(current.plugins.items()):
            for part in ("trust", "enabled", "permissions", "pin"):
                said = getattr(grant, part)
                if said is not None:
                    plain = jsonable(
                        {key: getattr(said, key) for key in said.__slots__ if key not in ("by", "at")}
                    )
                    values.append(
                        EffectiveValue(f"state.plugins.{name}.{part}", plain, f"ctl, {said.by}, {said.at}")
                    )
        for name, switch in sorted(current.tools.items()):
            values.append(
                EffectiveValue(
                    f"state.tools.{name}.enabled", switch.enabled, f"ctl, {switch.by}, {switch.at}"
                )
            )
        return values

    def children(self, plugins: Sequence[PluginStatus] | None = None) -> dict[str, int]:
        """The process ids of the daemon's children, by the names that status and metrics show."""
        plugins = self._reloader.plugins() if plugins is None else plugins
        children = {f"plugin {each.name}": each.pid for each in plugins if each.pid}
        return {"launcher": self._launcher.pid, **children} if self._launcher.pid else children

    def _warnings(self, plugins: Sequence[PluginStatus]) -> list[dict[str, object]]:
        plan = self._reloader.plan
        running = {each.name for each in plugins if each.digest}
        warnings = (
            [_plain(each) for each in (*plan.notices, *(w for w in plan.waiting() if w.name in running))]
            if plan is not None
            else []
        )
        if (reason := self._watcher.degraded) is not None:
            warnings.append({"name": "watcher", "reason": reason})
        warnings.extend(
            {"name": each.name, "reason": f"{each.stray_threads} calls run on past their deadline",
             "remedy": "give it isolation: process"}
            for each in plugins if each.stray_threads
        )  # fmt: skip
        return warnings


def _plain(value: object) -> dict[str, object]:
    return asdict(value)  # type: ignore[call-overload, no-any-return] # rejections are dataclasses


def _plain_status(plugin: PluginStatus) -> dict[str, object]:
    plain = asdict(plugin)
    plain["standing"]["since"] = plugin.standing.since.isoformat()
    return plain


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _thread_group(name: str) -> str:
    """`plugin-time-3` and `plugin-time-4` are one pool."""
    return name.rstrip("0123456789").rstrip("-_") or name


def _task_name(task: asyncio.Task[object]) -> str:
    return task.get_name()


def _stack(frame: object) -> list[str]:
    if frame is None:
        return []
    return [f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_stack(frame)[-12:]]  # type: ignore[arg-type] # a frame of sys._current_frames


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
