"""From a run to an instance that is ready to serve; a failure on the way leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hermesd.clock import Clock
from hermesd.errors import PluginError, Rejection
from hermesd.model.definition import Parsed, parse_definition
from hermesd.model.name import domain_of
from hermesd.reload.availability import unmet_tools
from hermesd.reload.goal import Goal, Run
from hermesd.runtimes.runtime import Prepared, Runtime
from hermesd.serving.instance import Instance

RuntimeFactory = Callable[[Run], Runtime]
#: Preparations that work at once. One that takes longer than `TURN_S` gives its turn to the next, so
#: that plugins which never become ready do not hold up the others.
TURNS = 3
TURN_S = 0.2


@dataclass(frozen=True, slots=True)
class Made:
    """What a preparation came to: an instance of `run`, or failures, or both with an older `run`."""

    run: Run
    instance: Instance | None
    failures: tuple[Rejection, ...] = ()


@dataclass(slots=True, eq=False)
class Preparation:
    """One plugin on its way; `task` ends when it is ready to serve or has failed."""

    goal: Goal
    run: Run
    task: asyncio.Task[Made] = field(init=False)
    tools: Mapping[str, Parsed] = field(default_factory=dict)
    waits_for: frozenset[str] = frozenset()


class Preparer:
    """Makes instances. Plugins that depend on each other's tools become ready in that order."""

    def __init__(self, make_runtime: RuntimeFactory, clock: Clock) -> None:
        self._make_runtime = make_runtime
        self._clock = clock
        self._turns = asyncio.Semaphore(TURNS)

    async def prepare(
        self,
        preparation: Preparation,
        run: Run,
        others: Mapping[str, Preparation],
        *,
        make_way: Callable[[], Awaitable[None]] | None = None,
        rehearse: bool = False,
    ) -> Instance:
        """Load, describe, check, wait for what it depends on among `others`, make way, and start.

        `make_way` ends what cannot stand beside the new instance; it runs only when that is known to load.
        `rehearse` stops before both. Raises PluginError; then the runtime has been closed.
        """
        runtime = self._make_runtime(run)
        try:
            async with self._turn():
                prepared = await runtime.prepare()
                preparation.tools = parse_tools(run, prepared)
                unmet = await unmet_tools(run, preparation.tools, self._clock)
            if not rehearse:
                await self._wait_for_dependencies(preparation, others)
                if make_way is not None:
                    await make_way()
                await runtime.ready()
        except PluginError as error:
            await runtime.close()
            raise PluginError([_placed(each, preparation.goal) for each in error.rejections]) from error
        except BaseException:
            await runtime.close()
            raise
        instance = Instance(
            run.spec.name,
            run.key,
            run.spec.digest,
            runtime,
            preparation.tools,
            clock=self._clock,
            calls=run.calls,
        )
        instance.unmet = unmet
        return instance

    async def _wait_for_dependencies(
        self, preparation: Preparation, others: Mapping[str, Preparation]
    ) -> None:
        own = preparation.goal.name
        needed = {
            domain_of(tool) for parsed in preparation.tools.values() for tool in parsed.definition.depends_on
        } - {own}
        preparation.waits_for = frozenset(needed & others.keys())
        waits = [
            others[name].task
            for name in sorted(preparation.waits_for)
            if not _leads_back(name, own, others) and not others[name].task.done()
        ]
        if waits:
            await asyncio.wait(waits)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        await self._turns.acquire()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._turns.release()

        timer = asyncio.get_running_loop().call_later(TURN_S, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()


def _placed(rejection: Rejection, goal: Goal) -> Rejection:
    """The fault as the operator finds it: by the plugin's name, in the file that is his own.

    A runtime knows the plugin's files only relative to its folder, from its copy in the store.
    """
    file, home = rejection.file, Path(goal.path)
    if file and goal.origin != "entry_point":
        file = str((home.parent if goal.origin == "file" else home) / file)
    return replace(rejection, name=goal.name, file=file)


def _leads_back(name: str, own: str, others: Mapping[str, Preparation]) -> bool:
    """Whether `name` already waits, however indirectly, for `own`: waiting for it too would never end."""
    seen: set[str] = set()
    stack = [name]
    while stack:
        each = stack.pop()
        if each == own:
            return True
        if each not in seen and each in others:
            seen.add(each)
            stack.extend(others[each].waits_for)
    return False


def parse_tools(run: Run, prepared: Prepared) -> dict[str, Parsed]:
    """The definitions of a plugin, checked as a whole. Raises PluginError with every fault of every tool."""
    spec = run.spec
    tools: dict[str, Parsed] = {}
    rejections: list[Rejection] = []
    for raw in prepared.tools:
        name = str(raw.get("name", ""))
        file, line = prepared.places.get(name, ("", 0))
        if name in tools:
            rejections.append(
                Rejection(spec.name, f"tool {name!r} is defined twice", "rename one", file, line)
            )
            continue
        try:
            tools[name] = parse_definition(
                raw,
                plugin=spec.name,
                version=spec.version,
                file=file,
                line=line,
                budget=(run.description_chars.warn, run.description_chars.max),
            )
        except PluginError as error:
            rejections.extend(error.rejections)
    if rejections:
        raise PluginError(rejections)
    return tools
