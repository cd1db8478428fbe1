"""Results as a caller gets them from a real daemon: checked, with content, cut, kept, and detached."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable

import pytest

from hermesd.client import ClientError, MissingError
from hermesd.client.error import DaemonFaultError, RefusedError, WatchLostError
from tests.harness import Daemon, Home, eventually

CODE = '''
import asyncio
import time
from dataclasses import dataclass
from typing import Annotated, Any
from hermesd.plugin import Content, Image, ResourceLink, Text, ToolContext, tool

PNG = b"\\x89PNG\\r\\n\\x1a\\n" + bytes(100)

@dataclass
class Order:
    id: int
    name: str

@tool(side_effects="write")
def lie_about() -> Order:
    """Promises an order."""
    return {"id": "seven", "name": "x"}

@tool(side_effects="read")
async def show_all() -> Content[Order]:
    """All kinds of content."""
    return Content(Order(7, "订单"), [Text("一张图"), Image(PNG), ResourceLink("file:///d/订单.csv", size=3)])

@tool(side_effects="read")
def show_image() -> Image:
    """An image alone."""
    return Image(PNG)

@tool(side_effects="read")
def list_rows(count: int) -> list[Order]:
    """Many rows."""
    return [Order(each, f"订单 {each}") for each in range(count)]

@tool(side_effects="read")
async def relay_content(ctx: ToolContext) -> Any:
    """What another tool shows, handed on."""
    got = await ctx.call("PLUGIN.show_all")
    rows = await ctx.call("PLUGIN.list_rows", count=3000)
    return Content({"data": got.data, "rows": len(rows)}, got.parts)

@tool(side_effects="write")
async def work_long(ctx: ToolContext, seconds: float, path: str = "") -> str:
    """Works, and says how far it is."""
    ctx.progress(1, 2, "half")
    ctx.log("working")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.sleep(0.02)
    if path:
        open(path, "a").write("did it\\\\n")
    return "done"
'''


def offer(home: Home, **more: object) -> None:
    for name in ("shop", "shopw"):
        calls = "permissions: {calls: ['*']}\n"
        home.plugin(name, CODE.replace("PLUGIN", name).replace("\\\\\\\\n", "\\\\n"), manifest=calls)
    trusted = {
        "shop": {"follow": True, "isolation": "inprocess"},
        "shopw": {"follow": True, "isolation": "process"},
    }
    home.configure(more, trusted=trusted)


BOTH = pytest.mark.parametrize("shop", ["shop", "shopw"])


@BOTH
@pytest.mark.promise("OUT-1")
def test_a_result_is_what_its_definition_promises(home: Home, serve: Callable[..., Daemon], shop: str):
    offer(home)
    daemon = serve()
    with daemon.client() as client:
        result = client.call_tool(f"{shop}.lie_about")
    assert (result.code, result.effect, result.data) == ("INVALID_RESULT", "done", None)
    assert [each["path"] for each in result.detail["faults"]] == ["/id"]
    ran = daemon.ctl("tools", "call", f"{shop}.lie_about")
    assert ran.returncode == 1
    assert "INVALID_RESULT" in ran.stderr
    assert "/id" in ran.stderr


@BOTH
@pytest.mark.promise("OUT-2")
def test_content_travels_from_every_kind_of_runtime(home: Home, serve: Callable[..., Daemon], shop: str):
    offer(home)
    daemon = serve()
    with daemon.client() as client:
        result = client.call_tool(f"{shop}.show_all")
        alone = client.call_tool(f"{shop}.show_image")
        relayed = client.call_tool(f"{shop}.relay_content")
        definition = client.get_tool(f"{shop}.show_all").tool
    assert result.data == {"id": 7, "name": "订单"}
    text, image, link = result.content
    assert (text.type, text.text) == ("text", "一张图")
    assert (image.type, image.mime_type, image.data[:4], len(image.data)) == (
        "image",
        "image/png",
        b"\x89PNG",
        108,
    )
    assert (link.type, link.uri, link.name, link.size) == (
        "resource_link",
        "file:///d/订单.csv",
        "订单.csv",
        3,
    )
    assert (alone.data, [each.type for each in alone.content]) == (None, ["image"])
    assert relayed.ok, relayed.message
    assert relayed.data == {"data": result.data, "rows": 3000}
    assert list(relayed.content) == list(result.content)
    assert json.loads(definition.returns_json)["type"] == "object"
    shown = daemon.ctl("tools", "call", f"{shop}.show_all")
    assert json.loads(shown.stdout) == result.data
    assert "一张图" in shown.stderr
    assert "[image/png, 108 bytes]" in daemon.ctl("tools", "call", f"{shop}.show_image").stdout


@BOTH
@pytest.mark.promise("OUT-3")
def test_a_long_result_is_cut_as_json_and_read_whole_by_pages(
    home: Home, serve: Callable[..., Daemon], shop: str
):
    offer(home)
    daemon = serve()
    with daemon.client() as client:
        result = client.call_tool(f"{shop}.list_rows", {"count": 50_000}, request_id="big/../1")
        assert result.ok
        assert result.truncated
        rows = result.data
        assert rows[0] == {"id": 0, "name": "订单 0"}
        assert rows[-1] == {"id": 49_999, "name": "订单 49999"}
        marker = next(each for each in rows if isinstance(each, str))
        assert f"[{50_000 - (len(rows) - 1)} of 50000 items left out]" in marker
        first = client.read_call_output("big/../1")
        assert 0 < len(first.data.encode()) <= 1024 * 1024
        assert first.total == result.detail["output"]["bytes"] > 1024 * 1024
        whole = json.loads(client.call_output("big/../1"))
        assert whole == [{"id": each, "name": f"订单 {each}"} for each in range(50_000)]
        with pytest.raises(MissingError):
            client.read_call_output("another")
        with pytest.raises(RefusedError):
            client.read_call_output("big/../1", offset=first.total + 1)
    files = list((home.data / "output").iterdir())
    assert [stat.S_IMODE(each.stat().st_mode) for each in files] == [0o600]
    assert json.loads(daemon.ctl("calls", "output", "big/../1").stdout) == whole
    full = daemon.ctl("tools", "call", f"{shop}.list_rows", "count:=50000", "--full")
    assert json.loads(full.stdout) == whole
    cut = daemon.ctl("tools", "call", f"{shop}.list_rows", "count:=50000")
    assert json.loads(cut.stdout) == rows
    assert "hermesd ctl calls output" in cut.stderr


@pytest.mark.promise("OUT-3")
def test_the_numbers_of_results_are_the_operators_and_live(home: Home, serve: Callable[..., Daemon]):
    offer(home)
    daemon = serve()
    with daemon.client() as client:
        assert not client.call_tool("shop.list_rows", {"count": 60}).truncated
        sizes = []
        for limits in (
            {"max_tokens": 100, "head_tokens": 40, "tail_tokens": 40},
            {"max_tokens": 100, "head_tokens": 80, "tail_tokens": 0},
            {"max_tokens": 100, "head_tokens": 0, "tail_tokens": 80},
            {"max_tokens": 100},
        ):
            offer(home, defaults={"result": limits})
            client.reload()
            rows = client.call_tool("shop.list_rows", {"count": 60}).data
            at = next(index for index, each in enumerate(rows) if isinstance(each, str))
            sizes.append((at, len(rows) - 1 - at))
        assert sizes[0][0] == sizes[0][1] > 0
        assert sizes[1][0] > 0 == sizes[1][1]
        assert sizes[2][1] > 0 == sizes[2][0]
        assert sizes[3][0] > 0 < sizes[3][1]
        offer(home, defaults={"result": {"max_tokens": 100_000}})
        client.reload()
        assert not client.call_tool("shop.list_rows", {"count": 3000}).truncated


@pytest.mark.promise("OUT-4")
def test_what_was_kept_outlives_the_daemon_until_it_expires(home: Home, serve: Callable[..., Daemon]):
    offer(home, defaults={"result": {"keep_s": 4}})
    daemon = serve()
    with daemon.client() as client:
        began = time.monotonic()
        client.call_tool("shop.list_rows", {"count": 5000}, request_id="r")
    daemon.kill()
    again = serve()
    with again.client() as client:
        if time.monotonic() - began < 3.5:
            assert len(json.loads(client.call_output("r"))) == 5000

        def expired() -> bool:
            try:
                client.read_call_output("r")
            except MissingError:
                return True
            return False

        eventually(expired, 8, "the end of what was kept")


@pytest.mark.promise("OUT-6")
def test_kept_results_take_no_more_disk_than_they_may(home: Home, serve: Callable[..., Daemon]):
    offer(home, defaults={"result": {"keep_mb": 1}})
    daemon = serve()
    with daemon.client() as client:
        for each in range(6):
            client.call_tool("shop.list_rows", {"count": 10_000}, request_id=f"r{each}")
        with pytest.raises(MissingError):
            client.read_call_output("r0")
        assert client.read_call_output("r5").total > 300_000
        assert sum(each.stat().st_size for each in (home.data / "output").iterdir()) <= 1024 * 1024
        lost = client.call_tool("shop.list_rows", {"count": 50_000}).detail["output"]
    assert "lost" in lost
    assert daemon.events("outputs_lost")


@BOTH
@pytest.mark.promise("OUT-7")
def test_a_detached_call_outlives_its_connection_and_its_tools_own_timeout(
    home: Home, serve: Callable[..., Daemon], shop: str
):
    offer(home, defaults={"timeouts_ms": {"python": 300}})
    daemon = serve()
    done = home.path / "done"
    with daemon.client() as client:
        began = time.monotonic()
        arguments = {"seconds": 0.8, "path": str(done)}
        answer = client.call_tool(f"{shop}.work_long", arguments, request_id="d", detach=True)
        assert time.monotonic() - began < 0.7
        assert (answer.code, answer.data, answer.detached, answer.effect) == ("OK", None, True, "unknown")
    with daemon.client() as client:
        events = list(client.watch_call("d"))
        assert [each.WhichOneof("event") for each in events] == ["started", "progress", "log", "result"]
        assert [each.seq for each in events] == [1, 2, 3, 4]
        result = events[-1].result
        assert (result.code, result.data_json, result.effect) == ("OK", '"done"', "done")
        resumed = list(client.watch_call("d", after_seq=3))
        assert [each.WhichOneof("event") for each in resumed] == ["started", "result"]
        assert client.call_output("d") == '"done"'
        assert client.wait_for_call("d").data == "done"
        with pytest.raises(WatchLostError):
            list(client.watch_call("d", after_seq=99))
        for missing in ("nobody", "d2"):
            with pytest.raises(MissingError):
                list(client.watch_call(missing))
    assert done.read_text().count("did it") == 1


@pytest.mark.promise("OUT-7")
def test_what_can_be_refused_at_once_is_refused_at_once(home: Home, serve: Callable[..., Daemon]):
    offer(home)
    daemon = serve()
    with daemon.client() as client:
        wrong = client.call_tool("shop.work_long", {"seconds": "x"}, request_id="w", detach=True)
        assert wrong.code == "INVALID_ARGUMENT"
        with pytest.raises(MissingError):
            list(client.watch_call("w"))
        client.call_tool("shop.work_long", {"seconds": 5}, request_id="d", detach=True)
        with pytest.raises(ClientError, match="in flight"):
            client.call_tool("shop.work_long", {"seconds": 5}, request_id="d", detach=True)
        begun = (each.WhichOneof("event") in ("progress", "log") for each in client.watch_call("d"))
        assert any(begun)
        client.cancel_call("d")
        result = list(client.watch_call("d"))[-1].result
        assert (result.code, result.effect) == ("CANCELLED", "unknown")


@pytest.mark.promise("OUT-7")
def test_the_operator_detaches_watches_cancels_and_reads(home: Home, serve: Callable[..., Daemon]):
    offer(home)
    daemon = serve()
    begun = daemon.ctl("tools", "call", "shop.work_long", "seconds:=0.5", "--detach")
    assert begun.returncode == 0
    request_id = begun.stdout.strip()
    watched = daemon.ctl("calls", "watch", request_id)
    assert (watched.returncode, json.loads(watched.stdout)) == (0, "done")
    assert "working" in watched.stderr
    told = [
        json.loads(each) for each in daemon.ctl("--json", "calls", "watch", request_id).stdout.splitlines()
    ]
    assert told[0]["started"]["request_id"] == request_id
    assert told[-1]["result"]["code"] == "OK"
    page = daemon.ctl_json("calls", "output", request_id)
    assert (page["data"], int(page["total"])) == ('"done"', 6)
    daemon.ctl("tools", "call", "shop.work_long", "seconds:=9", "--detach", "--request-id", "mine")
    assert daemon.ctl("calls", "cancel", "mine").returncode == 0
    ended = daemon.ctl("calls", "watch", "mine")
    assert ended.returncode == 1
    assert "CANCELLED" in ended.stderr
    assert daemon.ctl("calls", "watch", "nobody").returncode == 1
    assert daemon.ctl("tools", "call", "shop.work_long", "seconds:=1", "--detach", "--stream").returncode == 2


@pytest.mark.promise("OUT-8")
def test_a_stop_waits_for_detached_calls_then_cuts_them_and_says_so(home: Home, serve: Callable[..., Daemon]):
    offer(home, server={"drain_timeout_s": 1.5})
    daemon = serve()
    with daemon.client() as client:
        client.call_tool("shop.work_long", {"seconds": 0.6}, request_id="short", detach=True)
        client.call_tool("shopw.work_long", {"seconds": 60}, request_id="long", detach=True)
    assert daemon.stop() == 0
    again = serve()
    with again.client() as client:
        short, long = (list(client.watch_call(each))[-1].result for each in ("short", "long"))
        assert (short.code, short.effect, client.call_output("short")) == ("OK", "done", '"done"')
    assert (long.code, long.effect) == ("UNAVAILABLE", "unknown")
    assert again.events("calls_lost") == []


@pytest.mark.fault
@pytest.mark.promise("OUT-8")
def test_after_a_crash_the_fate_of_detached_calls_is_told_as_unknown(
    home: Home, serve: Callable[..., Daemon]
):
    offer(home)
    daemon = serve()
    with daemon.client() as client:
        for each in range(5):
            client.call_tool("shop.work_long", {"seconds": 60}, request_id=f"d{each}", detach=True)
        client.call_tool("shop.work_long", {"seconds": 0}, request_id="done", detach=True)
        list(client.watch_call("done"))
    daemon.kill()
    again = serve()
    with again.client() as client:
        for each in range(5):
            result = list(client.watch_call(f"d{each}"))[-1].result
            assert (result.code, result.effect, result.tool) == ("UNAVAILABLE", "unknown", "shop.work_long")
            assert "look at what it changed" in result.detail_json
        assert list(client.watch_call("done"))[-1].result.code == "OK"
    assert [json.loads(each.fields_json)["calls"] for each in again.events("calls_lost")] == [5]
    again.kill()
    assert serve().events("calls_lost") == []


@pytest.mark.promise("OUT-5")
def test_a_call_that_cannot_be_noted_is_not_begun(home: Home, serve: Callable[..., Daemon]):
    offer(home)
    daemon = serve()
    (home.data / "output").rename(home.data / "away")
    with daemon.client() as client:
        with pytest.raises((ClientError, DaemonFaultError), match="No such file"):
            client.call_tool("shop.work_long", {"seconds": 0}, detach=True)
        result = client.call_tool("shop.list_rows", {"count": 5000})
        assert (result.ok, result.truncated) == (True, True)
        assert "No such file" in result.detail["output"]["lost"]
        (home.data / "away").rename(home.data / "output")
        assert "expires_at" in client.call_tool("shop.list_rows", {"count": 5000}).detail["output"]
    assert [each.kind for each in daemon.events() if each.kind.startswith("outputs")] == [
        "outputs_lost", "outputs_kept",
    ]  # fmt: skip
