"""What a reload makes of contents, settings, names, dependencies and refusals: seen from outside."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from hermesd.client import RaceLostError
from tests.calls import calling
from tests.harness import Daemon, Home, cli, eventually
from tests.plugins import hooks, word

Serve = Callable[..., Daemon]


def test_a_changed_setting_replaces_its_plugin_alone_and_a_bad_one_nothing(home: Home, serve: Serve) -> None:
    """circus-tent/circus#772, #553, #559: changed first and refused then; what was implicit vanished."""
    code = '''
from hermesd.plugin import ToolContext, tool

@tool(side_effects="read")
def tell_port(ctx: ToolContext) -> int:
    """Tells its port."""
    return ctx.settings["port"]
'''
    schema = "settings: {type: object, required: [port], properties: {port: {type: integer}}}\n"

    def configure(port: object) -> None:
        trusted = {name: {"follow": True} for name in ("a", "b")}
        home.configure(trusted=trusted, settings={"a": {"port": port}, "b": {"port": 9}})

    configure(1)
    home.plugin("a", code, manifest=schema)
    home.plugin("b", code, manifest=schema)
    daemon = serve()
    bundled = [each.name for each in daemon.status().plugins if each.origin == "bundled"]
    assert bundled
    configure(2)
    answer = daemon.reload()
    assert list(answer.changed) == ["a"]
    assert {"b", *bundled} <= set(answer.kept)
    assert (daemon.call("a.tell_port"), daemon.call("b.tell_port")) == (2, 9)
    configure("two")
    answer = daemon.reload()
    refusal = answer.rejected[0]
    assert (refusal.name, refusal.file) == ("a", str(home.config))
    assert refusal.line > 0
    assert "port" in refusal.reason
    assert (daemon.call("a.tell_port"), daemon.call("b.tell_port")) == (2, 9)
    assert {*bundled} <= {each.name for each in daemon.status().plugins}


def test_names_differ_by_more_than_their_case(home: Home, serve: Serve) -> None:
    """circus-tent/circus#823: the case of a name broke the comparison."""
    home.follow("orders")
    home.plugin("orders", word("lower"))
    upper = home.plugins / "Orders"
    upper.mkdir()
    home.replace(upper / "orders.py", word("upper"))
    home.replace(upper / "plugin.yaml", "name: Orders\nversion: 1.0.0\nentry: orders.py\n")
    daemon = serve()
    assert daemon.call("orders.say_word") == "lower"
    answer = daemon.reload()
    assert [*answer.added, *answer.changed, *answer.removed] == []
    refusal = next(each for each in answer.rejected if "Orders" in each.file)
    assert refusal.reason
    assert refusal.remedy


def test_check_says_would_and_reload_says_did(home: Home, serve: Serve) -> None:
    """supervisor#969, #592: rereading and applying were two things, and nobody could tell them apart."""
    home.configure(watch=False, trusted={"orders": {"follow": True}})
    home.plugin("orders", word("two"))
    daemon = serve()
    home.replace(home.plugins / "orders" / "orders.py", word("three"))
    checked = cli("check", "--config", str(home.config))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    rehearsed = daemon.ctl("reload", "--dry-run")
    assert rehearsed.returncode == 0
    assert "nothing changed; a reload would give: 0 added, 1 changed" in rehearsed.stdout
    assert daemon.call("orders.say_word") == "two"
    applied = daemon.ctl("reload")
    assert "generation" in applied.stdout
    assert "would" not in applied.stdout
    assert daemon.call("orders.say_word") == "three"
    help_text = cli("check", "--help").stdout
    assert "start" in help_text or "change" in help_text


def test_a_plugin_whose_registration_fails_after_its_first_tool_leaves_nothing_and_goes_when_removed(
    home: Home, serve: Serve
) -> None:
    """home-assistant/core#176593: a part failed silently, and the rest could not be unloaded.

    hermes-agent#60050, #64178, #19889: what a plugin had registered outlived it.
    """
    home.follow("half")
    folder = home.plugin(
        "half",
        word("half")
        + """
def hermesd_tools():
    def first() -> str:
        "Fine."
        return "x"
    yield first
    raise RuntimeError("the second one fails")
""",
    )
    daemon = serve()
    found = daemon.plugin("half")
    assert found.state == "rejected"
    assert "the second one fails" in found.rejections[0].reason
    assert found.rejections[0].line > 0
    with daemon.client() as client:
        assert not [each.name for each in client.tools() if each.plugin == "half"]
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert list(daemon.reload().removed) == ["half"]
    assert daemon.plugin("half") is None


