"""A preparation ends ready to serve, or as if it had never been."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.errors import PluginError, Rejection
from hermesd.reload import preparation as preparation_module
from hermesd.reload.goal import Goal, Run
from hermesd.reload.preparation import TURNS, Preparation, Preparer
from tests.core_doubles import ANYTHING, FakeRuntime, SetClock, raw_tool, settle, spec


def run_of(name: str) -> Run:
    return Run(spec(name), "inprocess", name)


def preparation_of(name: str) -> Preparation:
    return Preparation(Goal(name, "1.0.0", "folder", "", name), run_of(name))


class Workshop:
    """Prepares one plugin from a fake runtime that the test may bend."""

    def __init__(self, *tools: str) -> None:
        self.runtime = FakeRuntime(
            spec("orders"), tuple(raw_tool(each, parameters=ANYTHING) for each in tools)
        )
        self.preparer = Preparer(lambda _: self.runtime, SetClock())

    async def prepare(self, **how: bool) -> object:
        each = preparation_of("orders")
        return await self.preparer.prepare(each, each.run, {}, **how)  # type: ignore[arg-type]


async def test_what_is_prepared_is_ready_and_open() -> None:
    w = Workshop("orders.do_it")
    await w.prepare()
    assert [each.split()[0] for each in w.runtime.history] == ["prepare", "ready"]


async def test_a_rehearsal_stops_before_it_starts_anything() -> None:
    w = Workshop("orders.do_it")
    await w.prepare(rehearse=True)
    assert [each.split()[0] for each in w.runtime.history] == ["prepare"]


@pytest.mark.parametrize("stage", ["prepare_error", "ready_error"])
@pytest.mark.parametrize(
    "error", [PluginError([Rejection("orders", "no")]), RuntimeError("x"), SystemExit(1)]
)
async def test_whatever_fails_is_closed_once(stage: str, error: BaseException) -> None:
    w = Workshop("orders.do_it")
    setattr(w.runtime, stage, error)
    with pytest.raises(type(error)):
        await w.prepare()
    assert w.runtime.closed == 1


async def test_what_is_called_off_is_closed() -> None:
    w = Workshop("orders.do_it")
    w.runtime.ready_gate = asyncio.Event()
    task = asyncio.create_task(w.prepare())
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert w.runtime.closed == 1


async def test_a_registration_that_is_wrong_in_one_tool_is_wrong_as_a_whole() -> None:
    w = Workshop("orders.do_it", "stock.do_it", "orders.do_it")
    with pytest.raises(PluginError) as caught:
        await w.prepare()
    told = " ".join(str(each) for each in caught.value.rejections)
    assert "stock.do_it" in told
    assert "twice" in told
    assert w.runtime.closed == 1


async def test_one_that_takes_long_gives_its_turn_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """dify-plugin-daemon#336: as many that never become ready as there are turns, and one that does."""
    monkeypatch.setattr(preparation_module, "TURN_S", 0.01)
    gate = asyncio.Event()
    runtimes: dict[str, FakeRuntime] = {}

    def make(run: Run) -> FakeRuntime:
        runtime = runtimes[run.spec.name] = FakeRuntime(run.spec, ())
        if run.spec.name.startswith("slow"):
            runtime.prepare_gate = gate
        return runtime

    preparer = Preparer(make, SetClock())
    slow = [preparation_of(f"slow{number}") for number in range(TURNS)]
    tasks = [asyncio.create_task(preparer.prepare(each, each.run, {})) for each in slow]
    await settle()
    quick = preparation_of("quick")
    async with asyncio.timeout(5):
        await preparer.prepare(quick, quick.run, {})
    assert not any(each.done() for each in tasks)
    gate.set()
    await asyncio.gather(*tasks)


async def test_no_more_than_the_turns_prepare_at_once() -> None:
    gate, preparing = asyncio.Event(), list[str]()

    def make(run: Run) -> FakeRuntime:
        runtime = FakeRuntime(run.spec, (), history=preparing)
        runtime.prepare_gate = gate
        return runtime

    preparer = Preparer(make, SetClock())
    all_of_them = [preparation_of(f"p{number}") for number in range(TURNS + 5)]
    tasks = [asyncio.create_task(preparer.prepare(each, each.run, {})) for each in all_of_them]
    await settle()
    assert len(preparing) == TURNS
    gate.set()
    await asyncio.gather(*tasks)
