"""Both clients against a real server on a unix socket."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import grpc
import pytest

from hermesd.api.v1 import tool_pb2
from hermesd.client import (
    AsyncClient,
    BusyError,
    Client,
    DaemonFaultError,
    DeadlineError,
    MissingError,
    NotAllowedError,
    RaceLostError,
    RefusedError,
    ToolFailedError,
    UnreachableError,
    WatchLostError,
)
from hermesd.client.error import ConnectionLostError, was_never_sent
from hermesd.errors import InvalidRequestError
from tests.rpc_doubles import Daemon, tool_entry


@pytest.fixture
async def daemon(tmp_path: Path):
    async with Daemon(f"unix:{tmp_path}/hermesd.sock") as daemon:
        yield daemon


@pytest.fixture
async def client(daemon: Daemon):
    async with AsyncClient(daemon.address) as client:
        yield client


async def test_a_call_brings_back_data_as_python_values(client: AsyncClient):
    result = await client.call_tool("demo.echo_text", {"文本": "你好", "n": 2**70}, session_id="s")
    assert result.ok
    assert result.code == "OK"
    assert result.data == {"文本": "你好", "n": 2**70}
    assert (result.tool, result.session_id, result.effect) == ("demo.echo_text", "s", "none")
    assert result.request_id
    assert result.raise_for_error() is result


async def test_arguments_given_as_json_text_pass_through_unchanged(client: AsyncClient, daemon: Daemon):
    await client.call_tool("demo.echo_text", '{"b": 1.0, "a": 12345678901234567890}')
    assert daemon.calls.requests[-1].arguments_json == '{"b": 1.0, "a": 12345678901234567890}'


async def test_arguments_that_json_cannot_say_are_refused_before_sending(client: AsyncClient, daemon: Daemon):
    with pytest.raises(InvalidRequestError):
        await client.call_tool("demo.echo_text", {"x": float("nan")})
    assert daemon.calls.requests == []


async def test_a_tools_failure_is_a_result_that_can_be_raised(client: AsyncClient):
    result = await client.call_tool("demo.fail_always")
    assert not result.ok
    with pytest.raises(ToolFailedError, match=r"demo\.fail_always: TOOL_ERROR: 坏了") as caught:
        result.raise_for_error()
    assert caught.value.result is result
    assert caught.value.remedy == "mend it"


async def test_timeout_ms_reaches_the_call_and_its_rpc_gets_a_margin(client: AsyncClient, daemon: Daemon):
    await client.call_tool("demo.echo_text", timeout_ms=1500)
    request = daemon.calls.requests[-1]
    assert request.timeout_ms == 1500
    left = request.deadline - asyncio.get_running_loop().time()
    assert 5.5 < left < 6.5


async def test_all_pages_are_gone_through(client: AsyncClient, daemon: Daemon):
    daemon.registry.commit([tool_entry(f"bulk.item_{each:04}") for each in range(2345)])
    names = [tool.name async for tool in client.tools()]
    assert names == [f"bulk.item_{each:04}" for each in range(2345)]
    assert [plugin.name async for plugin in client.plugins()] == ["demo", "store"]


@pytest.mark.parametrize(
    ("tool", "kind", "reason"),
    [("demo.raise_fault", DaemonFaultError, "INTERNAL")],
)
@pytest.mark.promise("API-11")
async def test_a_fault_of_the_daemon_shows_an_id_and_no_text(client: AsyncClient, tool, kind, reason, caplog):
    with pytest.raises(kind) as caught:
        await client.call_tool(tool, request_id="find-me")
    assert caught.value.reason == reason
    assert "find-me" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "secret traceback text" in caplog.text


async def test_errors_are_grouped_by_what_can_be_done(client: AsyncClient, daemon: Daemon):
    with pytest.raises(MissingError) as missing:
        await client.get_tool("demo.echo_txt")
    assert missing.value.remedy.startswith("did you mean demo.echo_text")
    assert missing.value.code == "NOT_FOUND"
    with pytest.raises(RaceLostError, match="rev-1"):
        await client.reload(if_revision="old")
    with pytest.raises(RefusedError):
        await client.list_tools(page_size=-1)
    daemon.calls.draining = True
    with pytest.raises(BusyError, match="drains") as busy:
        await client.call_tool("demo.echo_text")
    assert busy.value.reason == "DRAINING"
    assert len(daemon.calls.requests) == 1, "a refusal by the daemon is not tried again"


async def test_a_token_is_refused_and_never_ignored(daemon: Daemon):
    async with AsyncClient(daemon.address, token="wrong") as stranger:
        for rpc in (stranger.get_status, stranger.list_tools):
            with pytest.raises(NotAllowedError) as caught:
                await rpc()
            assert caught.value.code == "UNAUTHENTICATED"
        with pytest.raises(NotAllowedError):
            await stranger.call_tool("demo.echo_text")
    assert daemon.calls.requests == []


async def test_the_deadline_of_the_client_is_told_as_such(client: AsyncClient, daemon: Daemon):
    with pytest.raises(DeadlineError):
        await client.call_tool("demo.wait_long", timeout_s=0.1)
    await asyncio.wait_for(daemon.calls.finished.wait(), 2)
    assert len(daemon.calls.cancelled) == 1, "the call did not outlive its caller"


async def test_every_admin_rpc_has_a_method(client: AsyncClient, daemon: Daemon):
    status = await client.get_status()
    assert status.processes[0].rss_bytes == 2**33
    assert status.git.dirty
    assert status.plugins[0].name == "demo"
    assert status.reload.at.ToDatetime().year == 2026
    assert (await client.get_config()).values[0].origin == "default"
    report = await client.reload("demo", dry_run=True)
    assert (report.rejected[0].file, report.rejected[0].line) == ("/p/坏/plugin.yaml", 3)
    assert report.git.commit == "abc"
    await client.drain()
    await client.resume()
    assert "时间" in (await client.dump_state()).state_json
    assert (await client.get_plugin("demo")).plugin.state == "ready"
    await client.set_plugin("demo", enabled=False)
    await client.trust_plugin("demo", digest="sha256:1", isolation="process", follow=True)
    await client.untrust_plugin("demo")
    await client.grant_plugin("demo", {"secrets": ["TOKEN"]})
    await client.revoke_plugin("demo")
    await client.rollback_plugin("demo", digest="sha256:2")
    assert (await client.set_tool("demo.echo_text", enabled=True)).tool.name == "demo.echo_text"
    reset = await client.reset_circuit("demo.echo_text")
    assert (reset.tool.name, reset.reset) == ("demo.echo_text", True)
    await client.shutdown()
    done = [
        each[:-1] if each[0] not in ("drain", "resume", "shutdown") else each
        for each in daemon.administration.done
    ]
    assert done == [
        ("drain",),
        ("resume",),
        ("set_plugin", "demo", False),
        ("trust", "demo", "sha256:1", "process", True),
        ("untrust", "demo"),
        ("grant", "demo", {"secrets": ["TOKEN"]}),
        ("revoke", "demo", {}),
        ("rollback", "demo", "sha256:2"),
        ("set_tool", "demo.echo_text", True),
        ("reset_circuit", "demo.echo_text"),
        ("shutdown",),
    ]


async def test_history_pages_go_on_after_the_last_digest(client: AsyncClient):
    seen, token = [], ""
    while True:
        page = await client.list_plugin_history("demo", page_size=2, page_token=token)
        seen += [each.digest for each in page.contents]
        token = page.next_page_token
        if not token:
            break
    assert seen == [*(f"sha256:{each}" for each in range(5)), "sha256:" + "1" * 64]
    assert page.contents[-1].serving


async def test_plugin_log_lines_follow_started(client: AsyncClient, daemon: Daemon):
    events = [each async for each in client.read_plugin_log("demo", lines=2)]
    assert [each.WhichOneof("entry") for each in events] == ["started", "line", "line"]
    assert [each.line.message for each in events[1:]] == ["3", "4"]
    stream = client.read_plugin_log("demo", lines=0, follow=True)
    assert (await anext(stream)).HasField("started")
    daemon.administration.follow.set()
    assert (await anext(stream)).line.message == "later"
    await stream.aclose()


async def test_watch_events_begins_with_recent_ones_and_ends_when_not_followed(
    client: AsyncClient, daemon: Daemon
):
    for each in range(5):
        daemon.happen("plugin_ready", number=each)
    events = [each async for each in client.watch_events(recent=2, follow=False)]
    assert [each.seq for each in events] == [3, 4, 5]
    assert events[0].HasField("started")
    assert events[1].event.fields_json == '{"number":3}'


async def test_a_watch_that_fell_behind_is_told_apart(client: AsyncClient, daemon: Daemon):
    for _ in range(150):
        daemon.registry.change("changed", "demo.echo_text")
    with pytest.raises(WatchLostError) as caught:
        [each async for each in client.watch_tools(after_seq=3)]
    assert caught.value.code == "OUT_OF_RANGE"
    with pytest.raises(WatchLostError, match="restarted"):
        [each async for each in client.watch_tools(after_seq=9999)]


async def test_closing_the_iterator_of_a_streamed_call_cancels_it(client: AsyncClient, daemon: Daemon):
    stream = client.stream_call_tool("demo.wait_long", request_id="gone")
    assert (await anext(stream)).started.request_id == "gone"
    await stream.aclose()
    await asyncio.wait_for(daemon.calls.finished.wait(), 2)
    assert daemon.calls.cancelled == ["gone"]


async def test_a_missing_daemon_is_unreachable_and_all_places_are_named(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{tmp_path}/r")
    monkeypatch.delenv("HERMESD_ADDRESS", raising=False)
    with Client() as client, pytest.raises(UnreachableError) as caught:
        client.call_tool("demo.echo_text")
    assert caught.value.addresses[:2] == (
        f"unix:{tmp_path}/r/hermesd.sock",
        f"unix:{tmp_path}/hermesd/hermesd.sock",
    )
    for each in caught.value.addresses:
        assert each in str(caught.value)


class Cut:
    """A way to the daemon that can be cut off."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        far_reader, far_writer = await asyncio.open_unix_connection(self.target)
        self._writers += [writer, far_writer]
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    def cut(self) -> None:
        for each in self._writers:
            each.transport.abort()
        self._writers.clear()

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
            writer.close()


