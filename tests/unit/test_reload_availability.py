"""A tool that lacks something is unavailable and says so; each reload looks again, whatever else changed."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermesd.clock import Clock
from hermesd.model.status import State
from hermesd.reload import availability
from hermesd.reload.availability import unmet_tools
from hermesd.reload.goal import Run
from hermesd.reload.preparation import parse_tools
from hermesd.runtimes.runtime import Prepared
from tests.core_doubles import SetClock, raw_tool, spec
from tests.reload_doubles import World, world


@pytest.fixture
async def w() -> AsyncIterator[World]:
    async with world() as made:
        yield made


def needing(*needs: dict[str, str]) -> tuple[dict[str, object], ...]:
    return (raw_tool("a.do_it", requires=list(needs)), raw_tool("a.do_more"))


def run_and_tools(where: Any, *needs: dict[str, str]) -> tuple[Run, Any]:
    run = Run(spec("a"), where, "a")
    return run, parse_tools(run, Prepared(needing(*needs), {}))


def standing(w: World, tool: str) -> Any:
    return w.registry.standing(w.registry.catalogue.tools[tool])


@pytest.mark.promise("DEF-3")
async def test_what_comes_and_goes_is_seen_by_the_next_reload(w: World, tmp_path: Path) -> None:
    needed = tmp_path / "model.bin"
    w.put("a", "1", tools=needing({"file": str(needed), "remedy": "download it"}))
    w.put("b", "1")
    await w.reload()
    missing = standing(w, "a.do_it")
    assert (missing.state, missing.remedy) == (State.UNAVAILABLE, "download it")
    assert "model.bin does not exist" in missing.reason
    assert standing(w, "a.do_more").state is State.READY
    plugin = w.status("a").standing
    assert plugin.state is State.DEGRADED
    assert "1 of 2 tools cannot work: a.do_it" in plugin.reason

    w.clock.at += 60
    await w.reload()
    assert standing(w, "a.do_it") == missing, "since is when it began"

    needed.touch()
    w.history.clear()
    before, generation = w.registry.last_seq, w.registry.catalogue.generation
    await w.reload(name="b")
    assert standing(w, "a.do_it").state is State.UNAVAILABLE, "that reload was of another plugin"
    await w.reload()
    assert standing(w, "a.do_it").state is State.READY
    assert w.status("a").standing.state is State.READY
    assert w.history == [], "nothing was loaded anew"
    assert w.registry.catalogue.generation == generation
    changes = w.registry.watch(before)
    assert (await anext(changes)).kind == "state"
    assert ("plugin_state", "a") in w.heard.told

    needed.unlink()
    await w.reload()
    assert standing(w, "a.do_it").state is State.UNAVAILABLE


@pytest.mark.promise("DEF-3")
async def test_a_worker_sees_no_variable_but_those_that_it_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_TOKEN", "x")
    for where, lacking in (("inprocess", []), ("worker", ["a.do_it"])):
        run, tools = run_and_tools(where, {"env": "ORDERS_TOKEN"}, {"env": "PATH"})
        assert list(await unmet_tools(run, tools, SetClock())) == lacking


async def test_a_look_that_does_not_end_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(availability, "LOOK_S", 0.01)
    monkeypatch.setattr(availability.Surroundings, "first_lacking", lambda *_: go.wait(5))
    run, tools = run_and_tools("inprocess", {"file": "/slow/share"})
    clock: Clock = SetClock()
    found = await unmet_tools(run, tools, clock)
    go.set()
    assert "could not be looked at within" in found["a.do_it"].reason


async def test_a_tool_past_its_last_day_is_a_warning(w: World) -> None:
    gone = raw_tool("a.do_it", deprecated={"use": "a.do_more", "remove_after": "2029-12-31"})
    soon = raw_tool("a.do_more", deprecated={"use": "a.do_it", "remove_after": "2031-12-31"})
    w.put("a", "1", tools=(gone, soon))
    await w.reload()
    warnings = [each for each in w.status("a").warnings if "that day is over" in each]
    assert len(warnings) == 1
    assert warnings[0].startswith("a.do_it: deprecated; use a.do_more in its place")