@pytest.mark.promise("FLT-12")
def test_a_plugin_with_a_fixed_port_that_says_so_is_stopped_before_its_successor_starts(
    home: Home, serve: Serve
) -> None:
    """coredns#1618, #1722, #3464, #3492: the new startup came before the old shutdown, EADDRINUSE."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def code(value: str) -> str:
        return f"""
import socket
from hermesd.plugin import tool

LISTENER = None

def hermesd_startup(ctx):
    global LISTENER
    LISTENER = socket.socket()
    LISTENER.bind(("127.0.0.1", {port}))
    LISTENER.listen()

def hermesd_shutdown(ctx):
    LISTENER.close()

{word(value)}
"""

    home.follow("porter", "plain")
    home.plugin("plain", word("plain"))
    home.plugin("porter", code("one"), manifest=f"exclusive: ['port:{port}']\n")
    daemon = serve()
    assert daemon.call("porter.say_word") == "one"
    home.replace(home.plugins / "porter" / "porter.py", code("two"))
    answer = daemon.reload()
    assert not answer.rejected, answer.rejected
    assert list(answer.changed) == ["porter"]
    assert daemon.call("porter.say_word") == "two"
    # A successor that cannot even be loaded stops nobody; one that cannot start gives way to the old.
    home.replace(home.plugins / "porter" / "porter.py", "def broken(:\n")
    assert daemon.reload().rejected
    assert daemon.call("porter.say_word") == "two"
    failing = code("three").replace("LISTENER.listen()", "raise RuntimeError('no')")
    home.replace(home.plugins / "porter" / "porter.py", failing)
    assert "no" in daemon.reload().rejected[0].reason
    # The failing one left its socket open until its garbage is collected; the old content serves again.
    eventually(lambda: daemon.plugin("porter").state in ("degraded", "rejected"))


def test_what_made_way_comes_back_when_its_successor_is_not_committed(home: Home, serve: Serve) -> None:
    home.configure(
        trusted={"alone": {"follow": True}, "bad": {"follow": True}}, watch=False, prepare_timeout_s=10
    )
    out = home.path / "hooks"
    exclusive = "exclusive: ['port:7']\n"
    home.plugin("alone", hooks(out), manifest=exclusive)
    daemon = serve()
    home.plugin("alone", hooks(out), manifest=exclusive, version="2.0.0")
    home.plugin("bad", "raise ValueError('no')\n")
    answer = daemon.reload(atomic=True)
    assert [each.name for each in answer.rejected] == ["bad"]
    assert not answer.changed
    assert daemon.call("alone.use_client") == "client of 1.0.0"
    assert daemon.plugin("alone").state == "ready"
    opened = [each for each in out.read_text().splitlines() if each.startswith(("startup", "shutdown"))]
    assert opened[:2] == ["startup 1.0.0", "shutdown 1.0.0"]
    assert opened[-1] == "startup 1.0.0"

    # Called off while it starts, by content that cannot be read: the last good one comes back.
    slow = hooks(out).replace('note(f"startup', 'import time; time.sleep(4); note(f"startup')
    home.plugin("alone", slow, manifest=exclusive, version="3.0.0")
    answer = daemon.reload(no_wait=True)
    assert "alone" in answer.pending
    home.replace(home.plugins / "alone" / "plugin.yaml", "name: [\n")
    answer = daemon.reload(no_wait=True)
    assert "alone" in {each.name for each in answer.rejected}
    eventually(lambda: daemon.plugin("alone").state == "degraded")
    assert daemon.call("alone.use_client") == "client of 1.0.0"


def test_a_tool_waits_for_what_it_depends_on_and_is_blocked_by_name_while_that_is_away(
    home: Home, serve: Serve
) -> None:
    """envoy#5174, #14060: what was referred to was not warm yet."""
    user = '''
from hermesd.plugin import ToolContext, tool

@tool(side_effects="read", depends_on=["base.say_word"], timeout_ms=10000)
def use_base(ctx: ToolContext) -> str:
    """Uses the other."""
    return VALUE + ctx.call("base.say_word")
'''
    home.follow("base", "user")
    calls = "permissions: {calls: ['base.*']}\n"
    home.plugin("base", word("base"))
    home.plugin("user", "VALUE = 'old '\n" + user, manifest=calls)
    daemon = serve()
    assert daemon.call("user.use_base") == "old base"
    home.replace(home.plugins / "base" / "base.py", "import time\ntime.sleep(1)\n" + word("warm"))
    home.replace(home.plugins / "user" / "user.py", "VALUE = 'new '\n" + user)
    seen = set()

    def settled() -> bool:
        seen.add(daemon.call("user.use_base"))
        return "new warm" in seen

    eventually(settled, what="both to be new")
    assert seen <= {"old base", "new warm", "old warm"}, "never the new one on what is not warm"
    for file in (home.plugins / "base").iterdir():
        file.unlink()
    (home.plugins / "base").rmdir()
    daemon.reload()
    with daemon.client() as client:
        result = client.call_tool("user.use_base")
    assert result.code in ("UNAVAILABLE", "DEPENDENCY_FAILED")
    assert "base.say_word" in result.message + json.dumps(result.detail)


