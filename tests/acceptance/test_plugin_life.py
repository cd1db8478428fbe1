"""What plugins may do to each other and to the daemon, and what of them outlives a restart."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from hermesd.client import ConnectionLostError
from tests.harness import ROOT, Daemon, Home, eventually
from tests.plugins import lasting, word

Serve = Callable[..., Daemon]


@pytest.mark.promise("FLT-19")
def test_a_killed_worker_costs_its_calls_alone_and_the_next_call_works(home: Home, serve: Serve) -> None:
    """hermes-agent#73760: one broken plugin that took all others with it."""
    home.configure(
        trusted={
            "boxed": {"follow": True, "isolation": "process"},
            "other": {"follow": True, "isolation": "process"},
        }
    )
    home.plugin("boxed", lasting("boxed"))
    home.plugin("other", lasting("other"))
    daemon = serve()
    assert daemon.call("other.say_word") == "other"

    async def run() -> list[Any]:
        async with daemon.async_client() as client:
            calls = [
                asyncio.create_task(client.call_tool("boxed.write_slowly", {"seconds": 30})),
                asyncio.create_task(client.call_tool("boxed.tick_often", {"times": 300})),
                asyncio.create_task(client.call_tool("other.write_slowly", {"seconds": 1})),
            ]
            await asyncio.sleep(0.7)
            os.kill(daemon.plugin("boxed").pid, signal.SIGKILL)
            begun = time.monotonic()
            answers = list(await asyncio.gather(*calls[:2]))
            assert time.monotonic() - begun < 2
            return [*answers, await calls[2]]

    written, ticked, healthy = asyncio.run(run())
    assert (written.code, written.effect) == ("UNAVAILABLE", "unknown")
    assert (ticked.code, ticked.effect) == ("UNAVAILABLE", "none")
    assert written.detail["remedy"]
    assert healthy.ok
    assert daemon.call("boxed.say_word") == "boxed"
    assert daemon.plugin("boxed").state == "ready"
    (told,) = daemon.events("worker_crashed")
    assert (told.subject, told.message) == ("boxed", "crash (SIGKILL)")
    assert not [each for each in daemon.descendants() if each.status() == psutil.STATUS_ZOMBIE]


@pytest.mark.promise("FLT-20")
def test_a_plugin_that_blocks_its_threads_and_its_loop_holds_up_nobody_else(home: Home, serve: Serve) -> None:
    home.configure(trusted={"stuck": {"follow": True}, "fine": {"follow": True}}, max_stray_threads=2)
    home.plugin(
        "stuck",
        lasting("x")
        + '''
@tool(side_effects="read", timeout_ms=300)
async def block_loop(seconds: float) -> str:
    """Blocks the loop of its plugin."""
    time.sleep(seconds)
    return "late"

@tool(side_effects="write", timeout_ms=300)
def block_thread(seconds: float) -> str:
    """Blocks a thread."""
    time.sleep(seconds)
    return "late"
''',
    )
    home.plugin("fine", word("fine"))
    daemon = serve()
    took: list[float] = []

    async def run() -> list[Any]:
        async with daemon.async_client() as client:
            tools = ("stuck.block_thread", "stuck.block_thread", "stuck.block_loop")
            stuck = [asyncio.create_task(client.call_tool(each, {"seconds": 4})) for each in tools]
            while not all(each.done() for each in stuck):
                begun = time.monotonic()
                assert (await client.call_tool("fine.say_word")).ok
                took.append(time.monotonic() - begun)
                await asyncio.sleep(0.01)
            return [each.result() for each in stuck]

    results = asyncio.run(run())
    assert [(each.code, each.effect) for each in results] == [
        ("TIMEOUT", "unknown"),
        ("TIMEOUT", "unknown"),
        ("TIMEOUT", "none"),
    ]
    assert sorted(took)[int(len(took) * 0.9)] < 0.1
    stray = eventually(lambda: (found := daemon.plugin("stuck")).stray_threads >= 2 and found, what="strays")
    assert stray.state == "unavailable"
    assert "isolation: process" in stray.remedy
    with daemon.client() as client:
        refusal = client.call_tool("stuck.say_word")
        assert (refusal.code, refusal.effect) == ("UNAVAILABLE", "none")
    assert any(each.name == "stuck" for each in daemon.status().warnings)
    eventually(lambda: daemon.plugin("stuck").state == "ready", what="the strays to end")
    assert daemon.call("stuck.say_word") == "x"


