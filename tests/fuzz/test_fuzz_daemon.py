"""A whole daemon under chance: callers, killed workers, reloads and edits at once."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import psutil
import pytest

from hermesd.client import ClientError, MissingError
from tests.conformance.kind import KINDS, Stage
from tests.fuzz.runner import SECONDS
from tests.harness import Home, eventually

CALLERS = 6
TOOLS: dict[str, Any] = {
    "act_none": lambda chance: {"outcome": chance.choice(["ok", "error", "nothing", "exception", "no"])},
    "act_write": lambda chance: {"outcome": chance.choice(["ok", "error_none", "error_done"])},
    "echo_arguments": lambda chance: {
        "text": "x" * chance.randint(0, 9999),
        "count": chance.choice(["3", 4, None]),
    },
    "return_value": lambda chance: {"kind": chance.choice(["nan", "cycle", "bytes", "deep", "no such"])},
    "raise_error": lambda chance: {
        "kind": chance.choice(["exit", "recursion", "interrupt", "untellable", "large"])
    },
    "tell_progress": lambda chance: {"times": chance.randint(0, 5)},
    "take_turns": lambda chance: {"seconds": chance.random() / 10},
    "return_size": lambda chance: {"size": chance.choice([0, 1000, 3_000_000])},
}


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage(Home())
    yield made
    made.close()


class Storm:
    """Callers and their trouble, until `over`."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.number = number
        self.over = threading.Event()
        self.codes: Counter[str] = Counter()
        self.broken: list[str] = []
        self.ids: list[str] = []

    def call(self, caller: int) -> None:
        chance = random.Random(self.number * 100 + caller)
        with self.stage.daemon.client() as client:
            count = 0
            while not self.over.is_set():
                count += 1
                kind, tool = chance.choice(KINDS), chance.choice(list(TOOLS))
                request_id = f"{caller}-{count}"
                self.ids.append(request_id)
                try:
                    result = client.call_tool(
                        f"{kind.plugin}.{tool}",
                        TOOLS[tool](chance),
                        request_id=request_id,
                        timeout_ms=chance.choice([None, None, 5, 200]),
                        timeout_s=20,
                    )
                except ClientError as error:
                    self.broken.append(f"{tool}: {type(error).__name__}: {error}")
                    continue
                self.codes[result.code] += 1
                json.dumps([result.data, result.detail])
                if result.code == "INTERNAL" or (not result.ok and not result.detail.get("remedy")):
                    self.broken.append(f"{tool}: {result.response}")
                if tool not in ("act_write", "take_turns") and result.effect != "none":
                    self.broken.append(f"{tool} answers effect {result.effect}")

    def trouble(self) -> None:
        chance = random.Random(self.number)
        with self.stage.daemon.client() as client:
            while not self.over.wait(0.15):
                roll = chance.random()
                if roll < 0.35:
                    self._kill(chance)
                elif roll < 0.75 and self.ids:
                    with suppress(MissingError):
                        client.cancel_call(self.ids[-chance.randint(1, min(12, len(self.ids)))])
                elif roll < 0.9:
                    self._edit(chance)
                else:
                    try:
                        client.reload()
                    except ClientError as error:
                        self.broken.append(f"reload: {type(error).__name__}: {error}")

    def _kill(self, chance: random.Random) -> None:
        workers = [
            each for each in self.stage.daemon.descendants() if "plugin/__main__" in " ".join(_words(each))
        ]
        if workers:
            chance.choice(workers).kill()

    def _edit(self, chance: random.Random) -> None:
        folders = [kind for kind in KINDS if kind.comes == "folder"]
        plugin = chance.choice(folders).plugin
        file = self.stage.home.plugins / plugin / f"{plugin}.py"
        self.stage.home.replace(file, file.read_text() + f"\n# {chance.random()}\n")


@pytest.mark.fault
@pytest.mark.promise("FUZ-2")
def test_callers_in_a_storm_each_get_one_answer_and_the_sky_clears(stage: Stage) -> None:
    number = random.SystemRandom().getrandbits(32)
    for kind in KINDS:
        assert stage.call(kind, "act_read", outcome="ok").ok
    storm = Storm(stage, number)
    before = len(stage.daemon.descendants())
    threads = [threading.Thread(target=storm.call, args=(each,), daemon=True) for each in range(CALLERS)]
    threads.append(threading.Thread(target=storm.trouble, daemon=True))
    for each in threads:
        each.start()
    time.sleep(SECONDS)
    storm.over.set()
    for each in threads:
        each.join(30)
        assert not each.is_alive(), f"a caller waits for ever (seed {number})"
    assert not storm.broken, (number, len(storm.broken), storm.broken[:5], _traces(stage))
    assert storm.codes["OK"] > CALLERS
    for kind in KINDS:
        again = partial(stage.call, kind, "act_read", outcome="ok")
        # An open circuit is tried after 30 s, and so, at the latest, is a worker that did not start.
        eventually(lambda call=again: call().ok, 75, f"{kind} to serve again")
    eventually(lambda: stage.daemon.status().calls.inflight == 0, what="no call to be left")
    left: list[list[str]] = []

    def cleared() -> bool:
        left[:] = [_words(each) for each in stage.daemon.descendants()]
        return len(left) <= before

    try:
        eventually(cleared, 20, "no process to be left")
    except AssertionError as error:
        error.add_note(f"{before} before, now {left} (seed {number}, {dict(storm.codes)})")
        raise


def _traces(stage: Stage) -> str:
    """The last of the daemon's own failures, for whoever mends it."""
    return stage.daemon.log_text().rpartition("Traceback")[2][-3000:]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