def test_what_a_call_leased_is_not_closed_before_it_ends(home: Home, serve: Serve) -> None:
    """heyblueteam/cobalt#63: what served a connection was reaped while the connection lived."""
    out = home.path / "hooks"
    home.follow("hooked")
    wait = '''
import time

@tool(side_effects="read", timeout_ms=20000)
def use_slowly(ctx: ToolContext) -> str:
    """Uses what is shared, late."""
    time.sleep(1)
    return ctx.shared("client")
'''
    home.plugin("hooked", hooks(out) + wait)
    daemon = serve()
    with calling(daemon, "hooked.use_slowly") as results:
        home.plugin("hooked", hooks(out) + wait, version="2.0.0")
        daemon.reload(no_wait=True)
        assert "shutdown 1.0.0" not in out.read_text()
    assert results[0].data == "client of 1.0.0"
    eventually(lambda: "shutdown 1.0.0" in out.read_text(), what="the old one's shutdown")


def test_two_reloads_with_if_revision_cannot_both_win(home: Home, serve: Serve) -> None:
    """dify-plugin-daemon#794, #789: two installations raced for one map."""
    home.configure(watch=False, trusted={"orders": {"follow": True}})
    home.plugin("orders", word("one"))
    daemon = serve()
    revision = daemon.status().revision
    home.replace(home.plugins / "orders" / "orders.py", word("two"))

    async def ask() -> list[Any]:
        async with daemon.async_client() as first, daemon.async_client() as second:
            return await asyncio.gather(
                first.reload(if_revision=revision),
                second.reload(if_revision=revision, atomic=True),
                second.trust_plugin("time", follow=True),
                return_exceptions=True,
            )

    answers = asyncio.run(ask())
    lost = [each for each in answers[:2] if isinstance(each, RaceLostError)]
    won = [each for each in answers[:2] if not isinstance(each, Exception)]
    assert (len(lost), len(won)) == (1, 1), answers
    assert list(won[0].changed) == ["orders"]
    assert daemon.call("orders.say_word") == "two"


def test_an_edit_of_a_helper_alone_in_the_same_second_is_served(home: Home, serve: Serve) -> None:
    """python/cpython#75953, #120932: stale byte code; Medical-Software-Foundation/canvas-plugins#1546,
    voxel51/fiftyone#7315: stale submodules; mozaiks#659: what is reloaded is another module.
    """
    code = word("x").replace("return 'x'", "from .parts.helper import DIGIT\n    return DIGIT")
    home.follow("orders")
    folder = home.plugin("orders", code)
    (folder / "parts").mkdir()
    home.replace(folder / "parts" / "__init__.py", "")
    home.replace(folder / "parts" / "helper.py", "DIGIT = '0'\n")
    daemon = serve()
    stamp = time.time()
    for digit in "123456789":
        home.replace(folder / "parts" / "helper.py", f"DIGIT = '{digit}'\n")
        os.utime(folder / "parts" / "helper.py", (stamp, stamp))
        daemon.reload()
        assert daemon.call("orders.say_word") == digit
    assert not list(folder.rglob("__pycache__"))


def test_a_hook_that_offers_tools_may_offer_more_than_one_kind_and_sees_only_its_own_plugin(
    home: Home, serve: Serve
) -> None:
    """pytest-dev/pluggy#431, #347, #438, #473, pytest-dev/pytest#732: registries that change in a hook."""
    code = """
from hermesd.plugin import hookimpl, tool

@hookimpl
def hermesd_tools():
    @tool(side_effects="read", description="Made in a hook.")
    def made_inside() -> str:
        return "inside"
    return [made_inside]
"""
    home.follow("a", "b")
    home.plugin("a", code)
    home.plugin("b", code)
    daemon = serve()
    for name in ("a", "b"):
        assert daemon.call(f"{name}.made_inside") == "inside"
        assert list(daemon.plugin(name).tools) == [f"{name}.made_inside"]
    home.replace(home.plugins / "a" / "a.py", code.replace('"inside"', '"changed"'))
    daemon.reload("a")
    assert (daemon.call("a.made_inside"), daemon.call("b.made_inside")) == ("changed", "inside")
