"""Sockets and the end: what the server holds, and how it lets go."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hermesd.api.v1 import admin_pb2, admin_pb2_grpc, tool_pb2, tool_pb2_grpc
from hermesd.clock import SystemClock
from hermesd.errors import InvalidRequestError, LockedError, PreconditionError
from hermesd.rpc.listener import UnixListener
from hermesd.rpc.server import RpcServer
from tests.rpc_doubles import Daemon
from tests.rpc_wire import BIG, call, error_info, failure


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/hermesd.sock"


@pytest.fixture
async def daemon(address: str):
    async with Daemon(address) as daemon:
        yield daemon


@pytest.fixture
async def channel(daemon: Daemon):
    async with grpc.aio.insecure_channel(daemon.address, options=BIG) as channel:
        yield channel


@pytest.fixture
def tools(channel) -> tool_pb2_grpc.ToolServiceStub:
    return tool_pb2_grpc.ToolServiceStub(channel)


@pytest.fixture
def admin(channel) -> admin_pb2_grpc.AdminServiceStub:
    return admin_pb2_grpc.AdminServiceStub(channel)


# Sockets


@pytest.mark.promise("API-1")
async def test_the_socket_is_the_owners_alone(daemon: Daemon, tmp_path: Path):
    mode = (tmp_path / "hermesd.sock").stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


async def test_a_socket_group_may_use_the_socket(address: str, tmp_path: Path):
    async with Daemon(address, socket_group=str(os.getgid())):
        assert stat.S_IMODE((tmp_path / "hermesd.sock").stat().st_mode) == 0o660


def test_an_unknown_socket_group_is_named():
    with pytest.raises(PreconditionError, match="no group 'gibt-es-nicht'"):
        UnixListener(Path("/tmp/x.sock"), "gibt-es-nicht")


async def test_nothing_but_the_socket_and_its_lock_is_left_in_the_folder(daemon: Daemon, tmp_path: Path):
    assert sorted(each.name for each in tmp_path.iterdir()) == ["hermesd.sock", "hermesd.sock.lock"]
    await daemon.server.stop(1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("API-1")
async def test_a_stale_socket_of_a_dead_daemon_is_replaced(address: str, tmp_path: Path):
    code = "import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, f"{tmp_path}/hermesd.sock"], check=True)
    (tmp_path / "hermesd.sock.lock").write_text('{"pid": 1}')
    async with Daemon(address) as daemon, grpc.aio.insecure_channel(daemon.address) as channel:
        await admin_pb2_grpc.AdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest())


@pytest.mark.promise("API-1")
async def test_a_live_socket_of_somebody_else_is_never_stolen(address: str, tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"{tmp_path}/hermesd.sock")
        other.listen()
        inode = (tmp_path / "hermesd.sock").stat().st_ino
        with pytest.raises(LockedError, match=f"served by the process {os.getpid()}"):
            await Daemon(address).server.start()
        assert (tmp_path / "hermesd.sock").stat().st_ino == inode
        assert sorted(each.name for each in tmp_path.iterdir()) == ["hermesd.sock"]


async def test_a_file_that_is_no_socket_is_left_alone(address: str, tmp_path: Path):
    (tmp_path / "hermesd.sock").write_text("precious")
    with pytest.raises(LockedError, match="no socket"):
        await Daemon(address).server.start()
    assert (tmp_path / "hermesd.sock").read_text() == "precious"


@pytest.mark.promise("API-2")
async def test_a_second_daemon_on_the_same_socket_is_told_who_holds_it(daemon: Daemon, tools):
    """grpc#16920: a second bind of the same address must not succeed silently."""
    with pytest.raises(LockedError, match=f"pid {os.getpid()}"):
        await Daemon(daemon.address).server.start()
    assert (await tools.CallTool(call())).result.code == "OK"


@pytest.mark.promise("API-2")
async def test_a_second_daemon_on_the_same_port_is_refused():
    """grpc#16920, grpc#16005: with SO_REUSEPORT both would bind and share the connections."""
    async with Daemon("127.0.0.1:0") as first:
        with pytest.raises(LockedError, match="in use"):
            await Daemon(first.server.addresses[0]).server.start()


