"""The HTTP server's life: bind, run, stop. Imported only when `server.http` is set."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from hermesd.http.address import bind
from hermesd.http.application import Exposition, Health, application
from hermesd.http.connection import HttpConnection

GRACE_S = 3
MAX_CONNECTIONS = 64


class HttpServer:
    """Health, readiness and metrics over HTTP on a loopback address.

    `bind` (or `run`) raises ConfigError for a wrong address and LockedError for one in use. Signals stay
    the daemon's. `stop` ends `run` within a few seconds, whatever clients do.
    """

    def __init__(
        self,
        address: str,
        *,
        health: Health,
        metrics: Exposition,
        metrics_open: Callable[[], str],
    ) -> None:
        self._wanted = address
        self._listener: socket.socket | None = None
        config = uvicorn.Config(
            application(health, metrics, metrics_open),
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            h11_max_incomplete_event_size=16 * 1024,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = _Server(config)

    @property
    def address(self) -> str:
        """Where it listens, `HOST:PORT` with the port that was given; what was asked for before `bind`."""
        if self._listener is None:
            return self._wanted
        host, port, *_ = self._listener.getsockname()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def bind(self) -> None:
        """Take the address; connections wait until `run`."""
        if self._listener is None:
            self._listener = bind(self._wanted)

    async def run(self) -> None:
        """Serve until `stop`, or until cancelled: then connections are cut and the address is free."""
        self.bind()
        assert self._listener is not None  # noqa: S101 - bind() made it or raised
        try:
            await self._server.serve(sockets=[self._listener])
        except asyncio.CancelledError:
            self._server.force_exit = True
            if self._server.started:
                await self._server.shutdown(sockets=[self._listener])
            raise
        finally:
            self.close()

    async def started(self) -> None:
        """Returns when requests are answered."""
        await self._server.accepting.wait()

    def stop(self) -> None:
        """Ask `run` to finish what is being answered and return."""
        self._server.should_exit = True

    def close(self) -> None:
        """Free the address; what to call when `run` was never reached. Idempotent."""
        if self._listener is not None:
            self._listener.close()


class _Server(uvicorn.Server):
    """uvicorn without its hands on the process's signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.accepting.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would take SIGTERM and SIGINT over and raise them again afterwards: the daemon drains first.
        yield
