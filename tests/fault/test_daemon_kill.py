"""kill -9 at any instant: after the restart the state is what content and data dir say, and nothing else."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from hermesd.client import ClientError
from tests.harness import Daemon, Home, eventually
from tests.plugins import hooks, lasting, word

pytestmark = pytest.mark.fault
Serve = Callable[..., Daemon]
KILLS = 20


@pytest.mark.promise("FLT-23")
def test_a_daemon_killed_at_any_instant_of_a_reload_comes_back_as_a_fresh_start_would(home: Home) -> None:
    """hashicorp/go-plugin#10, #114, dkron#247, spire#93: what dies leaves children and litter behind."""
    chance = random.Random(20261130)
    home.configure(
        trusted={
            "a": {"follow": True},
            "w": {"follow": True, "isolation": "process"},
            "pinned": {"follow": True},
        }
    )
    home.plugin("a", word("0"))
    home.plugin("w", word("0"))
    home.plugin("pinned", word("pinned"))
    for number in range(1, KILLS + 1):
        daemon = Daemon(home).wait_ready()
        before = str(number - 1)
        assert daemon.call("a.say_word") == before
        assert daemon.call("w.say_word") == before
        assert daemon.call("pinned.say_word") == "pinned"
        children = daemon.descendants()
        assert len(children) >= 2

        home.plugin("a", word(str(number)))
        home.plugin("w", word(str(number)))
        asking = threading.Thread(target=_ask, args=(daemon,), daemon=True)
        asking.start()
        time.sleep(chance.uniform(0, 0.25))
        daemon.kill()
        asking.join(10)
        gone, alive = psutil.wait_procs(children, timeout=5)
        assert not alive, f"kill {number}: {[each.cmdline() for each in alive]}"
        assert gone
    last = Daemon(home).wait_ready()
    try:
        assert last.call("a.say_word") == str(KILLS)
        assert last.call("w.say_word") == str(KILLS)
        status = last.status()
        assert not status.reload.rejected
        assert last.stop() == 0
        assert not _litter(home.data)
        revived = _plugins(home)
        shutil.rmtree(home.data)
        fresh = _plugins(home)
        assert revived == fresh
    finally:
        if last.process.poll() is None:
            last.kill()


def _ask(daemon: Daemon) -> None:
    try:
        daemon.reload()
    except ClientError:
        return  # it was killed meanwhile


def _plugins(home: Home) -> dict[str, tuple[str, str, str]]:
    daemon = Daemon(home).wait_ready()
    try:
        return {each.name: (each.state, each.digest, each.version) for each in daemon.status().plugins}
    finally:
        assert daemon.stop() == 0


def _litter(data: Path) -> list[str]:
    """What an interrupted write leaves: temporary files and folders."""
    return [
        str(path.relative_to(data))
        for path in data.rglob("*")
        if path.name.startswith((".", "tmp")) or path.name.endswith((".tmp", ".new", ".partial"))
    ]


@pytest.mark.promise("FLT-23")
def test_a_killed_daemon_takes_every_child_and_grandchild_with_it(home: Home, serve: Serve) -> None:
    """hashicorp/go-plugin#10, dkron#247: orphans outlive their host."""
    home.follow("w", isolation="process")
    home.plugin(
        "w",
        word("w")
        + """
import subprocess

@tool(side_effects="read")
def start_one() -> int:
    "Starts a grandchild that ignores what it can."
    return subprocess.Popen(
        ["/bin/sh", "-c", "trap '' TERM HUP INT; sleep 300 & wait"], start_new_session=True
    ).pid
""",
    )
    daemon = serve()
    daemon.call("w.start_one")
    family = eventually(lambda: (found := daemon.descendants()) and len(found) >= 4 and found)
    daemon.kill()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive, [each.cmdline() for each in alive]


@pytest.mark.promise("FLT-23")
def test_a_hundred_killed_workers_leave_no_zombie_and_the_hundredth_call_works(
    home: Home, serve: Serve
) -> None:
    """langgenius/dify-plugin-daemon#553, #543: nobody waits for what died."""
    home.follow("w", isolation="process")
    home.plugin("w", word("w"))
    daemon = serve()
    pids = set()
    for _ in range(100):
        assert daemon.call("w.say_word") == "w"
        pid = daemon.plugin("w").pid
        pids.add(pid)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: daemon.plugin("w").pid != pid, 5, "the daemon to notice")
    assert len(pids) == 100
    assert daemon.call("w.say_word") == "w"
    assert len(daemon.descendants()) == 2
    assert not [each for each in daemon.descendants() if each.status() == psutil.STATUS_ZOMBIE]


