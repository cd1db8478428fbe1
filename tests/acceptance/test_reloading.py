"""What a reload owes to callers, to other plugins and to its asker: seen from outside."""

from __future__ import annotations

import asyncio
import grp
import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.calls import Streamed
from tests.harness import Daemon, Home, eventually
from tests.plugins import hooks, lasting, word

Serve = Callable[..., Daemon]


@pytest.mark.promise("FLT-5")
def test_a_reload_waits_for_a_stream_no_longer_than_the_drain_timeout_and_the_stream_is_told(
    home: Home, serve: Serve
) -> None:
    """caddy#3540, #3818; opnsense/plugins#3934: an unbounded grace hangs the reload."""
    home.follow("slow", server={"drain_timeout_s": 1})
    home.plugin("slow", lasting("old"))
    daemon = serve()
    stream = Streamed(daemon, "slow.tick_often", times=300).began()
    home.replace(home.plugins / "slow" / "slow.py", lasting("new"))
    begun = time.monotonic()
    answer = daemon.reload()
    assert 0.8 < time.monotonic() - begun < 4
    assert list(answer.changed) == ["slow"]
    assert daemon.call("slow.say_word") == "new"
    stream.join(10)
    assert stream.result.code == "UNAVAILABLE"
    assert stream.result.effect == "none"
    assert "replaced" in stream.result.message
    assert json.loads(stream.result.detail_json)["remedy"]
    eventually(lambda: daemon.plugin("slow").draining == 0, what="the old instance to be gone")


@pytest.mark.promise("FLT-6")
def test_a_stream_ends_on_the_version_that_it_began_on_and_other_plugins_never_notice(
    home: Home, serve: Serve
) -> None:
    """caddy#5471, caddy#4895, nats-server#719, #2282: a reload cut streams that had nothing to do with it.

    supervisor#1411, #591: editing one member restarts the whole group.
    """
    home.follow("a", "b")
    home.plugin("a", lasting("a1"))
    home.plugin("b", lasting("b1"))
    daemon = serve()
    untouched = daemon.plugin("b")
    with daemon.client() as client:
        changes = client.watch_tools()
        assert next(changes).HasField("started")
        on_a = Streamed(daemon, "a.tick_often", times=20).began()
        on_b = Streamed(daemon, "b.tick_often", times=20).began()
        home.plugin("a", lasting("a2"), version="1.1.0")
        answer = daemon.reload()
        assert list(answer.changed) == ["a"]
        assert "b" in answer.kept
        on_a.join(10)
        on_b.join(10)
        assert (on_a.result.code, json.loads(on_a.result.data_json)) == ("OK", "a1")
        assert (on_b.result.code, json.loads(on_b.result.data_json)) == ("OK", "b1")
        assert on_b.ticks == 20
        assert on_a.result.generation == on_b.result.generation < answer.generation
        change = next(changes)
        assert change.change.name.startswith("a.")
    after = daemon.plugin("b")
    assert (after.digest, after.generation, after.since) == (
        untouched.digest,
        untouched.generation,
        untouched.since,
    )


def test_a_reload_that_changes_the_sockets_permissions_answers_its_own_asker(
    home: Home, serve: Serve
) -> None:
    """caddy#4184: a reload over the API reset the connection of its own caller."""
    group = grp.getgrgid(os.getegid()).gr_name
    daemon = serve()
    home.configure({"server": {"socket_group": group, "listen": [home.address, f"{home.address}2"]}})
    answer = daemon.ctl("reload")
    assert answer.returncode == 0, answer.stderr
    assert "server.listen" in answer.stdout
    assert "restart" in answer.stdout
    assert stat.S_IMODE(home.socket.stat().st_mode) == 0o600, "what needs a restart waits for it"
    assert daemon.status().state == "ready"