@pytest.mark.promise("API-12")
async def test_a_call_whose_connection_broke_is_not_sent_twice(daemon: Daemon, tmp_path: Path):
    way = Cut(f"{tmp_path}/hermesd.sock")
    async with (
        await asyncio.start_unix_server(way.connect, f"{tmp_path}/way"),
        AsyncClient(f"unix:{tmp_path}/way") as client,
    ):
        call = asyncio.create_task(client.call_tool("demo.wait_long"))
        while not daemon.calls.inflight:
            await asyncio.sleep(0.005)
        way.cut()
        with pytest.raises(ConnectionLostError):
            await call
        await asyncio.wait_for(daemon.calls.finished.wait(), 2)
        assert len(daemon.calls.requests) == 1
        way.cut()


@pytest.mark.promise("API-12")
async def test_a_call_with_an_idempotency_key_is_sent_again(daemon: Daemon, tmp_path: Path, monkeypatch):
    way = Cut(f"{tmp_path}/hermesd.sock")
    call, keys = daemon.calls.call, []

    async def cut_the_first_time(request, *more):
        keys.append(request.idempotency_key)
        if len(keys) == 1:
            way.cut()
        return await call(request, *more)

    monkeypatch.setattr(daemon.calls, "call", cut_the_first_time)
    async with (
        await asyncio.start_unix_server(way.connect, f"{tmp_path}/way"),
        AsyncClient(f"unix:{tmp_path}/way") as client,
    ):
        assert (await client.call_tool("demo.echo_text", {"text": "x"}, idempotency_key="k")).ok
        assert keys == ["k", "k"]
        way.cut()


