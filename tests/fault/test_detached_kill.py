"""A daemon that is killed at any instant: what was told of detached calls is true afterwards."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest

from hermesd.client import ClientError
from tests.harness import Daemon, Home

pytestmark = pytest.mark.fault

CODE = '''
import asyncio
from hermesd.plugin import tool

@tool(side_effects="write")
async def note_down(path: str, line: str, pause: float) -> str:
    """Appends a line."""
    await asyncio.sleep(pause)
    with open(path, "a") as file:
        file.write(line + chr(10))
    return line
'''


@pytest.mark.promise("OUT-8")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_call_that_was_accepted_has_its_answer_or_is_unknown(
    home: Home, serve: Callable[..., Daemon], seed: int
) -> None:
    home.plugin("scribe", CODE)
    home.follow("scribe")
    chance = random.Random(seed)
    page = home.path / "page"
    daemon = serve()
    accepted: list[str] = []
    told: dict[str, str] = {}
    stop = threading.Event()

    def detach(worker: int) -> None:
        with daemon.client() as client:
            for number in range(1000):
                name = f"w{worker}-{number}"
                arguments = {"path": str(page), "line": name, "pause": chance.random() * 0.05}
                try:
                    client.call_tool("scribe.note_down", arguments, request_id=name, detach=True)
                    accepted.append(name)
                    if number % 3 == 0:
                        told[name] = client.wait_for_call(name).code
                except ClientError:
                    return
                if stop.is_set():
                    return

    workers = [threading.Thread(target=detach, args=(each,)) for each in range(3)]
    for each in workers:
        each.start()
    time.sleep(0.3 + chance.random() * 0.4)
    daemon.kill()
    stop.set()
    again = serve()
    for each in workers:
        each.join(60)
        assert not each.is_alive()
    assert len(accepted) > 5
    lines = page.read_text().split() if page.exists() else []
    assert len(lines) == len(set(lines))
    with again.client() as client:
        for name in accepted:
            result = client.wait_for_call(name)
            assert (result.code, result.effect) in (("OK", "done"), ("UNAVAILABLE", "unknown")), name
            if result.ok:
                assert result.data == name
                assert name in lines
            if name in told:
                assert told[name] == result.code
            if name not in lines:
                assert result.effect == "unknown"
