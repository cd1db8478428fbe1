"""Which tools of a plugin lack something that they need: looked at when it is prepared and by each pass."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping

from hermesd.clock import Clock
from hermesd.model.definition import Parsed
from hermesd.model.status import Standing, State
from hermesd.reload.goal import Run
from hermesd.reload.owner import Owner
from hermesd.runtimes.requirement import Surroundings
from hermesd.runtimes.thread import run_in_thread
from hermesd.runtimes.worker_process import PASSED

#: A file on a share that does not answer must not hold up a reload.
LOOK_S = 5.0


async def unmet_tools(
    run: Run, tools: Mapping[str, Parsed], clock: Clock, before: Mapping[str, Standing] | None = None
) -> dict[str, Standing]:
    """The tools that cannot work as things are, each with what is missing and what to do.

    `before` is what was found last: `since` moves only when the reason does.
    """
    required = {name: each.definition.requires for name, each in tools.items() if each.definition.requires}
    if not required:
        return {}
    found: dict[str, tuple[str, str]] = {}

    def look() -> dict[str, tuple[str, str]]:
        around = Surroundings(run.spec, _environ(run))
        return {name: each for name, checks in required.items() if (each := around.first_lacking(checks))}

    try:
        found = await run_in_thread(look, f"requires-{run.spec.name}", LOOK_S)
    except TimeoutError:
        late = f"what it requires could not be looked at within {LOOK_S:g} s"
        found = dict.fromkeys(required, (late, "see whether its files and commands can be reached"))
    now = clock.now()
    known = before or {}
    return {
        name: known[name]
        if name in known and known[name].reason == reason
        else Standing(State.UNAVAILABLE, now, reason, remedy)
        for name, (reason, remedy) in found.items()
    }


async def look_again(owners: Iterable[Owner], clock: Clock) -> list[str]:
    """Bring what the serving instances lack up to date; the names of the plugins where that changed."""
    return [name for name in await asyncio.gather(*(_look_again(each, clock) for each in owners)) if name]


async def _look_again(owner: Owner, clock: Clock) -> str:
    instance, run = owner.instance, owner.run
    if instance is None or run is None or instance.key != run.key:
        return ""
    unmet = await unmet_tools(run, instance.tools, clock, instance.unmet)
    if unmet == instance.unmet:
        return ""
    instance.unmet = unmet
    return owner.name


def _environ(run: Run) -> Mapping[str, str]:
    """The variables that the plugin's code has."""
    if run.where == "inprocess":
        return os.environ
    return {name: os.environ[name] for name in PASSED if name in os.environ}