@pytest.mark.promise("API-12")
async def test_a_read_whose_connection_broke_is_sent_again(daemon: Daemon, tmp_path: Path, monkeypatch):
    way = Cut(f"{tmp_path}/hermesd.sock")
    status = daemon.administration.status
    asked = 0

    async def cut_the_first_time():
        nonlocal asked
        asked += 1
        if asked == 1:
            way.cut()
        return await status()

    monkeypatch.setattr(daemon.administration, "status", cut_the_first_time)
    async with (
        await asyncio.start_unix_server(way.connect, f"{tmp_path}/way"),
        AsyncClient(f"unix:{tmp_path}/way") as client,
    ):
        assert (await client.get_status()).state == "ready"
        assert (asked, way.connections) == (2, 2)
        way.cut()


class _Status(grpc.RpcError):
    def __init__(self, code, details, trailers=()):
        self._it = (code, details, trailers)

    def code(self):
        return self._it[0]

    def details(self):
        return self._it[1]

    def trailing_metadata(self):
        return self._it[2]


def test_only_a_failed_connection_proves_that_nothing_was_sent():
    unavailable = grpc.StatusCode.UNAVAILABLE
    assert was_never_sent(_Status(unavailable, "failed to connect to all addresses; last error: x"))
    assert not was_never_sent(_Status(unavailable, "Socket closed"))
    assert not was_never_sent(_Status(grpc.StatusCode.INTERNAL, "failed to connect to all addresses"))
    told = (("grpc-status-details-bin", b"x"),)
    assert not was_never_sent(_Status(unavailable, "failed to connect to all addresses", told))


async def test_a_client_finds_the_daemon_again_after_its_restart(tmp_path: Path):
    address = f"unix:{tmp_path}/s"
    async with AsyncClient(address) as client:
        async with Daemon(address):
            assert (await client.call_tool("demo.echo_text")).ok
        async with Daemon(address):
            assert (await client.get_status()).state == "ready"


async def test_the_blocking_client_does_the_same(daemon: Daemon):
    def use() -> list[str]:
        with Client(daemon.address) as client:
            seen = [tool.name for tool in client.tools()]
            seen.append(client.call_tool("demo.echo_text", {"文本": "好"}).data["文本"])
            seen += [str(each.WhichOneof("event")) for each in client.stream_call_tool("demo.talk_much")]
            watch = client.watch_tools()
            seen.append(str(next(watch).WhichOneof("event")))
            watch.close()
            seen.append(client.get_status().state)
            with pytest.raises(MissingError):
                client.get_plugin("none")
            return seen

    assert await asyncio.to_thread(use) == [
        "demo.echo_text",
        "demo.talk_much",
        "demo.wait_long",
        "store.put_item",
        "好",
        "started",
        "progress",
        "log",
        "progress",
        "result",
        "started",
        "ready",
    ]


def test_both_clients_offer_the_same_methods():
    def public(kind) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(Client) == public(AsyncClient)
    rpcs = {method.name for method in tool_pb2.DESCRIPTOR.services_by_name["ToolService"].methods}
    assert {"".join(part.title() for part in name.split("_")) for name in public(Client)} >= rpcs
