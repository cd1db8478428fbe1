"""What every RPC passes through: who calls, what may go wrong, and the end of the server.

Guarantees: a handler knows its caller; an error of ours reaches the client as its status with ErrorInfo;
anything else as INTERNAL with an id to look up in the log, and no word of the exception; a request that
is no protobuf is INVALID_ARGUMENT; when the server cuts what still runs, the client is told so and the
handler's `finally` has run before the server is gone.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc

from hermesd.access.disclosure import disclosed
from hermesd.access.policy import decide
from hermesd.clock import SystemClock, uuid7
from hermesd.errors import (
    DeniedError,
    DrainingError,
    HermesdError,
    InvalidRequestError,
    StoreError,
    UnauthenticatedError,
)
from hermesd.model.call import Caller
from hermesd.rpc.fault import reason, status_code, trailing, wire_text

_log = logging.getLogger("hermesd.rpc")

TOOL_SERVICE = "hermesd.api.v1.ToolService"
ADMIN_SERVICE = "hermesd.api.v1.AdminService"
AGENT_SERVICE = "hermesd.api.v1.AgentService"
OURS = (TOOL_SERVICE, ADMIN_SERVICE, AGENT_SERVICE)
HEALTH_SERVICE = "grpc.health.v1.Health"
#: Whose request the running handler answers.
caller_of_call: ContextVar[Caller] = ContextVar("caller_of_call")

Handler = Any  # grpc.RpcMethodHandler, likewise
Context = Any  # grpc.aio.ServicerContext, whose type parameters change with every RPC
Identify = Callable[[Context], Caller]
#: Told of each denial: the caller (None: nobody knows who), the action, its object, and why.
Denied = Callable[[Caller | None, str, str, str], None]


class _Malformed:
    """Stands for a request that could not be parsed."""


_MALFORMED = _Malformed()


@dataclass(frozen=True, slots=True)
class _Method:
    path: str
    service: str
    ours: bool


class Edge(grpc.GenericRpcHandler):
    """The one handler that the server is given: it wraps all others, and knows which of them run.

    It does what an interceptor would, without the coroutine and the two closures that `grpc.aio` makes for
    interceptors with each RPC.
    """

    def __init__(self, identify: Identify, denied: Denied = lambda *told: None) -> None:
        """`denied` is told of each RPC that is refused because of who asks."""
        self._identify = identify
        self._denied = denied
        self._behind: list[Any] = []
        self._handlers: dict[str, Handler] = {}
        self._running: dict[asyncio.Task[Any], _Method] = {}
        self._cutting = False

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        """Serve these: what generated code asks of a server."""
        self._behind += handlers

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Left out: the generated code hands the same handlers to `add_generic_rpc_handlers`.

        `grpc.aio` keeps an accepting task for each registered method and waits for all of them anew with
        each RPC: measured with our 27 methods, that is a tenth of what a whole call takes.
        """

    def service(self, handler_call_details: Any) -> Handler | None:
        path: str = handler_call_details.method
        known = self._handlers.get(path)
        if known is not None:
            return known
        found = (each.service(handler_call_details) for each in self._behind)
        handler = next((each for each in found if each is not None), None)
        if handler is None:
            return None
        service = path.split("/")[1]
        method = _Method(path, service, service in OURS)
        wrapped = self._handlers[path] = self._wrap(handler, method)
        return wrapped

    def _wrap(self, handler: Any, method: _Method) -> Handler:
        parse = None if handler.request_streaming else _tolerant(handler.request_deserializer)
        if handler.request_streaming and handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._streaming(handler.stream_stream, method),
                handler.request_deserializer,
                handler.response_serializer,
            )
        if handler.response_streaming:
            behaviour = self._streaming(handler.unary_stream, method)
            return grpc.unary_stream_rpc_method_handler(behaviour, parse, handler.response_serializer)
        behaviour = self._unary(handler.unary_unary, method)
        return grpc.unary_unary_rpc_method_handler(behaviour, parse, handler.response_serializer)

    def _unary(self, behaviour: Any, method: _Method) -> Any:
        async def unary(request: Any, context: Context) -> Any:
            self._enter(method)
            try:
                self._admit(request, context, method)
                return await behaviour(request, context)
            except BaseException as error:  # noqa: BLE001 - raised again, translated
                await self._refuse(error, request, context, method)

        return unary

    def _streaming(self, behaviour: Any, method: _Method) -> Any:
        async def stream(request: Any, context: Context) -> None:
            self._enter(method)
            try:
                self._admit(request, context, method)
                answer = behaviour(request, context)
                if inspect.isawaitable(answer):
                    await answer
                    return
                async for message in answer:
                    await context.write(message)
            except BaseException as error:  # noqa: BLE001 - raised again, translated
                await self._refuse(error, request, context, method)

        return stream

    def _enter(self, method: _Method) -> None:
        """Know the RPC until its task ends, which is after its answer has left."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - grpc.aio runs each RPC in a task
        self._running[task] = method
        task.add_done_callback(self._leave)

    def _leave(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]

    def _admit(self, request: Any, context: Context, method: _Method) -> None:
        if self._cutting:
            raise DrainingError("the daemon is stopping", remedy="try again after it has started")
        if method.service == HEALTH_SERVICE:
            return
        caller = self._identify(context)
        caller_of_call.set(caller)
        if (
            method.service == ADMIN_SERVICE
            and not decide(caller, "administer", method.path.rpartition("/")[2]).allowed
        ):
            raise DeniedError(
                f"{method.path.rpartition('/')[2]} is the operator's",
                remedy="use the operator's unix socket, without a token",
            )
        if request is _MALFORMED:
            raise InvalidRequestError(
                "the request is no valid protobuf message",
                remedy="check the proto files and that text is UTF-8",
            )

    async def _refuse(
        self, error: BaseException, request: Any, context: Context, method: _Method
    ) -> NoReturn:
        if isinstance(error, grpc.aio.AbortError):
            raise error
        if isinstance(error, asyncio.CancelledError):
            if not self._cutting or context.cancelled():
                raise error
            error = DrainingError(
                "the daemon stopped before the answer was ready; what was running may have had its effect",
                remedy="look at what it changed before you try again",
            )
        if isinstance(error, UnauthenticatedError):
            self._denied(caller_of_call.get(None), "identify", context.peer(), error.message)
        elif isinstance(error, DeniedError):
            self._denied(caller_of_call.get(None), "administer", method.path, error.message)
        elif isinstance(error, StoreError) and (caller := caller_of_call.get(None)) is not None:
            error = disclosed(error, caller)
        if isinstance(error, HermesdError):
            await _abort(context, error)
        if not isinstance(error, Exception):
            raise error
        identity = getattr(request, "request_id", "") or uuid7(SystemClock())
        _log.error("%s failed", method.path, exc_info=error, extra={"request_id": identity})
        code = grpc.StatusCode.INTERNAL
        text = f"internal error; the daemon's log has it under request_id {identity}"
        details = {"request_id": identity, "remedy": "ask the operator, with the request_id"}
        await context.abort(code, text, trailing(code, text, "INTERNAL", details))
        raise AssertionError("abort always raises")

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until none of our own handlers runs, at most `timeout_s`. Whether that came true."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while ours := [task for task, method in self._running.items() if method.ours]:
            left = deadline - loop.time()
            if left <= 0:
                return False
            await asyncio.wait(ours, timeout=left)
        return True

    async def cut(self, timeout_s: float) -> int:
        """Refuse what comes, cancel what still runs and wait for its end; how many did not end in time."""
        self._cutting = True
        running = [task for task in self._running if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        if not running:
            return 0
        _, pending = await asyncio.wait(running, timeout=timeout_s)
        return len(pending)


async def _abort(context: Context, error: HermesdError) -> NoReturn:
    code = status_code(error)
    text = wire_text(error.message)
    details = {"remedy": error.remedy}
    await context.abort(code, text, trailing(code, text, reason(error), details))
    raise AssertionError("abort always raises")


def _tolerant(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def tolerant(data: bytes) -> Any:
        try:
            return parse(data)
        except Exception:  # noqa: BLE001 - whatever the parser says, the request is malformed
            return _MALFORMED

    return tolerant