@pytest.mark.promise("FLT-7")
def test_listings_and_calls_do_not_wait_for_a_plugin_that_is_slow_to_prepare(
    home: Home, serve: Serve
) -> None:
    """caddy#5628, caddy#5645: one mutex for reading the current state and for making the next.

    home-assistant/core#113169, #116188, #179092: a blocking import on the loop.
    langgenius/dify-plugin-daemon#336: one plugin that is never ready holds up the others.
    """
    home.follow("slow", "quick")
    home.plugin("quick", word("quick"))
    daemon = serve()
    home.plugin("slow", "import time\ntime.sleep(2)\n" + word("slow"))
    home.replace(home.plugins / "quick" / "quick.py", word("quicker"))

    async def measure() -> list[float]:
        took = []
        async with daemon.async_client() as client:
            await client.list_tools()
            pending = asyncio.create_task(client.reload())
            await asyncio.sleep(0.1)
            while not pending.done():
                for ask in (client.list_tools, lambda: client.call_tool("quick.say_word")):
                    begun = time.monotonic()
                    await ask()
                    took.append(time.monotonic() - begun)
                await asyncio.sleep(0.02)
            answer = await pending
            assert "slow" in answer.added or "slow" in answer.pending
        return took

    took = sorted(asyncio.run(measure()))
    assert len(took) > 20
    # Not the worst one: this machine may have been busy for a moment.
    assert took[int(len(took) * 0.9)] < 0.05, took
    eventually(lambda: daemon.plugin("slow").state == "ready", what="the slow plugin")
    assert daemon.call("quick.say_word") == "quicker"


def test_a_plugin_that_never_gets_ready_stays_pending_then_is_refused_and_the_others_serve(
    home: Home, serve: Serve
) -> None:
    """langgenius/dify-plugin-daemon#336: an import that never ends; prepare_timeout_s bounds it."""
    home.configure(
        trusted={"never": {"follow": True}, "fine": {"follow": True}},
        prepare_timeout_s=3,
        commit_window_s=0.5,
    )
    home.plugin("never", "import time\ntime.sleep(60)\n" + word("never"))
    home.plugin("fine", word("fine"))
    daemon = serve()
    assert daemon.call("fine.say_word") == "fine"
    assert daemon.plugin("never").state == "pending"
    refused = eventually(lambda: daemon.plugin("never").rejections, 10, "the refusal")
    assert "3 s" in refused[0].reason
    assert refused[0].file.endswith("never.py")
    assert refused[0].remedy
    home.replace(home.plugins / "never" / "never.py", word("mended"))
    eventually(lambda: daemon.plugin("never").state == "ready", what="the mended one")
    assert daemon.call("never.say_word") == "mended"


