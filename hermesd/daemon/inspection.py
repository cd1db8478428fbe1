"""What the daemon says of itself: health, status, configuration in force, everything for finding a fault."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from types import FrameType

from hermesd.clock import Clock
from hermesd.config.effective import EffectiveValue, jsonable
from hermesd.daemon.git import WorkTree
from hermesd.daemon.lifecycle import Lifecycle
from hermesd.daemon.listener import CallListener
from hermesd.daemon.source_watch import SourceWatch
from hermesd.errors import Rejection
from hermesd.model.status import PluginStatus
from hermesd.reload.reloader import Reloader
from hermesd.serving.circuit import Circuits
from hermesd.serving.confirmation import Confirmations
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.registry import Registry
from hermesd.store.grants import Grants, GrantStore
from hermesd.supervise.launcher import Launcher
from hermesd.telemetry.lag import LoopLag
from hermesd.telemetry.plugin_log import PluginLog, PluginLogLine
from hermesd.telemetry.process import ProcessTable
from hermesd.version import __version__

#: How much of each thread's stack a dump shows, in frames.
STACK_FRAMES = 12


class Inspection:
    """Changes nothing. Figures that need the system's answer are taken on `executor`."""

    def __init__(
        self,
        *,
        lifecycle: Lifecycle,
        reloader: Reloader,
        registry: Registry,
        flights: Flights,
        dispatcher: Dispatcher,
        calls: CallListener,
        confirmations: Confirmations,
        circuits: Circuits,
        grants: GrantStore,
        plugin_log: PluginLog,
        launcher: Launcher,
        watch: SourceWatch,
        lag: LoopLag,
        executor: Executor,
        clock: Clock,
        addresses: Sequence[str],
        agents_addresses: Callable[[], Sequence[str]],
        address_faults: Callable[[], Sequence[Rejection]],
        lost_addresses: Callable[[], Sequence[object]],
        work_tree: WorkTree,
        store_faults: Callable[[], Sequence[Rejection]],
    ) -> None:
        self._lifecycle = lifecycle
        self._reloader = reloader
        self._registry = registry
        self._flights = flights
        self._dispatcher = dispatcher
        self._calls = calls
        self._confirmations = confirmations
        self._circuits = circuits
        self._grants = grants
        self._plugin_log = plugin_log
        self._launcher = launcher
        self._watch = watch
        self._lag = lag
        self._executor = executor
        self._clock = clock
        self._addresses = addresses
        self._agents_addresses = agents_addresses
        self._address_faults = address_faults
        self._lost_addresses = lost_addresses
        self._work_tree = work_tree
        self._store_faults = store_faults
        self._began = clock.monotonic()
        self._processes = ProcessTable()

    def alive(self) -> bool:
        return True

    def readiness(self) -> tuple[bool, Mapping[str, object]]:
        """Ready: the first pass has committed, calls are taken, every socket is where it should be, and
        what must be written can be."""
        waiting = [each.name for each in self._reloader.plugins() if each.standing.state == "pending"]
        phase = self._lifecycle.phase
        reasons = [] if phase == "ready" else [f"the daemon is {phase}"]
        reasons.extend(f"the socket of {each} was removed" for each in self._lost_addresses())
        reasons.extend(f"the store cannot be written: {each.reason}" for each in self._store_faults())
        return not reasons, {
            "ready": not reasons,
            "generation": self._registry.catalogue.generation,
            "not_ready": reasons,
            "pending": waiting,
        }

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
            "state": self._lifecycle.phase,
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
            "calls": {
                "inflight": len(self._flights),
                "total": self._calls.total,
                "waiting": self._dispatcher.waiting(),
            },
            "crowded": [asdict(each) for each in self._dispatcher.crowded()],
            "processes": [asdict(each) for each in figures],
            "warnings": self._warnings(plugins),
            "threads": dict(Counter(_thread_group(each.name) for each in threading.enumerate())),
            "addresses": list(self._addresses),
            "confirmations": self._confirmations.awaiting_operator,
            "agents_addresses": list(self._agents_addresses()),
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
            "circuits": [
                {"kind": each.kind, "name": each.name, "reason": each.reason,
                 "state": each.state.name.lower() if each.state is not None else ""}
                for each in self._circuits.open_circuits()
            ],
            "tasks": sorted(each.get_name() for each in asyncio.all_tasks()),
            "threads": [
                {"name": each.name, "stack": _stack(frames.get(each.ident or 0))}
                for each in threading.enumerate()
            ],
            "children": [{"name": each.name, "pid": each.pid} for each in self._launcher.children()],
            "loop_lag_s": {"last": round(self._lag.last_lag, 4), "worst": round(self._lag.worst_lag, 4)},
        }  # fmt: skip

    async def read_plugin_log(self, name: str, lines: int, follow: bool) -> AsyncIterator[PluginLogLine]:
        if not follow:
            for line in await self._plugin_log.tail(name, lines):
                yield line
            return
        async for line in self._plugin_log.follow(name, lines):
            yield line

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
        values.extend(_granted_agents(current))
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
        warnings.extend(_plain(each) for each in (*self._address_faults(), *self._store_faults()))
        if (reason := self._watch.degraded) is not None:
            warnings.append({"name": "watcher", "reason": reason})
        warnings.extend(
            {"name": each.name, "reason": f"{each.stray_threads} calls run on past their deadline",
             "remedy": "give it isolation: process"}
            for each in plugins if each.stray_threads
        )  # fmt: skip
        return warnings


def _granted_agents(grants: Grants) -> Iterator[EffectiveValue]:
    for name, agent in sorted(grants.agents.items()):
        said: dict[str, object] = {
            "roles": agent.roles, "tools.allow": agent.allow, "tools.deny": agent.deny,
            "ceiling": agent.ceiling, "self_confirm": agent.self_confirm, "expires": agent.expires or None,
        }  # fmt: skip
        for key, value in said.items():
            origin = f"ctl, {agent.by}, {agent.at}"
            yield EffectiveValue(f"state.agents.{name}.{key}", jsonable(value), origin)


def _plain(rejection: Rejection) -> dict[str, object]:
    return asdict(rejection)


def _plain_status(plugin: PluginStatus) -> dict[str, object]:
    plain = asdict(plugin)
    plain["standing"]["since"] = plugin.standing.since.isoformat()
    return plain


def _thread_group(name: str) -> str:
    """`plugin-time-3` and `plugin-time-4` are one pool."""
    return name.rstrip("0123456789").rstrip("-_") or name


def _stack(frame: FrameType | None) -> list[str]:
    frames = traceback.extract_stack(frame)[-STACK_FRAMES:] if frame is not None else []
    return [f"{each.filename}:{each.lineno} {each.name}" for each in frames]
