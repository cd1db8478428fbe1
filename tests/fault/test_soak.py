"""Hours of ordinary life in one process: nothing may grow. `make soak`, for SOAK_MINUTES (default 20)."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import psutil
import pytest

from hermesd.client import Client, ClientError
from tests.harness import Daemon, Home, eventually

MINUTES = float(os.environ.get("SOAK_MINUTES", "20"))
#: Calls of one connection, then it is made anew.
CONNECTION = 200
#: Rounds until everything was used: both databases are open, windows and retention have come round.
WARM_UP = 40
#: What the allocator and caches may still take after the warm-up. Most of it is what both databases hold
#: until their logs have 16 MiB, and give back then: 20 MiB each.
SLACK_BYTES = 56 * 1024 * 1024
#: Short, so that what is kept is also swept while we watch.
KEPT = {"idempotency_window_s": 15, "result": {"keep_s": 15, "keep_mb": 8}}

CODE = '''
import asyncio
from hermesd.plugin import ToolContext, tool

@tool(side_effects="read", description="Says one word.", when_to_use="in tests")
def say_word() -> str:
    return WORD

@tool(side_effects="write")
def note_down(text: str) -> str:
    """Has an effect."""
    return text

@tool(side_effects="write")
async def work_on(ctx: ToolContext, rows: int) -> list[str]:
    """Works for a moment and answers much."""
    for step in range(3):
        ctx.progress(step, 3, "on it")
        ctx.log("working")
        await asyncio.sleep(0.01)
    return ["一行" * 10] * rows
'''


def jobs(value: str) -> str:
    return f"WORD = {value!r}\n{CODE}"


@dataclass
class Figures:
    """What must stay flat."""

    rss: int
    fds: int
    threads: int
    children: int

    @classmethod
    def of(cls, daemon: Daemon) -> Figures:
        process = psutil.Process(daemon.pid)
        return cls(
            process.memory_info().rss, process.num_fds(), process.num_threads(), len(daemon.descendants())
        )

    def flat_after(self, settled: Figures) -> bool:
        return (
            self.rss <= settled.rss + SLACK_BYTES
            and self.fds <= settled.fds + 4
            and self.threads <= settled.threads + 4
            and self.children <= settled.children + 1
        )


class Callers:
    """Everything that is called and asked all the time, each kind by a thread of its own."""

    def __init__(self, daemon: Daemon, token: str) -> None:
        self.daemon = daemon
        self.token = token
        self.stop = threading.Event()
        self.lost: list[str] = []
        self.done: Counter[str] = Counter()
        self.kinds = (self.read, self.write, self.detach, self.operate, self.act)
        self.threads = [
            threading.Thread(target=self.go_on, args=(kind, plugin), daemon=True)
            for kind in self.kinds
            for plugin in "aw"
        ]
        for thread in self.threads:
            thread.start()

    def go_on(self, kind: Callable[[Client, str], None], plugin: str) -> None:
        door = self.daemon.status().agents_addresses[0]
        while not self.stop.is_set():
            try:
                with Client(door, token=self.token) if kind == self.act else self.daemon.client() as client:
                    for _ in range(CONNECTION):
                        if self.stop.is_set():
                            break
                        kind(client, plugin)
                        self.done[kind.__name__] += 1
            except (ClientError, AssertionError) as error:
                self.lost.append(f"{kind.__name__} {plugin}: {error!r}")

    def read(self, client: Client, plugin: str) -> None:
        result = client.call_tool(f"{plugin}.say_word")
        expect(result.ok or lost(plugin, result), result)

    def write(self, client: Client, plugin: str) -> None:
        """Each key twice: once it is done, once it is told again."""
        key = uuid.uuid4().hex
        first, again = (
            client.call_tool(f"{plugin}.note_down", {"text": key}, idempotency_key=key) for _ in range(2)
        )
        expect((first.ok and first.data == key) or lost(plugin, first), first)
        expect(again.detail.get("replayed") or not first.ok, again)

    def detach(self, client: Client, plugin: str) -> None:
        """Some are watched and read whole, some are left to expire."""
        name = uuid.uuid4().hex
        taken = client.call_tool(f"{plugin}.work_on", {"rows": 1000}, request_id=name, detach=True)
        expect(taken.ok or lost(plugin, taken), taken)
        if taken.ok and int(name, 16) % 4:
            result = client.wait_for_call(name)
            expect(result.ok or lost(plugin, result), result)
            if result.ok:
                expect(len(json.loads(client.call_output(name))) == 1000, result)

    def operate(self, client: Client, plugin: str) -> None:
        """What an operator looks at."""
        page = client.list_calls(tool=f"{plugin}.note_down")
        if page.calls:
            client.get_call(page.calls[0].request_id)
        client.get_call_stats()
        time.sleep(0.1)

    def act(self, client: Client, plugin: str) -> None:
        """An agent: what it may, what it may not, and what it sees."""
        expect(client.who_am_i().name == "reporter", None)
        result = client.call_tool(f"{plugin}.note_down", {"text": "x"})
        expect(result.ok or lost(plugin, result), result)
        hidden = client.call_tool("text.count_stats", {"text": "x"})
        expect(hidden.code == "UNKNOWN_TOOL", hidden)
        expect(all(tool.name[0] in "aw" for tool in client.tools()), None)


def expect(fine: object, result: object) -> None:
    assert fine, result


def lost(plugin: str, result: object) -> bool:
    """A worker that was just killed answers UNAVAILABLE, and is left alone for a while when that goes on."""
    return plugin == "w" and getattr(result, "code", "") in ("UNAVAILABLE", "CIRCUIT_OPEN")


@pytest.mark.soak
def test_memory_threads_and_descriptors_stay_flat_for_as_long_as_it_runs(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    """hermes-agent#18438, #58817: eight gigabytes within an hour."""
    home.configure(
        {"server": {"agents_listen": [f"unix:{home.path}/agents"]}, "defaults": KEPT},
        trusted={"a": {"follow": True}, "w": {"follow": True, "isolation": "process"}},
    )
    home.plugin("a", jobs("0"))
    home.plugin("w", jobs("0"))
    daemon = serve()
    with daemon.client() as client:
        token = client.add_agent("reporter", allow=["a.*", "w.*"], ceiling="write").token
    callers = Callers(daemon, token)
    until = time.monotonic() + MINUTES * 60
    settled: Figures | None = None
    rounds = 0
    while time.monotonic() < until or settled is None:
        rounds += 1
        _change(home, daemon, rounds)
        if rounds % 20 == 0:
            print(f"{rounds} rounds: {Figures.of(daemon)} {dict(callers.done)}", flush=True)
        if rounds == WARM_UP:
            settled = Figures.of(daemon)
        assert callers.lost == [], daemon.log_text().partition("Traceback")[2][:4000]
    callers.stop.set()
    for thread in callers.threads:
        thread.join(30)
        assert not thread.is_alive()
    assert callers.lost == []
    assert min(callers.done[kind.__name__] for kind in callers.kinds) > rounds, callers.done
    last = eventually(lambda: _calm(daemon, settled), 30, "the figures to come down")
    print(f"{rounds} rounds, {sum(callers.done.values())} calls: {settled} then {last}")
    assert daemon.status().calls.inflight == 0
    assert daemon.stop() == 0


def _change(home: Home, daemon: Daemon, number: int) -> None:
    """Both plugins are edited; now and then one is broken, now and then the worker is killed."""
    for name in ("a", "w"):
        home.plugin(name, jobs(str(number)))
    eventually(partial(_says, daemon, str(number)), 20, f"round {number} to serve")
    if number % 5 == 0:
        home.replace(home.plugins / "a" / "a.py", "def broken(:\n")
        daemon.ctl("reload")
    worker = daemon.plugin("w")
    if number % 7 == 0 and worker is not None and worker.pid:
        os.kill(worker.pid, signal.SIGKILL)


def _says(daemon: Daemon, wanted: str) -> bool:
    return bool(daemon.call("a.say_word") == wanted)


def _calm(daemon: Daemon, settled: Figures) -> Figures | None:
    """The figures once what was replaced has drained; None while they are above what they were."""
    now = Figures.of(daemon)
    return now if now.flat_after(settled) else None
