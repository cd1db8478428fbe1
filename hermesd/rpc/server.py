"""The gRPC server's life: start (lock, bind, serve, publish), serving or not, stop.

`grpc.aio`'s own stop is a deadline and no drain, and does not wait for the handlers that it aborts. So this
one ends its own streams, waits for its own handlers, cuts what is left and waits for their `finally`, and
only then stops the server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer

from hermesd.api.v1 import admin_pb2_grpc, tool_pb2_grpc
from hermesd.client.address import Address, parse_address
from hermesd.clock import Clock
from hermesd.errors import LockedError, PreconditionError, Rejection
from hermesd.rpc.admin_service import AdminService
from hermesd.rpc.closing import OpenStreams
from hermesd.rpc.interceptor import ADMIN_SERVICE, HEALTH_SERVICE, TOOL_SERVICE, Edge, Identify, identify
from hermesd.rpc.listener import UnixListener
from hermesd.rpc.ports import Calls, Decisions, Events, Inspection, Lifecycle, Records, Registry, Reload
from hermesd.rpc.tool_service import ToolService

_log = logging.getLogger("hermesd.rpc")

MIB = 1024 * 1024
#: How long handlers that were cut may take to clean up.
CUT_S = 2.0
#: How long the last bytes of answers may take to leave.
STOP_S = 0.5
HEALTH_NAMES = ("", TOOL_SERVICE, ADMIN_SERVICE)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may ask of the server."""

    message_mb: int = 16
    max_concurrent_streams: int = 256
    keepalive_min_s: int = 10

    @property
    def message_bytes(self) -> int:
        return self.message_mb * MIB

    def options(self) -> list[tuple[str, int]]:
        """Channel arguments of the server."""
        return [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", self.message_bytes),
            ("grpc.max_send_message_length", self.message_bytes),
            ("grpc.max_concurrent_streams", self.max_concurrent_streams),
            # Without this the server also refuses streams of a client that keeps within the limit, while
            # those that have ended are not yet freed: calls would fail that should only have waited.
            ("grpc.http.overload_protection", 0),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", self.keepalive_min_s * 1000),
            ("grpc.keepalive_permit_without_calls", 1),
        ]


@dataclass(frozen=True, slots=True)
class Backend:
    """The daemon behind the edge."""

    calls: Calls
    registry: Registry
    reload: Reload
    events: Events
    inspection: Inspection
    lifecycle: Lifecycle
    decisions: Decisions
    records: Records


