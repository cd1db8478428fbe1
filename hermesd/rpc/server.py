"""The gRPC server's life: start (lock, bind, serve, publish), serving or not, stop.

`grpc.aio`'s own stop is a deadline and no drain, and does not wait for the handlers that it aborts. So this
one ends its own streams, waits for its own handlers, cuts what is left and waits for their `finally`, and
only then stops the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer

from hermesd.api.v1 import admin_pb2_grpc, agent_pb2_grpc, tool_pb2_grpc
from hermesd.client.address import Address, parse_address
from hermesd.clock import Clock
from hermesd.errors import (
    FellBehindError,
    HermesdError,
    LockedError,
    PreconditionError,
    Rejection,
    UnauthenticatedError,
)
from hermesd.model.call import Caller
from hermesd.rpc.admin_service import AdminService
from hermesd.rpc.agent_service import AgentService
from hermesd.rpc.closing import OpenStreams
from hermesd.rpc.identity import Doors
from hermesd.rpc.interceptor import HEALTH_SERVICE, OURS, Denied, Edge, Identify
from hermesd.rpc.listener import UnixListener
from hermesd.rpc.ports import (
    Agents,
    Calls,
    Confirmations,
    Decisions,
    Detached,
    Events,
    Identities,
    Inspection,
    Lifecycle,
    Outputs,
    Registry,
    Reload,
)
from hermesd.rpc.tls import TlsFiles, TlsReloader
from hermesd.rpc.tool_service import ToolService

_log = logging.getLogger("hermesd.rpc")

MIB = 1024 * 1024
#: How long handlers that were cut may take to clean up.
CUT_S = 2.0
#: How long the last bytes of answers may take to leave.
STOP_S = 0.5
HEALTH_NAMES = ("", *OURS)


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
    confirmations: Confirmations
    identities: Identities
    agents: Agents
    detached: Detached
    outputs: Outputs


class RpcServer:
    """Serves the API at two doors: `addresses` are the operator's, `agents` the agents'.

    Without a token the caller at a unix socket of the first is the operator; nobody passes the second without
    a token or a certificate. With `tls` the TCP addresses of agents speak TLS. Health says
    NOT_SERVING until `set_serving(True)`.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        addresses: Sequence[str],
        clock: Clock,
        limits: Limits | None = None,
        socket_group: str = "",
        agents: Sequence[str] = (),
        tls: TlsFiles | None = None,
        identify: Identify | None = None,
        denied: Denied = lambda *told: None,
    ) -> None:
        self._backend = backend
        self._asked = tuple(parse_address(each) for each in addresses)
        self._agents_asked = tuple(parse_address(each) for each in agents)
        self._tls = TlsReloader(tls) if tls is not None else None
        self._clock = clock
        self._limits = limits or Limits()
        self._group = socket_group
        doors = Doors(backend.identities)
        self._edge = Edge(identify or doors.operator, denied)
        self._agents_edge = Edge(doors.agents, denied)
        self._streams = OpenStreams(self._may_not_watch)
        self._denied = denied
        self._health: Any = HealthServicer()
        self._held = AsyncExitStack()
        self._server: Any = None
        self._bound: list[Address] = []
        self._agents_bound: list[Address] = []
        self._listeners: dict[Address, UnixListener] = {}

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it serves; a port 0 has become a real one."""
        return tuple(str(each) for each in self._bound)

    @property
    def agents_addresses(self) -> tuple[str, ...]:
        """The same of the agents' door."""
        return tuple(str(each) for each in self._agents_bound)

    def rights_changed(self) -> None:
        """End the watches of agents whose rights are not those that they came with."""
        self._streams.look_again()

    def _may_not_watch(self, caller: Caller) -> HermesdError | None:
        identities = self._backend.identities
        if identities.is_current(caller):
            return None
        try:
            known = identities.of_certificate(caller.name)  # whoever it is that has the name now
        except UnauthenticatedError as expired:
            return expired
        if known is None or known.rights == caller.rights:
            return UnauthenticatedError("the token was taken back", remedy="ask the operator for a new one")
        return FellBehindError("this agent's rights have changed", remedy="list the tools, then watch again")

    async def start(self) -> None:
        """Serve. A failure leaves nothing behind: LockedError names who holds an address."""
        await self.set_serving(False)
        async with AsyncExitStack() as undo:
            self._add_services()
            listeners: dict[Address, UnixListener] = {}
            server = await self._open(self._edge, self._asked, listeners, undo)
            if self._agents_asked:
                await self._open(self._agents_edge, self._agents_asked, listeners, undo)
            for listener in listeners.values():
                listener.publish()
            self._held = undo.pop_all()
        self._listeners = listeners
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
            server = self._make_server(self._agents_edge if address in self._agents_asked else self._edge)
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
        edges = (self._edge, self._agents_edge)
        if not all(await asyncio.gather(*(each.wait_idle(grace_s) for each in edges))):
            _log.warning("calls still ran after %.1f s and are cut", grace_s)
        if left := sum([await each.cut(CUT_S) for each in edges]):
            _log.error("%d handlers did not end within %.1f s of being cut", left, CUT_S)
        await self._held.aclose()
        self._bound.clear()
        self._agents_bound.clear()

    def _make_server(self, edge: Edge) -> Any:
        server = grpc.aio.server(options=self._limits.options())
        server.add_generic_rpc_handlers((edge,))
        return server

    async def _open(
        self,
        edge: Edge,
        addresses: Sequence[Address],
        listeners: dict[Address, UnixListener],
        undo: AsyncExitStack,
    ) -> Any:
        """Serve what passes `edge` at `addresses`; unix sockets are not published yet."""
        server = self._make_server(edge)
        undo.push_async_callback(server.stop, STOP_S)
        for each in addresses:
            self._bind(server, each, listeners, undo)
        await server.start()
        return server

    def _add_services(self) -> None:
        backend = self._backend
        tools = ToolService(
            backend.calls,
            backend.registry,
            self._streams,
            self._clock,
            self._limits.message_bytes,
            denied=self._denied,
            detached=backend.detached,
            outputs=backend.outputs,
        )
        admin = AdminService(
            inspection=backend.inspection,
            lifecycle=backend.lifecycle,
            decisions=backend.decisions,
            confirmations=backend.confirmations,
            reload=backend.reload,
            registry=backend.registry,
            events=backend.events,
            tools=tools,
            agents=backend.agents,
            streams=self._streams,
            max_message_bytes=self._limits.message_bytes,
        )
        names = (*OURS, HEALTH_SERVICE, reflection.SERVICE_NAME)
        each: Any
        for each in (self._edge, self._agents_edge):
            tool_pb2_grpc.add_ToolServiceServicer_to_server(tools, each)
            admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, each)
            agent_pb2_grpc.add_AgentServiceServicer_to_server(AgentService(), each)
            health_pb2_grpc.add_HealthServicer_to_server(self._health, each)
            reflection_pb2_grpc.add_ServerReflectionServicer_to_server(ReflectionServicer(names), each)

    def _bind(
        self, server: Any, address: Address, listeners: dict[Address, UnixListener], undo: AsyncExitStack
    ) -> None:
        bound = self._agents_bound if address in self._agents_asked else self._bound
        if not address.is_unix:
            bound.append(Address(host=address.host, port=self._bind_tcp(server, address)))
            return
        listeners[address] = self._bind_unix(server, address, undo)
        bound.append(address)

    def _bind_unix(self, server: Any, address: Address, undo: AsyncExitStack) -> UnixListener:
        is_agents = address in self._agents_asked
        listener = UnixListener(Path(address.path), "" if is_agents else self._group, everybody=is_agents)
        private = listener.acquire()
        undo.callback(listener.release)
        try:
            server.add_insecure_port(f"unix:{private}")
        except RuntimeError as error:
            raise LockedError(
                f"address {address} cannot be bound: {error}", remedy="listen elsewhere"
            ) from None
        return listener

    def _bind_tcp(self, server: Any, address: Address) -> int:
        is_agents = address in self._agents_asked
        tls = self._tls if is_agents else None
        if not address.is_loopback and tls is None:
            raise PreconditionError(
                f"address {address} can be reached by others and does not speak TLS",
                remedy="set server.tls and server.agents_listen, or listen on loopback or a unix socket",
            )
        try:
            if tls is not None:
                port: int = server.add_secure_port(address.target, tls.credentials())
            else:
                port = server.add_insecure_port(address.target)
        except RuntimeError:
            raise LockedError(
                f"address {address} is in use by another process", remedy="stop that one, or listen elsewhere"
            ) from None
        return port
