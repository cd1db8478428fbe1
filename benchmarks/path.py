"""What the dispatcher alone costs a call: every stage and the metrics, without gRPC and without a tool."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.figure import Figure, median
from benchmarks.load import PAYLOAD
from hermesd.clock import Clock, SystemClock, uuid7
from hermesd.daemon.listener import CallListener
from hermesd.model.call import Caller, CallRequest, Code, Outcome
from hermesd.model.definition import parse_definition
from hermesd.runtimes.runtime import Invocation, Prepared, Vitals
from hermesd.serving.catalogue import Entry
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.flight import Flights
from hermesd.serving.instance import Instance
from hermesd.serving.policy import CallPolicy
from hermesd.serving.registry import Registry
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.metric import Metrics
from hermesd.telemetry.plugin_log import PluginLog

ROUNDS, COUNT = 15, 2000
TOOL = {
    "name": "noop.say_text",
    "description": "Gives the text back.",
    "side_effects": "none",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


class _Instant:
    """A runtime whose tool has answered before it was asked."""

    kind = "instant"

    async def prepare(self) -> Prepared:
        return Prepared((TOOL,), {})

    async def ready(self) -> None:
        return None

    async def invoke(self, invocation: Invocation) -> Outcome:
        return Outcome(Code.OK, f'"{PAYLOAD}"')

    async def close(self) -> None:
        return None

    def vitals(self) -> Vitals:
        return Vitals()

    def unavailable(self) -> tuple[str, str] | None:
        return None


def run() -> list[Figure]:
    """Time the dispatcher in this process: the least of the rounds is its cost, the rest is the machine."""
    with (
        tempfile.TemporaryDirectory() as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        seconds = runner.run(_measure(Path(directory)))
    setting = f"in this process, {ROUNDS} rounds of {COUNT} calls"
    return [
        Figure("dispatcher alone: least", min(seconds) * 1e6, "µs/call", at_most=25, setting=setting),
        Figure("dispatcher alone: median", median(seconds) * 1e6, "µs/call"),
    ]


async def _measure(directory: Path) -> list[float]:
    clock = SystemClock()
    metrics = Metrics()
    plugin_log = PluginLog(directory, clock=clock, dropped=metrics.records_dropped)
    try:
        parsed = parse_definition(TOOL, plugin="noop", version="1.0.0")
        name = parsed.definition.name
        instance = Instance("noop", "key", "sha256:0", _Instant(), {name: parsed}, clock=clock)
        registry = Registry()
        entry = Entry(parsed.definition, "noop", "python", clock.now(), parsed.schema, instance)
        registry.commit({"noop": {name: entry}})
        observer = CallListener(metrics, plugin_log, EventLog(clock))
        dispatcher = Dispatcher(registry, Flights(), CallPolicy(), observer, clock)
        return [await _round(dispatcher, clock) for _ in range(ROUNDS)]
    finally:
        plugin_log.close()


async def _round(dispatcher: Dispatcher, clock: Clock) -> float:
    caller = Caller("operator", "operator")
    arguments = f'{{"text": "{PAYLOAD}"}}'
    began = time.perf_counter()
    for _ in range(COUNT):
        request = CallRequest("noop.say_text", arguments, uuid7(clock), caller)
        result = await dispatcher.call(request)
        if result.code is not Code.OK:
            raise RuntimeError(f"the call answered {result.code}: {result.message}")
    return (time.perf_counter() - began) / COUNT