@pytest.mark.promise("FLT-8")
def test_a_call_sees_tools_and_answers_of_one_generation_while_generations_are_swapped(
    home: Home, serve: Serve
) -> None:
    """prometheus/prometheus#3605: components saw different configurations in the middle of a reload.

    nats-server fcd4231: a data race between status and reload.
    """
    home.follow("pair")

    def pair(number: int) -> str:
        return f'''
from hermesd.plugin import tool

@tool(side_effects="read", version="{number}.0.0", name="pair.tell_v{number}")
def tell() -> str:
    """Tells its version."""
    from .late import NUMBER
    return f"{number} {{NUMBER}}"
'''

    home.plugin("pair", pair(0), late="NUMBER = 0\n")
    daemon = serve()
    stop = threading.Event()
    faults: list[object] = []

    def hammer() -> None:
        with daemon.client() as client:
            while not stop.is_set():
                status = client.get_status()
                listed = client.list_tools(domain="pair")
                names = [each.name for each in listed.tools]
                if len(names) != 1 or status.generation > listed.generation or status.state != "ready":
                    faults.append((names, status.generation, listed.generation))
                    continue
                result = client.call_tool(names[0])
                number = names[0].removeprefix("pair.tell_v")
                if result.code == "UNKNOWN_TOOL" and result.generation != listed.generation:
                    continue  # swapped between the listing and the call
                if not result.ok or result.data != f"{number} {number}" or result.version != f"{number}.0.0":
                    faults.append((names, result.code, result.message, result.data))

    threads = [threading.Thread(target=hammer, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 16):
        home.plugin("pair", pair(number), late=f"NUMBER = {number}\n")
        answer = daemon.reload()
        assert not answer.rejected
    stop.set()
    for thread in threads:
        thread.join(10)
    assert not faults, faults[:3]


@pytest.mark.promise("FLT-2")
def test_one_broken_manifest_of_ten_leaves_all_ten_serving_and_the_process_alive(
    home: Home, serve: Serve
) -> None:
    """FRR#10453, #10187: a parse failure was treated as empty and wiped what ran.

    FRR#4124, keepalived#1660, otel-collector#11817: a bad reload ended the process.
    """
    names = [f"p{number}" for number in range(10)]
    home.follow(*names)
    for name in names:
        home.plugin(name, word(name))
    daemon = serve()
    manifest = home.plugins / "p4" / "plugin.yaml"
    home.replace(manifest, "name: p4\nversion: 1.0.0\nentry: [p4.py\n")
    answer = daemon.reload()
    assert [(each.name, each.file, each.line) for each in answer.rejected] == [("p4", str(manifest), 4)]
    assert not answer.removed
    for name in names:
        assert daemon.call(f"{name}.say_word") == name
    configuration = home.config.read_text()
    home.replace(home.config, "server: {listen: [\n")
    answer = daemon.reload()
    assert {"p4", "configuration"} <= {each.name for each in answer.rejected} | {"configuration"}
    assert str(home.config) in {each.file for each in answer.rejected}
    for name in names:
        assert daemon.call(f"{name}.say_word") == name
    home.config.unlink()
    answer = daemon.reload()
    assert str(home.config) in str(answer.rejected)
    assert not answer.removed
    assert daemon.call("p9.say_word") == "p9"
    assert daemon.process.poll() is None
    home.replace(home.config, configuration)
    home.plugin("p4", word("p4"))
    assert not daemon.reload().rejected


def test_the_outcome_does_not_depend_on_the_order_in_which_good_and_bad_are_found(
    home: Home, serve: Serve
) -> None:
    """hashicorp/vault#30329: the loop ended at the first bad plugin."""
    goods, bads = ["b", "d", "f"], ["a", "c", "e", "g"]
    home.follow(*goods, *bads)
    for name in goods:
        home.plugin(name, word(name))
    home.plugin("a", "raise ValueError('a')\n")
    home.plugin("c", word("c"), manifest="unknown: 1\n")
    home.plugin("e", "def broken(:\n")
    home.plugin("g", "import sys\nsys.exit(3)\n")
    daemon = serve()
    for _ in range(2):
        states = {each.name: each.state for each in daemon.status().plugins if each.origin == "folder"}
        assert states == {**dict.fromkeys(goods, "ready"), **dict.fromkeys(bads, "rejected")}
        assert {each.name for each in daemon.reload().rejected} == set(bads)
    assert daemon.process.poll() is None


@pytest.mark.promise("FLT-9")
def test_the_hooks_of_each_generation_run_exactly_once_on_every_path(home: Home, serve: Serve) -> None:
    """hashicorp/vault#17248: what was reloaded by hand was not initialised.

    coredns/coredns#1618, #1722, #3464, #3492, coredns#1456: what is retired is really shut down.
    """
    out = home.path / "hooks"
    home.follow("hooked")
    home.plugin("hooked", hooks(out))
    daemon = serve()
    paths: list[Callable[[], object]] = [
        daemon.reload,
        lambda: daemon.reload("hooked"),
        lambda: daemon.process.send_signal(signal.SIGHUP),
        lambda: None,  # the watcher alone
    ]
    for number, ask in enumerate(paths, 1):
        home.plugin("hooked", hooks(out), version=f"1.0.{number}")
        ask()
        expected = f"client of 1.0.{number}"
        eventually(lambda expected=expected: daemon.call("hooked.use_client") == expected, what=expected)
    daemon.reload()
    daemon.reload(dry_run=True)
    assert daemon.stop() == 0
    lines = out.read_text().splitlines()
    for number in range(5):
        for hook in ("startup", "shared", "unshared", "shutdown"):
            assert lines.count(f"{hook} 1.0.{number}") == 1, lines
        # Make before break: the new one is open before the old one is closed.
        if number:
            assert lines.index(f"shared 1.0.{number}") < lines.index(f"shutdown 1.0.{number - 1}")


def test_a_reload_without_a_change_changes_nothing_that_anybody_sees(home: Home, serve: Serve) -> None:
    """nats-io/nats-server#1736: a feature was lost after a SIGHUP that changed nothing."""
    home.follow("a", "w", isolation="process")
    home.plugin("a", lasting("a"))
    home.plugin("w", word("w"))
    daemon = serve()
    assert daemon.call("w.say_word") == "w"

    def seen() -> tuple[object, ...]:
        status = daemon.status()
        with daemon.client() as client:
            tools = [each.SerializeToString() for each in client.tools(include_unavailable=True)]
        plugins = [each.SerializeToString() for each in status.plugins]
        return status.revision, status.generation, tools, plugins

    before = seen()
    answer = daemon.reload()
    assert [*answer.added, *answer.changed, *answer.removed, *answer.rejected] == []
    daemon.process.send_signal(signal.SIGHUP)
    eventually(lambda: {"signal"} <= {each.subject for each in daemon.events("reload_finished")})
    assert seen() == before
    assert daemon.call("w.say_word") == "w"
    stream = Streamed(daemon, "a.tick_often", times=2).began()
    stream.join(10)
    assert stream.result.code == "OK"


@pytest.mark.promise("FLT-10")
def test_sixty_quick_reloads_under_a_stuck_call_never_leave_more_than_three_draining(
    home: Home, serve: Serve
) -> None:
    """haproxy/haproxy#155, #1876, #327, #228: old workers linger and pile up."""
    home.configure(
        {"server": {"drain_timeout_s": 20}},
        trusted={"slow": {"follow": True}},
        max_stray_threads=100,
        close_timeout_s=0.5,
    )
    home.plugin("slow", lasting("0"))
    daemon = serve()
    most = 0
    with daemon.client() as client:
        for number in range(1, 61):
            if number % 5 == 0:
                stream = Streamed(daemon, "slow.tick_often", times=600)
                stream.began()
            home.replace(home.plugins / "slow" / "slow.py", lasting(str(number)))
            client.reload(no_wait=True)
            most = max(most, next(each for each in client.plugins() if each.name == "slow").draining)
    assert daemon.call("slow.say_word") == "60"
    assert 0 < most <= 3 + 1, most  # the fourth is being cut at that instant
    eventually(lambda: daemon.plugin("slow").draining <= 3, 5, "the surplus to be cut")
    daemon.kill()  # a stop would wait for the streams


def test_many_reloads_asked_at_once_are_few_passes_and_restart_nothing(home: Home, serve: Serve) -> None:
    """kubernetes/ingress-nginx#1088; nginx/nginx-gateway-fabric#5524: 136 reloads in ten minutes.

    hermes-agent#52417, #52264: a reload that only a chat could ask for.
    """
    home.follow("w", isolation="process")
    home.plugin("w", word("w"))
    daemon = serve()
    assert daemon.call("w.say_word") == "w"
    pid = daemon.plugin("w").pid
    assert pid

    async def ask() -> list[Any]:
        async with daemon.async_client() as client:
            answers = await asyncio.gather(*(client.reload() for _ in range(136)))
            return list(answers)

    before = _passes(daemon)
    answers = asyncio.run(ask())
    assert len({each.generation for each in answers}) == 1
    assert not any(each.changed or each.rejected for each in answers)
    assert _passes(daemon) - before <= 10
    assert daemon.plugin("w").pid == pid
    assert len(daemon.descendants()) == 2, "the launcher and one worker"


def _passes(daemon: Daemon) -> int:
    return len(daemon.events("reload_finished"))


@pytest.mark.promise("FLT-11")
def test_a_refused_content_is_tried_again_when_it_changes_or_somebody_asks_and_not_before(
    home: Home, serve: Serve
) -> None:
    """envoy#10046: what was refused was sent again and again."""
    tries = home.path / "tries"
    home.follow("bad", "other")
    note = f"open({str(tries)!r}, 'a').write('x')\n"
    home.plugin("bad", note + "raise RuntimeError('no')\n")
    home.plugin("other", word("0"))
    daemon = serve()
    assert tries.read_text() == "x"
    for number in (1, 2):
        home.replace(home.plugins / "other" / "other.py", word(str(number)))
        eventually(lambda number=number: daemon.call("other.say_word") == str(number))
    assert tries.read_text() == "x"
    answer = daemon.reload()
    assert tries.read_text() == "xx"
    assert [(each.name, each.line) for each in answer.rejected] == [("bad", 2)]
    home.replace(home.plugins / "bad" / "bad.py", note + "\n" + word("good"))
    eventually(lambda: daemon.plugin("bad").state == "ready")
    assert tries.read_text() == "xxx"