async def test_a_failed_start_lets_go_of_the_addresses_it_already_had(tmp_path: Path):
    (tmp_path / "second.sock").write_text("")
    backend = Daemon(f"unix:{tmp_path}/first.sock")
    both = RpcServer(
        backend.server._backend,
        addresses=[f"unix:{tmp_path}/first.sock", f"unix:{tmp_path}/second.sock"],
        clock=SystemClock(),
    )
    with pytest.raises(LockedError):
        await both.start()
    assert [each.name for each in tmp_path.iterdir()] == ["second.sock"]
    async with Daemon(f"unix:{tmp_path}/first.sock"):
        pass


async def test_stopping_removes_the_socket_only_while_it_is_ours(daemon: Daemon, tmp_path: Path):
    """gunicorn#476: an old process that exits must not remove the new one's socket."""
    path = tmp_path / "hermesd.sock"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(path))
        await daemon.server.stop(1)
        assert path.exists()


async def test_an_address_that_others_can_reach_is_refused_without_tls():
    with pytest.raises(PreconditionError, match="does not speak TLS"):
        await Daemon("0.0.0.0:0").server.start()


def test_a_path_that_is_too_long_for_a_socket_is_refused_with_the_reason():
    with pytest.raises(InvalidRequestError, match="107 bytes"):
        Daemon("unix:/" + "文" * 40)


# Stopping


async def test_stopping_ends_watches_and_says_why(admin, tools, daemon: Daemon):
    watch = tools.WatchTools(tool_pb2.WatchToolsRequest())
    events = admin.WatchEvents(admin_pb2.WatchEventsRequest())
    log = admin.ReadPluginLog(admin_pb2.ReadPluginLogRequest(name="demo", lines=0, follow=True))
    for each in (watch, events, log):
        await each.read()
    stopping = asyncio.create_task(daemon.server.stop(10))
    for each in (watch, events, log):
        error = await failure(each.read())
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert error_info(error).reason == "DRAINING"
    await asyncio.wait_for(stopping, 5)
    assert daemon.registry.open_watches == daemon.events.open_watches == 0


@pytest.mark.promise("API-3")
async def test_stopping_waits_for_calls_in_flight(tools, daemon: Daemon):
    running = asyncio.ensure_future(_call(tools, "demo.wait_long"))
    while not daemon.calls.inflight:
        await asyncio.sleep(0.005)
    stopping = asyncio.create_task(daemon.server.stop(10))
    await asyncio.sleep(0.05)
    assert not stopping.done()
    daemon.calls.release.set()
    assert (await running).result.code == "OK"
    await asyncio.wait_for(stopping, 5)


async def _call(tools, name: str) -> tool_pb2.CallToolResponse:
    return await tools.CallTool(call(name, request_id="last"))


@pytest.mark.promise("API-3")
async def test_a_call_that_is_cut_is_told_so_and_its_finally_runs(tools, daemon: Daemon):
    """grpc#37239: the server's own stop does not wait for the handlers that it aborts."""
    running = asyncio.ensure_future(failure(_call(tools, "demo.wait_long")))
    stream = tools.StreamCallTool(tool_pb2.StreamCallToolRequest(call=call("demo.wait_long", request_id="s")))
    await stream.read()
    while len(daemon.calls.inflight) < 2:
        await asyncio.sleep(0.005)
    await asyncio.wait_for(daemon.server.stop(0.05), 5)
    assert sorted(daemon.calls.cancelled) == ["last", "s"], "both had ended when stop returned"
    error = await running
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "may have had its effect" in error.details()
    assert (await failure(stream.read())).code() is grpc.StatusCode.UNAVAILABLE


async def test_a_health_watch_does_not_hold_up_the_stop(channel, daemon: Daemon):
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
    await watch.read()
    await asyncio.wait_for(daemon.server.stop(10), 5)
    watch.cancel()


async def test_whoever_asks_for_the_shutdown_gets_the_answer(admin, daemon: Daemon):
    """caddy#4184: a change asked for over the API must not reset its own asker."""
    stopping: list[asyncio.Task] = []
    daemon.administration.on_shutdown = lambda: stopping.append(asyncio.create_task(daemon.server.stop(5)))
    assert await admin.Shutdown(admin_pb2.ShutdownRequest()) == admin_pb2.ShutdownResponse()
    await asyncio.wait_for(stopping[0], 5)


async def test_stopping_twice_and_starting_again_work(address: str):
    daemon = Daemon(address)
    await daemon.server.stop(1)
    async with daemon:
        await daemon.server.stop(1)
        await daemon.server.stop(1)
    async with Daemon(address):
        pass