class RpcServer:
    """Serves ToolService, AdminService, health and reflection at `addresses`.

    Health says NOT_SERVING until `set_serving(True)`.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        addresses: Sequence[str],
        clock: Clock,
        limits: Limits | None = None,
        socket_group: str = "",
        identify: Identify = identify,
        denied: Callable[[], None] = lambda: None,
    ) -> None:
        self._backend = backend
        self._asked = tuple(parse_address(each) for each in addresses)
        self._clock = clock
        self._limits = limits or Limits()
        self._group = socket_group
        self._edge = Edge(identify, denied)
        self._streams = OpenStreams()
        self._health: Any = HealthServicer()
        self._held = AsyncExitStack()
        self._server: Any = None
        self._bound: list[Address] = []
        self._listeners: dict[Address, UnixListener] = {}

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it serves; a port 0 has become a real one."""
        return tuple(str(each) for each in self._bound)

    async def start(self) -> None:
        """Serve. A failure leaves nothing behind: LockedError names who holds an address."""
        await self.set_serving(False)
        async with AsyncExitStack() as undo:
            server = self._make_server()
            undo.push_async_callback(server.stop, STOP_S)
            listeners = [self._bind(server, each, undo) for each in self._asked]
            await server.start()
            for listener in listeners:
                if listener is not None:
                    listener.publish()
            self._held = undo.pop_all()
        self._listeners = {
            address: each for address, each in zip(self._asked, listeners, strict=True) if each is not None
        }
        self._server = server
        for each in self.warnings():
            _log.warning("%s: %s", each.name, each)

    def lost(self) -> tuple[Address, ...]:
        """The addresses whose socket is not at its path any more; who is connected already stays so."""
        serving = self._server is not None
        return tuple(address for address, each in self._listeners.items() if serving and each.is_lost())

    def warnings(self) -> list[Rejection]:
        """What is wrong with each address: its socket is gone, or others could replace it."""
        found = [
            Rejection(str(each), "its socket was removed: nobody can connect", "restart hermesd")
            for each in self.lost()
        ]
        for address, listener in self._listeners.items():
            if listener.fault is not None:
                found.append(Rejection(str(address), listener.fault.reason, listener.fault.remedy))
        return found

    async def reopen(self, address: Address) -> None:
        """Listen anew at an address that is lost. LockedError or PreconditionError; then it stays lost."""
        self._listeners[address].release()
        async with AsyncExitStack() as undo:
            # A gRPC server takes no more addresses once it has started; a second one shares all the rest.
            server = self._make_server()
            undo.push_async_callback(server.stop, STOP_S)
            listener = self._bind_unix(server, address, undo)
            await server.start()
            if self._server is None:
                return  # stopped meanwhile: let go of what was bound
            listener.publish()
            self._listeners[address] = listener
            self._held.push_async_exit(undo.pop_all())

    async def set_serving(self, serving: bool) -> None:
        """What grpc.health.v1 answers for all services."""
        status = health_pb2.HealthCheckResponse
        value = status.SERVING if serving else status.NOT_SERVING
        for name in HEALTH_NAMES:
            await self._health.set(name, value)

    async def stop(self, grace_s: float) -> None:
        """End streams, let running handlers finish for `grace_s`, cut the rest, let go of the addresses.

        Idempotent, and may be asked for from within a handler's consequences: the asker's answer is
        sent first. When this returns no handler runs, or the log names how many refused to end.
        """
        if self._server is None:
            return
        self._server = None
        await self.set_serving(False)
        self._streams.end()
        if not await self._edge.wait_idle(grace_s):
            _log.warning("calls still ran after %.1f s and are cut", grace_s)
        if left := await self._edge.cut(CUT_S):
            _log.error("%d handlers did not end within %.1f s of being cut", left, CUT_S)
        await self._held.aclose()
        self._bound.clear()

    def _make_server(self) -> Any:
        server = grpc.aio.server(options=self._limits.options())
        backend = self._backend
        tools = ToolService(
            backend.calls, backend.registry, self._streams, self._clock, self._limits.message_bytes
        )
        admin = AdminService(
            inspection=backend.inspection,
            lifecycle=backend.lifecycle,
            decisions=backend.decisions,
            reload=backend.reload,
            registry=backend.registry,
            events=backend.events,
            records=backend.records,
            clock=self._clock,
            tools=tools,
            streams=self._streams,
            max_message_bytes=self._limits.message_bytes,
        )
        names = (TOOL_SERVICE, ADMIN_SERVICE, HEALTH_SERVICE, reflection.SERVICE_NAME)
        handlers: Any = self._edge
        tool_pb2_grpc.add_ToolServiceServicer_to_server(tools, handlers)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, handlers)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(ReflectionServicer(names), handlers)
        server.add_generic_rpc_handlers((self._edge,))
        return server

    def _bind(self, server: Any, address: Address, undo: AsyncExitStack) -> UnixListener | None:
        if not address.is_unix:
            self._bind_tcp(server, address)
            return None
        listener = self._bind_unix(server, address, undo)
        self._bound.append(address)
        return listener

    def _bind_unix(self, server: Any, address: Address, undo: AsyncExitStack) -> UnixListener:
        listener = UnixListener(Path(address.path), self._group)
        private = listener.acquire()
        undo.callback(listener.release)
        try:
            server.add_insecure_port(f"unix:{private}")
        except RuntimeError as error:
            raise LockedError(
                f"address {address} cannot be bound: {error}", remedy="listen elsewhere"
            ) from None
        return listener

    def _bind_tcp(self, server: Any, address: Address) -> None:
        if not address.is_loopback:
            raise PreconditionError(
                f"address {address} can be reached by others and this build has no TLS",
                remedy="listen on a unix socket or a loopback address",
            )
        try:
            port = server.add_insecure_port(address.target)
        except RuntimeError:
            raise LockedError(
                f"address {address} is in use by another process", remedy="stop that one, or listen elsewhere"
            ) from None
        self._bound.append(Address(host=address.host, port=port))
