"""One pointer, swapped whole; watchers see every change in order or are told that they fell behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from hermesd.errors import FellBehindError
from hermesd.model.definition import parse_definition
from hermesd.model.status import Standing, State
from hermesd.serving import registry as registry_module
from hermesd.serving.catalogue import Catalogue, Entry, Slice
from hermesd.serving.instance import Instance
from hermesd.serving.registry import Registry, ToolChange
from tests.core_doubles import FakeRuntime, SetClock, raw_tool, spec

AT = datetime(2030, 1, 1, tzinfo=UTC)


def fixed(
    *names: str, owner: str = "", state: State = State.UNAVAILABLE, reason: str = "why", **more: object
) -> Slice:
    made = {}
    for name in names:
        plugin = owner or name.partition(".")[0]
        definition = parse_definition(
            raw_tool(name, **more), plugin=name.partition(".")[0], version="1.0.0"
        ).definition
        made[name] = Entry(definition, plugin, "python", AT, fixed=Standing(state, AT, reason))
    return made


def living(name: str, runtime: FakeRuntime) -> Slice:
    plugin = name.partition(".")[0]
    parsed = parse_definition(raw_tool(name), plugin=plugin, version="1.0.0")
    instance = Instance(plugin, "key", "digest", runtime, {name: parsed}, clock=SetClock())
    return {name: Entry(parsed.definition, plugin, "python", AT, parsed.schema, instance)}


async def take(changes: AsyncIterator[ToolChange], count: int) -> list[tuple[str, str]]:
    found = []
    async with asyncio.timeout(5):
        while len(found) < count:
            change = await anext(changes)
            found.append((change.kind, change.name))
    return found


def test_a_catalogue_never_changes_under_its_reader() -> None:
    registry = Registry()
    registry.commit({"a": fixed("a.one_thing")})
    before = registry.catalogue
    registry.commit({"a": None, "b": fixed("b.one_thing")})
    assert (list(before.tools), before.generation) == (["a.one_thing"], 1)
    assert (list(registry.catalogue.tools), registry.catalogue.generation) == (["b.one_thing"], 2)
    with pytest.raises(TypeError):
        before.tools["x"] = before.tools["a.one_thing"]  # type: ignore[index]


def test_a_commit_that_collides_changes_nothing() -> None:
    registry = Registry()
    registry.commit({"a": fixed("a.one_thing")})
    with pytest.raises(ValueError, match="claimed"):
        registry.commit({"a": None, "b": fixed("b.one_thing"), "c": fixed("b.one_thing", owner="c")})
    assert (list(registry.catalogue.tools), registry.catalogue.generation) == (["a.one_thing"], 1)
    assert registry.last_seq == 1


def test_untouched_slices_keep_their_identity() -> None:
    registry = Registry()
    registry.commit({"a": fixed("a.one_thing"), "b": fixed("b.one_thing")})
    kept = registry.catalogue.slices["b"]
    registry.commit({"a": fixed("a.other_thing")})
    assert registry.catalogue.slices["b"] is kept


def test_tools_are_listed_by_name() -> None:
    after = Catalogue.empty().with_slices({"b": fixed("b.z_y", "b.a_b"), "a": fixed("a.z_y")})
    assert list(after.tools) == ["a.z_y", "b.a_b", "b.z_y"]


@pytest.mark.promise("CORE-17")
async def test_a_watch_sees_each_change_in_order() -> None:
    registry = Registry()
    changes = registry.watch()
    registry.commit({"a": fixed("a.one_thing", "a.two_things")})
    registry.commit({"a": fixed("a.one_thing", description="other")})
    registry.commit({"a": None})
    assert await take(changes, 5) == [
        ("added", "a.one_thing"),
        ("added", "a.two_things"),
        ("changed", "a.one_thing"),
        ("removed", "a.two_things"),
        ("removed", "a.one_thing"),
    ]


async def test_a_watch_resumes_after_what_was_seen() -> None:
    registry = Registry()
    registry.commit({"a": fixed("a.one_thing", "a.two_things")})
    assert await take(registry.watch(1), 1) == [("added", "a.two_things")]
    assert await take(registry.watch(0), 2) == [("added", "a.one_thing"), ("added", "a.two_things")]


async def test_a_watch_waits_for_what_comes() -> None:
    registry = Registry()
    pending = asyncio.ensure_future(anext(registry.watch()))
    await asyncio.sleep(0)
    assert not pending.done()
    registry.commit({"a": fixed("a.one_thing")})
    assert (await pending).name == "a.one_thing"


@pytest.mark.parametrize("after", [0, 9])
async def test_a_watch_that_fell_behind_or_comes_from_another_life_is_told(
    after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "KEPT_CHANGES", 2)
    registry = Registry()
    registry.commit({"a": fixed("a.b_a", "a.b_b", "a.b_c")})
    with pytest.raises(FellBehindError):
        await anext(registry.watch(after))


async def test_a_slow_watcher_is_told_when_it_is_lapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "KEPT_CHANGES", 2)
    registry = Registry()
    changes = registry.watch()
    registry.commit({"a": fixed("a.b_a")})
    await anext(changes)
    registry.commit({"a": fixed("a.c_a", "a.c_b", "a.c_c")})
    with pytest.raises(FellBehindError):
        await anext(changes)


@pytest.mark.promise("CORE-17")
async def test_every_change_of_a_tools_state_is_told() -> None:
    registry = Registry()
    registry.commit({"a": fixed("a.one_thing", reason="not trusted")})
    changes = registry.watch()
    registry.commit({"a": fixed("a.one_thing", reason="not trusted")})
    registry.commit({"a": fixed("a.one_thing", reason="switched off", state=State.DISABLED)})
    registry.commit({"a": living("a.one_thing", FakeRuntime(spec("a")))})
    registry.switch_off({"a.one_thing": AT})
    registry.switch_off({"a.one_thing": AT})
    registry.switch_off({})
    registry.state_changed("a")
    assert await take(changes, 5) == [("state", "a.one_thing")] * 5
    assert registry.last_seq == 6


async def test_a_mended_instance_in_the_place_of_a_failing_one_is_told() -> None:
    registry = Registry()
    failing = FakeRuntime(spec("a"))
    registry.commit({"a": living("a.one_thing", failing)})
    failing.refusal = ("stuck", "reload")
    changes = registry.watch()
    registry.commit({"a": living("a.one_thing", FakeRuntime(spec("a")))})
    assert await take(changes, 1) == [("state", "a.one_thing")]


async def test_what_becomes_blocked_or_free_by_another_plugin_is_told() -> None:
    registry = Registry()
    needy = parse_definition(raw_tool("a.one_thing", depends_on=["b.one_thing"]), plugin="a", version="1.0.0")
    runtime = FakeRuntime(spec("a"))
    instance = Instance("a", "key", "digest", runtime, {}, clock=SetClock())
    entry = Entry(needy.definition, "a", "python", AT, needy.schema, instance)
    registry.commit({"a": {"a.one_thing": entry}})
    assert registry.standing(entry).state is State.UNAVAILABLE
    changes = registry.watch()
    registry.commit({"b": living("b.one_thing", FakeRuntime(spec("b")))})
    assert await take(changes, 2) == [("added", "b.one_thing"), ("state", "a.one_thing")]
    assert registry.standing(entry).state is State.READY
