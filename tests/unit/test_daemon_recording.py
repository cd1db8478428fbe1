"""The recorder, its files and the configuration together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesd.config.configuration import CallLog, Configuration, RecordsKept, Telemetry
from hermesd.config.load import load_configuration
from hermesd.daemon.recording import Recording
from hermesd.model.call import Caller, Rights
from hermesd.model.record import CallFilter
from hermesd.store.layout import DataDir
from hermesd.telemetry.event import EventLog
from tests.core_doubles import OPERATOR, Served, answer, raw_tool, settle

SECRET = "correct horse battery"


class Whole:
    """A dispatcher whose calls are recorded below `root`."""

    def __init__(self, root: Path) -> None:
        self.layout = DataDir(root)
        self.layout.prepare()
        self.served = Served()
        self.configuration: Configuration = load_configuration(None, environ={}, overrides={})
        self.dropped = 0
        self.recording = Recording(
            self.layout,
            self.layout.logs,
            configuration=lambda: self.configuration,
            events=EventLog(self.served.clock),
            clock=self.served.clock,
            dropped=self.drop,
        )
        self.served.told.finished = self.recording.take  # type: ignore[method-assign]
        self.recording.serve(self.served.dispatcher, self.served.registry, self.served.flights)
        self.served.offer(raw_tool("orders.say_it", side_effects="read"), raw_tool("orders.nobody"))

    def drop(self, count: int) -> None:
        self.dropped += count

    def configure(self, digest: str, secrets: dict[str, str] | None = None, **telemetry: Any) -> None:
        self.configuration = replace(
            self.configuration, digest=digest, secrets=secrets or {}, telemetry=Telemetry(**telemetry)
        )

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in (self.layout.logs / "calls.jsonl").read_text().splitlines()]


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    made = Whole(tmp_path / "data")
    yield made
    made.recording.close(5)


@pytest.mark.promise("REC-1")
async def test_a_secret_of_the_configuration_is_in_no_record_whoever_says_it(whole: Whole) -> None:
    whole.configure("one", {"ORDERS": SECRET}, call_log=CallLog(content=True))
    await whole.served.call("orders.say_it", json.dumps({"text": f"it is {SECRET}!"}))
    await whole.served.call(f"orders.{SECRET}", "{}", metadata={"note": SECRET})
    records = await whole.recording.page(OPERATOR, CallFilter(), 10, None)
    assert [each.code for _, each in records] == ["UNKNOWN_TOOL", "OK"]
    assert json.loads(records[1][1].arguments) == {"text": "it is ***!"}
    whole.recording.close(5)
    for path in (*whole.layout.store.iterdir(), *whole.layout.logs.iterdir()):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


@pytest.mark.promise("REC-1")
async def test_the_settings_of_the_call_log_are_asked_for_every_batch(whole: Whole) -> None:
    async def call() -> dict[str, Any]:
        await whole.served.call("orders.say_it", '{"nickname": "Ann"}')
        await whole.recording.page(OPERATOR, CallFilter(), 1, None)
        return whole.log()[-1]

    assert "arguments" not in await call()
    whole.configure("two", call_log=CallLog(content=True))
    assert json.loads((await call())["arguments"]) == {"nickname": "Ann"}
    whole.configure("three", call_log=CallLog(content=True, redact=("nick*",)))
    assert json.loads((await call())["arguments"]) == {"nickname": "[redacted]"}
    whole.configure("four", call_log=CallLog(max_mb=0, keep=1))
    await call()
    await call()
    assert [len(each.read_text().splitlines()) for each in sorted(whole.layout.logs.glob("calls*"))] == [1, 1]


@pytest.mark.promise("REC-9")
async def test_a_sweep_keeps_to_the_settings(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, int]] = []
    monkeypatch.setattr(whole.recording._store, "sweep", lambda *bounds: asked.append(bounds))
    whole.configure("two", records=RecordsKept(keep_days=7, max_mb=3))
    whole.recording.sweep()
    [(moment, size)] = asked
    assert (whole.served.clock.now() - moment).days == 7
    assert size == 3 * 1024 * 1024


@pytest.mark.promise("REC-8")
async def test_an_owner_finds_its_own_calls_alone_in_flight_and_ended(whole: Whole) -> None:
    # Called like the operator, and another one all the same.
    ann, other = Caller("ann", "agent"), Caller("operator", "agent")
    await whole.served.call("orders.made_up", caller=ann, request_id="a-1")
    assert await whole.recording.find(ann, "a-1") is not None
    assert await whole.recording.find(OPERATOR, "a-1") is not None
    assert await whole.recording.find(other, "a-1") is None
    assert (await whole.recording.stats(ann, CallFilter())).calls == 1
    assert (await whole.recording.stats(other, CallFilter())).calls == 0

    seen: list[Any] = []

    async def look(invocation: Any) -> Any:
        for caller in (OPERATOR, ann, other):
            seen.append(await whole.recording.find(caller, invocation.request_id))
            seen.append(whole.recording.in_flight(caller, CallFilter()))
        return await answer(invocation)

    whole.served.offer(raw_tool("watch.it_all", side_effects="read"), handler=look)
    await whole.served.call("watch.it_all", request_id="w-1")
    assert [bool(each) for each in seen] == [True, True, False, False, False, False]
    assert (seen[0].code, seen[0].attempts, seen[0].request_id) == ("", 1, "w-1")


@pytest.mark.promise("REC-8")
async def test_a_plugin_reads_no_records_whoever_it_acts_for(whole: Whole) -> None:
    await whole.served.call("orders.say_it", request_id="o-1")
    plugin = Caller("text", "plugin", calls=("*",), on_behalf_of=OPERATOR)
    assert await whole.recording.find(plugin, "o-1") is None
    assert await whole.recording.page(plugin, CallFilter(), 10, None) == []
    assert (await whole.recording.stats(plugin, CallFilter())).calls == 0


@pytest.mark.promise("REC-10")
async def test_an_agent_hears_of_no_name_that_only_a_plugin_said(whole: Whole) -> None:
    """What a tool tries to call for an agent that may not see it is no call that the agent knows of."""

    async def call_others(invocation: Any) -> Any:
        for name in ("orders.say_it", "orders.nobody", "orders.made_up"):
            await invocation.call(name, {})
        flying.append([each.tool for each in whole.recording.in_flight(ann, CallFilter())])
        return await answer(invocation)

    flying: list[list[str]] = []
    ann = Caller("ann", "agent", rights=Rights(allow=("orders.say_it", "relay.*")))
    whole.served.offer(raw_tool("relay.call_others"), handler=call_others, calls=("*",))
    await whole.served.call("relay.call_others", caller=ann)
    own = [each.tool for _, each in await whole.recording.page(ann, CallFilter(), 10, None)]
    assert own == ["relay.call_others", "orders.say_it"]
    stats = await whole.recording.stats(ann, CallFilter())
    assert (stats.calls, stats.miscalled, stats.unused) == (2, (), ())
    everything = await whole.recording.page(OPERATOR, CallFilter(), 10, None)
    assert len(everything) == 4
    hidden = next(each for _, each in everything if each.tool == "orders.nobody")
    assert await whole.recording.find(ann, hidden.request_id) is None
    assert flying == [["relay.call_others"]]


@pytest.mark.promise("REC-10")
async def test_what_agents_ask_leaves_readers_to_the_operator(whole: Whole) -> None:
    ann = Caller("ann", "agent")
    gate, asking = asyncio.Event(), 0

    async def page(*_: object) -> list[Any]:
        nonlocal asking
        asking += 1
        await gate.wait()
        return []

    whole.recording._store.page = page  # type: ignore[assignment,method-assign]
    questions = [asyncio.create_task(whole.recording.page(ann, CallFilter(), 1, 1)) for _ in range(5)]
    await settle()
    assert asking == 2
    operator = asyncio.create_task(whole.recording.page(OPERATOR, CallFilter(), 1, 1))
    await settle()
    assert asking == 3
    gate.set()
    assert await asyncio.gather(operator, *questions) == [[]] * 6


@pytest.mark.promise("REC-4")
async def test_only_tools_that_are_asked_about_are_told_as_unused(whole: Whole) -> None:
    await whole.served.call("orders.say_it")
    assert (await whole.recording.stats(OPERATOR, CallFilter())).unused == ("orders.nobody",)
    assert (await whole.recording.stats(OPERATOR, CallFilter(tool="other.*"))).unused == ()


async def test_fingerprints_stay_comparable_after_a_restart(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        whole = Whole(tmp_path / "data")
        await whole.served.call("orders.say_it", '{"n": 1}')
        [(_, newest)] = await whole.recording.page(OPERATOR, CallFilter(), 1, None)
        seen.append(newest.fingerprint)
        whole.recording.close(5)
    assert seen[0] == seen[1]
    assert whole.layout.record_key.stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("REC-7")
async def test_a_call_log_that_cannot_be_written_is_told_once_and_counted(
    whole: Whole, caplog: pytest.LogCaptureFixture
) -> None:
    (whole.layout.logs / "calls.jsonl").mkdir()
    for _ in range(2):
        await whole.served.call("orders.say_it")
        await whole.recording.page(OPERATOR, CallFilter(), 1, None)
    assert whole.dropped == 2
    assert caplog.text.count("cannot be written") == 1
    assert len(await whole.recording.page(OPERATOR, CallFilter(), 10, None)) == 2


async def test_nothing_is_opened_before_the_first_call(whole: Whole) -> None:
    whole.recording.sweep()
    assert not list(whole.layout.store.iterdir())
    assert not list(whole.layout.logs.iterdir())
