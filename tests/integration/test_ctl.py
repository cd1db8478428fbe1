"""Every `ctl` command, as a process, against the daemon's real edge."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.rpc_doubles import Daemon

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with Daemon(f"unix:{tmp_path}/hermesd.sock") as daemon:
        yield daemon


async def ctl(daemon: Daemon, *words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `hermesd ctl WORDS`."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hermesd",
        "ctl",
        "--address",
        daemon.address,
        *words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(child.communicate(), 30)
    assert child.returncode is not None
    return child.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(
    "words",
    [
        "status",
        "config --effective",
        "drain",
        "resume",
        "dump",
        "events",
        "tools list",
        "tools show demo.echo_text",
        "tools call demo.echo_text text=好",
        "tools call demo.echo_text text=好 --stream",
        "tools disable demo.echo_text",
        "tools enable demo.echo_text",
        "plugins list",
        "plugins show demo",
        "plugins trust demo --digest sha256:ab",
        "plugins untrust demo",
        "plugins grant demo --secret TOKEN",
        "plugins revoke demo --all",
        "plugins disable demo",
        "plugins enable demo",
        "plugins logs demo",
        "plugins history demo",
        "plugins rollback demo",
        "confirmations list",
        "stop",
    ],
)
async def test_every_command_works_for_people_and_for_programs(daemon: Daemon, words: str) -> None:
    status, _, err = await ctl(daemon, *words.split())
    assert (status, err) == (0, "")
    status, out, err = await ctl(daemon, "--json", *words.split())
    assert (status, err) == (0, "")
    documents = [json.loads(each) for each in out.splitlines()]
    streams = words.startswith(("events", "plugins logs")) or "--stream" in words
    assert len(documents) >= 1 if streams else len(documents) == 1
    assert all(isinstance(each, dict) for each in documents)


async def test_what_does_not_exist_is_exit_1_with_a_remedy(daemon: Daemon) -> None:
    for words in ("tools show no.such_tool", "plugins show none"):
        status, out, err = await ctl(daemon, *words.split())
        assert (status, out) == (1, "")
        assert err
