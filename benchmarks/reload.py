"""Reloads: from save to serving, one change among 1,000 plugins, and calls while plugins change."""

from __future__ import annotations

import asyncio
import time

import uvloop

from benchmarks.figure import Figure, median, percentile
from benchmarks.load import Wire
from benchmarks.plugins import numbered, write_many
from hermesd.config.load import load_configuration
from tests.harness import Daemon, Home

SAVES, SAVES_OF_MANY, MANY = 40, 15, 1000
PAUSE_S = 0.4
CALLS, RELOADS, CALLERS = 10_000, 50, 20
GIVE_UP_S = 15.0


def run() -> list[Figure]:
    """One daemon with one plugin, then one with 1,000."""
    few, many = Home(), Home()
    try:
        return [*_few(few), *_many(many)]
    finally:
        few.remove()
        many.remove()


def _few(home: Home) -> list[Figure]:
    home.plugin("plugin0", numbered(0))
    home.follow("plugin0")
    daemon = Daemon(home).wait_ready()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            seconds = runner.run(_save_to_serving(home, SAVES))
            failed, took = runner.run(_calls_across_reloads(home))
    finally:
        daemon.stop()
    setting = f"{SAVES} atomic renames, {PAUSE_S:g} s apart, polled back to back"
    return [
        Figure("save to serving: p50", median(seconds) * 1000, "ms"),
        Figure("save to serving: p95", percentile(seconds, 0.95) * 1000, "ms", at_most=300, setting=setting),
        Figure(
            f"{CALLS} calls across {RELOADS} reloads: failed",
            failed,
            "calls",
            at_most=0,
            setting=f"{CALLERS} callers, back to back, {took:.1f} s",
        ),
    ]


def _many(home: Home) -> list[Figure]:
    write_many(home, MANY)
    settle_ms = load_configuration(home.config, environ={}, overrides={}).plugins.settle_ms
    daemon = Daemon(home).wait_ready()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            seconds = runner.run(_save_to_serving(home, SAVES_OF_MANY))
    finally:
        daemon.stop()
    setting = f"{SAVES_OF_MANY} atomic renames, settle time {settle_ms} ms"
    return [
        Figure(f"save to serving, 1 of {MANY}: p50", median(seconds) * 1000, "ms"),
        Figure(
            f"1 of {MANY} changes, beyond the settle time: p50",
            median(seconds) * 1000 - settle_ms,
            "ms",
            at_most=50,
            setting=setting,
        ),
    ]


async def _save_to_serving(home: Home, saves: int) -> list[float]:
    """Seconds from each rename to the first call that answers what was saved."""
    wire = Wire(str(home.socket))
    try:
        call = wire.tool("plugin0.say_number")
        seconds = []
        for number in range(1, saves + 1):
            await asyncio.sleep(PAUSE_S)
            home.replace(home.plugins / "plugin0" / "plugin0.py", numbered(number))
            began = time.perf_counter()
            while (await call()).result.data_json != str(number):
                if time.perf_counter() - began > GIVE_UP_S:
                    raise RuntimeError(f"version {number} does not serve {GIVE_UP_S:g} s after its save")
                await asyncio.sleep(0.001)
            seconds.append(time.perf_counter() - began)
        return seconds
    finally:
        await wire.close()


async def _calls_across_reloads(home: Home) -> tuple[int, float]:
    """How many of the calls failed while the plugin was replaced again and again, and the time it took."""
    wire = Wire(str(home.socket))
    call = wire.tool("plugin0.say_number")
    made = failed = 0
    reloads = 0

    async def caller() -> None:
        nonlocal made, failed
        while made < CALLS or reloads < RELOADS:
            made += 1
            try:
                await call()
            except Exception as error:
                failed += 1
                print(f"a call failed: {error}")

    async def saver() -> None:
        nonlocal reloads
        generation = (await call()).result.generation
        for number in range(RELOADS):
            home.replace(home.plugins / "plugin0" / "plugin0.py", numbered(10_000 + number))
            while (seen := (await call()).result.generation) == generation:
                await asyncio.sleep(0.01)
            generation, reloads = seen, reloads + 1

    try:
        began = time.perf_counter()
        await asyncio.gather(saver(), *(caller() for _ in range(CALLERS)))
        return failed, time.perf_counter() - began
    finally:
        await wire.close()