def test_an_upgraded_worker_plugin_has_one_process(home: Home, serve: Serve) -> None:
    """langgenius/dify-plugin-daemon#698, #353: old versions keep running."""
    home.follow("w", isolation="process")
    home.plugin("w", word("0"))
    daemon = serve()
    for number in range(1, 11):
        home.plugin("w", word(str(number)), version=f"1.0.{number}")
        daemon.reload()
        assert daemon.call("w.say_word") == str(number)
    eventually(lambda: len(daemon.descendants()) == 2, what="the launcher and one worker")


@pytest.mark.promise("FLT-24")
def test_reloads_leave_threads_descriptors_children_and_memory_as_they_were(home: Home, serve: Serve) -> None:
    """caddy#2358, #2642, #7826: something leaked with each reload; coredns#1456: so did its health checks."""
    out = home.path / "hooks"
    home.configure(
        trusted={name: {"follow": True} for name in ("a", "hooked")}
        | {"w": {"follow": True, "isolation": "process"}},
        watch=False,
    )
    home.plugin("a", lasting("0"))
    home.plugin("hooked", hooks(out))
    home.plugin("w", word("0"))
    daemon = serve()
    process = psutil.Process(daemon.pid)

    def churn(start: int, times: int) -> None:
        with daemon.client() as client:
            for number in range(start, start + times):
                home.plugin("a", lasting(str(number)), version=f"1.0.{number}")
                if number % 10 == 0:
                    home.plugin("hooked", hooks(out), version=f"1.0.{number}")
                    home.plugin("w", word(str(number)))
                answer = client.reload()
                assert "a" in answer.changed
                assert client.call_tool("a.say_word").data == str(number)
                assert client.call_tool("a.tick_often", {"times": 0}).ok

    def figures() -> tuple[int, int, int, list[str]]:
        state = daemon.state()
        return process.num_threads(), process.num_fds(), len(daemon.descendants()), state["tasks"]

    churn(1, 60)
    threads, fds, children, tasks = figures()
    memory = process.memory_info().rss
    churn(61, 440)
    eventually(lambda: daemon.plugin("a").draining == 0)
    after = figures()
    assert after[0] <= threads + 3, (threads, daemon.state()["threads"])
    assert after[1] <= fds + 3, (fds, after[1])
    assert after[2] == children
    assert len(after[3]) <= len(tasks) + 3, after[3]
    growth = process.memory_info().rss - memory
    assert growth < 24 * 1024 * 1024, f"{growth / 2**20:.1f} MiB in 440 reloads"
    kept = [each for each in (home.data / "plugins").iterdir() if each.is_dir()]
    assert len(kept) < 40, "contents that nobody needs are let go"
    lines = out.read_text().splitlines()
    assert lines.count("startup 1.0.500") == 1
    assert sum(each.startswith("startup") for each in lines) == 51
    assert sum(each.startswith("shutdown") for each in lines) == 50


def test_calls_go_on_without_a_loss_while_their_plugin_is_reloaded(home: Home, serve: Serve) -> None:
    """nginx/nginx-gateway-fabric#5524, kubernetes/ingress-nginx#1088: churn loses requests."""
    home.follow("a", "b")
    home.plugin("a", word("0"))
    home.plugin("b", word("b"))
    daemon = serve()
    stop = threading.Event()
    failures: list[object] = []
    done = [0] * 6

    def caller(index: int) -> None:
        with daemon.client() as client:
            while not stop.is_set():
                result = client.call_tool("a.say_word" if index % 2 else "b.say_word")
                done[index] += 1
                if not result.ok:
                    failures.append((result.code, result.message))

    threads = [threading.Thread(target=caller, args=(index,), daemon=True) for index in range(len(done))]
    for thread in threads:
        thread.start()
    for number in range(1, 51):
        home.replace(home.plugins / "a" / "a.py", word(str(number)))
        daemon.reload()
    stop.set()
    for thread in threads:
        thread.join(10)
    assert not failures, failures[:3]
    assert sum(done) > 500