@pytest.mark.promise("FLT-21")
def test_what_the_operator_decided_survives_a_crash_and_a_restart(home: Home, serve: Serve) -> None:
    daemon = serve()
    home.plugin("orders", word("one"), manifest="permissions: {secrets: [TOKEN], calls: ['text.*']}\n")
    found = eventually(lambda: daemon.plugin("orders"))
    one = found.found_digest
    with daemon.client() as client:
        client.trust_plugin("orders", digest=one)
        client.set_tool("text.count_stats", enabled=False)
        client.grant_plugin("orders", {"calls": ["text.*"]})
        client.set_plugin("time", enabled=False)
    home.plugin("orders", word("two"), version="2.0.0")
    two = eventually(lambda: (new := daemon.plugin("orders").found_digest) != one and new)
    with daemon.client() as client:
        client.trust_plugin("orders", digest=two)
    assert daemon.call("orders.say_word") == "two"

    def standing(which: Daemon) -> tuple[object, ...]:
        with which.client() as client:
            refused_call = client.call_tool("text.count_stats", {"text": "x"})
            history = [each.digest for each in client.list_plugin_history("orders").contents]
        states = {each.name: (each.state, each.digest) for each in which.status().plugins}
        return refused_call.code, refused_call.detail["remedy"], history, states

    before = standing(daemon)
    assert before[0] == "UNAVAILABLE"
    assert "enable text.count_stats" in before[1]
    assert before[2] == [two, one]
    assert before[3]["time"][0] == "disabled"
    daemon.kill()
    again = serve()
    assert standing(again) == before
    with again.client() as client:
        client.rollback_plugin("orders")
        client.set_tool("text.count_stats", enabled=True)
        client.set_plugin("time", enabled=True)
    assert again.call("orders.say_word") == "one"
    again.kill()
    third = serve()
    assert third.call("orders.say_word") == "one"
    assert third.plugin("orders").digest == one
    assert "rollback" in third.plugin("orders").reason
    assert third.call("text.count_stats", text="x")
    assert third.plugin("time").state == "ready"
    # Gone from its folder, it is gone; its contents go with what keeps them.
    assert (home.data / "state" / "grants.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("FLT-22")
def test_an_installed_package_is_served_when_it_is_named_and_listed_when_it_is_not(
    home: Home, serve: Serve
) -> None:
    """pluggy#431, #347: what is registered is what was named, once."""
    out = home.path / "hooks"
    site = _site(home.path / "site", "acme-weather", "weather", out)
    _site(home.path / "site", "acme-stray", "stray", out)
    home.configure(entry_points=["Acme_Weather"])
    daemon = serve(env={"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"})
    assert daemon.call("weather.say_word") == "weather client"
    stray = daemon.plugin("stray")
    assert (stray.state, stray.origin) == ("unavailable", "entry_point")
    assert "acme-stray" in stray.remedy
    assert not [each for each in out.read_text().splitlines() if "stray" in each], "it was not even imported"
    daemon.reload()
    home.configure(entry_points=["acme-weather", "acme-stray", "acme-absent"])
    answer = daemon.reload()
    assert "acme-absent" in str(answer.rejected)
    assert daemon.call("stray.say_word") == "stray client"
    home.configure(entry_points=["acme-weather"])
    daemon.reload()
    assert daemon.plugin("stray").state == "unavailable"
    assert daemon.stop() == 0
    lines = out.read_text().splitlines()
    for name in ("weather", "stray"):
        assert [each for each in lines if name in each] == [
            f"{hook} {name}" for hook in ("import", "startup", "shared", "shutdown")
        ]


def _site(site: Path, distribution: str, module: str, out: Path) -> Path:
    """A package as an installer would leave it."""
    stem = distribution.replace("-", "_")
    info = site / f"{stem}-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text(f"[hermesd]\n{module} = {stem}\n")
    (site / f"{stem}.py").write_text(f"""
from hermesd.plugin import hookimpl, tool, ToolContext

def note(text):
    with open({str(out)!r}, "a") as file:
        file.write(text + " {module}\\n")

note("import")

@hookimpl
def hermesd_startup():
    note("startup")

@hookimpl
def hermesd_shared():
    note("shared")
    return {{"client": "client"}}

@hookimpl
def hermesd_shutdown():
    note("shutdown")

@hookimpl
def hermesd_tools():
    @tool(side_effects="read", name="{module}.say_word", description="Says.")
    def say_word(ctx: ToolContext) -> str:
        return "{module} " + ctx.shared("client")
    return [say_word]
""")
    return site


def test_a_lost_daemon_is_told_as_a_lost_connection_with_an_unknown_fate(home: Home, serve: Serve) -> None:
    home.follow("slow")
    home.plugin("slow", lasting("x"))
    daemon = serve()
    errors: list[Exception] = []

    def run() -> None:
        try:
            with daemon.client() as client:
                client.call_tool("slow.write_slowly", {"seconds": 30})
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    eventually(lambda: daemon.status().calls.inflight == 1)
    daemon.kill()
    thread.join(10)
    assert isinstance(errors[0], ConnectionLostError), errors


def test_a_cancelled_call_is_answered_at_once_and_its_whole_tree_ends(home: Home, serve: Serve) -> None:
    """modelcontextprotocol/python-sdk#2773, pydantic-ai#8548: a cancel that waits for a pipe's end.

    A grandchild holds the pipes of its worker, and ignores what it can.
    """
    home.follow("w", isolation="process")
    home.plugin(
        "w",
        """
        import subprocess, time
        from hermesd.plugin import tool

        @tool(side_effects="write", timeout_ms=60000)
        def hang_on() -> str:
            "Hangs, with a child that holds on."
            subprocess.Popen(["/bin/sh", "-c", "trap '' TERM HUP INT; sleep 300 & wait"])
            time.sleep(300)
            return "never"
        """,
    )
    daemon = serve()
    results: list[Any] = []

    def run() -> None:
        with daemon.client() as client:
            results.append(client.call_tool("w.hang_on", request_id="hanging", timeout_s=60))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    family = eventually(lambda: (found := daemon.descendants()) and len(found) >= 4 and found[1:])
    begun = time.monotonic()
    with daemon.client() as client:
        client.cancel_call("hanging")
    thread.join(5)
    assert time.monotonic() - begun < 1
    assert (results[0].code, results[0].effect) == ("CANCELLED", "unknown")
    _, alive = psutil.wait_procs(
        [each for each in family if "launcher" not in str(each.cmdline())], timeout=8
    )
    assert not alive, [each.cmdline() for each in alive]
    begun = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begun < 6
