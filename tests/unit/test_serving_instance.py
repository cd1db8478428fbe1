"""An instance knows who holds it and since when it has stood as it stands."""

from __future__ import annotations

import asyncio

import pytest

from hermesd.model.status import State
from hermesd.serving.instance import Instance
from tests.core_doubles import FakeRuntime, SetClock, settle, spec


def make(runtime: FakeRuntime, clock: SetClock) -> Instance:
    return Instance("orders", "key", "digest", runtime, {}, clock=clock)


async def test_it_is_idle_when_the_last_lease_ends() -> None:
    instance = make(FakeRuntime(spec()), SetClock())
    with instance.lease():
        with pytest.raises(ZeroDivisionError), instance.lease():
            _ = 1 / 0
        waiting = asyncio.create_task(instance.idle())
        await settle()
        assert (instance.leases, waiting.done()) == (1, False)
    await waiting


def test_since_moves_only_when_the_reason_does() -> None:
    runtime, clock = FakeRuntime(spec()), SetClock()
    instance = make(runtime, clock)
    began = instance.standing().since
    clock.at += 5
    assert instance.standing().since == began
    runtime.refusal = ("down", "up")
    broken = instance.standing()
    assert (broken.state, broken.reason, broken.remedy) == (State.UNAVAILABLE, "down", "up")
    assert broken.since > began
    clock.at += 5
    assert instance.standing().since == broken.since
