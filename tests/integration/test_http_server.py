"""The HTTP edge over a real loopback socket."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from hermesd.errors import LockedError
from hermesd.http import connection
from hermesd.http.server import MAX_CONNECTIONS, HttpServer
from hermesd.telemetry.exposition import CONTENT_TYPE
from hermesd.telemetry.metric import Metrics


class Scrape:
    """The metrics of a daemon without children."""

    async def scrape(self) -> bytes:
        return Metrics().render()


class Daemon:
    """The part of the daemon's administration that this edge asks."""

    def __init__(self) -> None:
        self.living = True
        self.missing: list[str] = []

    def alive(self) -> bool:
        return self.living

    def readiness(self) -> tuple[bool, Mapping[str, object]]:
        return not self.missing, {"generation": 7, "state": "ready", "not_ready": self.missing}


@asynccontextmanager
async def serving(daemon: Daemon, metrics_open: str = "loopback") -> AsyncIterator[HttpServer]:
    server = HttpServer("127.0.0.1:0", health=daemon, metrics=Scrape(), metrics_open=lambda: metrics_open)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(server.run())
        await server.started()
        try:
            yield server
        finally:
            server.stop()


async def get(
    server: HttpServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    extra = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
    host_line = "" if "host" in headers else f"Host: {server.address}\r\n"
    writer.write(f"{method} {path} HTTP/1.1\r\n{host_line}{extra}Connection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return int(status.split()[1]), {key.lower(): value for key, _, value in pairs}, body


async def test_health_is_open_and_tells_the_dead_from_the_living() -> None:
    daemon = Daemon()
    async with serving(daemon) as server:
        assert (await get(server, "/healthz"))[0] == 200
        daemon.living = False
        assert (await get(server, "/healthz"))[0] == 503
        assert (await get(server, "/healthz", "HEAD"))[0] == 503


async def test_readiness_names_the_generation_and_what_is_not_ready() -> None:
    daemon = Daemon()
    async with serving(daemon) as server:
        status, _, body = await get(server, "/readyz")
        assert (status, json.loads(body)["ready"]) == (200, True)
        daemon.missing = ["plugin 订单"]
        status, _, body = await get(server, "/readyz")
        assert status == 503
        assert json.loads(body) == {
            "generation": 7,
            "state": "ready",
            "not_ready": ["plugin 订单"],
            "ready": False,
        }


@pytest.mark.promise("OPS-4")
async def test_metrics_are_open_to_this_machine_only_and_only_if_so_configured() -> None:
    async with serving(Daemon()) as server:
        status, headers, body = await get(server, "/metrics")
        assert status == 200
        assert headers["content-type"] == CONTENT_TYPE
        assert b"hermesd_build_info" in body
        assert (await get(server, "/metrics", x_forwarded_for="10.1.1.1"))[0] == 401
        assert (await get(server, "/metrics", host="evil.example"))[0] == 401
    async with serving(Daemon(), metrics_open="") as server:
        status, headers, body = await get(server, "/metrics")
        assert status == 401
        assert headers["www-authenticate"].startswith("Bearer")
        assert "telemetry.metrics_open" in json.loads(body)["remedy"]


@pytest.mark.promise("OPS-4")
async def test_everything_else_asks_for_an_identity() -> None:
    async with serving(Daemon()) as server:
        for path in ("/", "/mcp", "/docs", "/healthz/../metrics2"):
            assert (await get(server, path))[0] == 401
        assert (await get(server, "/mcp", "POST"))[0] == 401


async def test_a_second_server_on_the_address_is_refused_and_the_first_goes_on() -> None:
    async with serving(Daemon()) as server:
        second = HttpServer(
            server.address, health=Daemon(), metrics=Scrape(), metrics_open=lambda: "loopback"
        )
        with pytest.raises(LockedError, match="in use by process"):
            second.bind()
        assert (await get(server, "/healthz"))[0] == 200


async def test_signals_stay_the_daemons() -> None:
    """uvicorn#1160: the server must not take SIGTERM from the daemon that drains."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with serving(Daemon()):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_stopping_is_bounded_although_a_client_holds_its_connection_half_asked() -> None:
    """uvicorn#2943: an unbounded join keeps a daemon from stopping."""
    loop = asyncio.get_running_loop()
    async with serving(Daemon()) as server:
        host, _, port = server.address.rpartition(":")
        _, idle = await asyncio.open_connection(host, int(port))
        _, half = await asyncio.open_connection(host, int(port))
        half.write(b"GET /healthz HTTP/1.1\r\nHost: x")
        await half.drain()
        began = loop.time()
    assert loop.time() - began < 8
    for writer in (idle, half):
        writer.close()


async def test_a_cancelled_server_frees_its_address() -> None:
    server = HttpServer("127.0.0.1:0", health=Daemon(), metrics=Scrape(), metrics_open=lambda: "loopback")
    running = asyncio.ensure_future(server.run())
    await server.started()
    address = server.address
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        assert probe.connect_ex((host, int(port))) != 0


@pytest.mark.promise("HOS-10")
async def test_silent_connections_keep_no_probe_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_S", 0.3)
    async with serving(Daemon()) as server:
        host, _, port = server.address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(MAX_CONNECTIONS)]
        silent[0][1].write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")  # and never the end of it
        for reader, _ in silent:
            assert await reader.read() == b""
        assert (await get(server, "/healthz"))[0] == 200
        for _, writer in silent:
            writer.close()


@pytest.mark.promise("HOS-10")
async def test_a_connection_that_goes_on_asking_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_S", 0.4)
    async with serving(Daemon()) as server:
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in range(6):
            writer.write(f"GET /healthz HTTP/1.1\r\nHost: {server.address}\r\n\r\n".encode())
            assert b"200 OK" in await reader.readuntil(b'{"alive":true}')
            await asyncio.sleep(0.2)
        writer.close()
