"""Runs a trusted plugin in the daemon's own process, on threads and a loop that are the plugin's own."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from hermesd.errors import PluginError, Rejection
from hermesd.model.call import Code, Effect, Outcome
from hermesd.plugin import ToolContext
from hermesd.plugin.bind import BoundTool, bind_tools, offered_tools
from hermesd.plugin.content import joined
from hermesd.plugin.context import Log, PluginContext
from hermesd.plugin.encode import encode_answer
from hermesd.plugin.failure import answer_of, is_unexpected, trace_of
from hermesd.plugin.fault import LoadFault, ToolCallError
from hermesd.plugin.lifespan import Lifespan
from hermesd.plugin.load import load_package, package_name, unload_package
from hermesd.runtimes.hooks import implemented_hooks
from hermesd.runtimes.offer import offered
from hermesd.runtimes.redact import Redactor
from hermesd.runtimes.runtime import Invocation, Prepared, Vitals
from hermesd.runtimes.spec import PluginSpec
from hermesd.runtimes.telling import Telling
from hermesd.runtimes.thread import LoopThread, ThreadPool, run_in_thread
from hermesd.telemetry.routing import CallScope, call_scope

_log = logging.getLogger(__name__)

UNBEGUN = Outcome(Code.CANCELLED, message="cancelled before it began")

#: (plugin, level, message, fields): what a plugin says outside of a call, and tracebacks for the operator.
OnLog = Callable[[CallScope, str, str, dict[str, object]], None]


class InProcessRuntime:
    """Sync tools run on a bounded pool of threads, async tools and hooks on one loop thread.

    A call that is cancelled is answered at once. What goes on running `grace_s` after that is counted as
    stray; with `max_stray_threads` of them the plugin's tools are unavailable until they end.
    """

    kind = "inprocess"

    def __init__(self, spec: PluginSpec, *, on_log: OnLog, on_change: Callable[[], None]) -> None:
        self._spec = spec
        self._on_log = on_log
        self._on_change = on_change
        self._redactor = Redactor(spec.secrets.values())
        self._package = package_name(spec.name, spec.digest)
        self._loaded = False
        self._tools: dict[str, BoundTool] = {}
        self._lifespan: Lifespan | None = None
        self._opened = False
        self._pool = ThreadPool(f"plugin-{spec.name}", spec.max_concurrency + spec.max_stray_threads)
        self._loop_thread: LoopThread | None = None
        self._running = 0
        self._strays = 0
        self._refusal: tuple[str, str] | None = None
        self._closed = False

    async def prepare(self) -> Prepared:
        spec = self._spec
        try:
            work = partial(run_in_thread, self._load, f"load-{spec.name}", spec.prepare_timeout_s)
            tools = await work()
        except TimeoutError:
            raise self._error(
                f"its import did not end within {spec.prepare_timeout_s:g} s",
                "do slow work in hermesd_startup or in the tools, not at import",
            ) from None
        except LoadFault as fault:
            raise self._plugin_error(fault) from None
        self._tools = {each.name: each for each in tools}
        # As many as can ever run at once, so that no call waits here behind those of another tool: who waits,
        # waits in the dispatcher's queue. A thread is only made when there is work for it.
        most = sum(
            max(int(each.raw.get("max_concurrency") or 0), spec.max_concurrency)
            for each in tools
            if not each.is_async
        )
        self._pool.allow(most + spec.max_stray_threads)
        places = {each.name: (each.file, each.line) for each in tools}
        return offered(spec, Prepared(tuple(each.raw for each in tools), places))

    async def ready(self) -> None:
        lifespan = self._lifespan
        if lifespan is None:
            return
        try:
            async with asyncio.timeout(self._spec.prepare_timeout_s):
                if not lifespan.is_empty:
                    self._opened = True
                    await self._on_loop(lifespan.aopen)
                if lifespan.can_refuse:
                    self._refusal = await run_in_thread(
                        lifespan.unavailable, f"check-{self._spec.name}", self._spec.prepare_timeout_s
                    )
        except TimeoutError:
            await self.close()
            raise self._error(
                f"its startup did not end within {self._spec.prepare_timeout_s:g} s",
                "connect with a timeout of your own, or raise plugins.prepare_timeout_s",
            ) from None
        except LoadFault as fault:
            await self.close()
            raise self._plugin_error(fault) from None

    async def invoke(self, invocation: Invocation) -> Outcome:
        bound = self._tools[invocation.tool]
        loop = asyncio.get_running_loop()
        call = _Call(self, bound, invocation, loop)
        self._running += 1
        if bound.is_async:
            self._plugin_loop().call(call.start_task)
        else:
            self._pool.submit(call.run_sync)
        try:
            return await call.done
        except asyncio.CancelledError:
            call.cancel()
            loop.call_later(self._spec.grace_s, self._overdue, call)
            raise

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._opened and self._lifespan is not None:
            try:
                async with asyncio.timeout(self._spec.close_timeout_s):
                    await self._on_loop(self._lifespan.aclose)
            except TimeoutError:
                self.say("error", f"its shutdown did not end within {self._spec.close_timeout_s:g} s", {})
            except LoadFault as fault:
                self.say("error", f"its shutdown failed: {fault}", {"trace": fault.trace})
        self._pool.close()
        if self._loop_thread is not None:
            self._loop_thread.close()
        if self._loaded:
            self._loaded = False
            unload_package(self._package)
        self._tools = {}
        self._lifespan = None

    def vitals(self) -> Vitals:
        return Vitals(stray_threads=self._strays, running=self._running)

    def unavailable(self) -> tuple[str, str] | None:
        if self._strays >= self._spec.max_stray_threads:
            return (
                f"{self._strays} of its calls go on running past their deadline",
                "wait until they end, reload it with mended code, or give it isolation: process",
            )
        return self._refusal

    def say(self, level: str, message: str, fields: dict[str, object]) -> None:
        """A line of the plugin's log that belongs to no call."""
        self._tell(self._own_scope(), level, message, fields)

    def _own_scope(self) -> CallScope:
        return CallScope(self._spec.name, redact=self._redactor.text)

    def _tell(self, scope: CallScope, level: str, message: str, fields: dict[str, object]) -> None:
        self._on_log(scope, level, self._redactor.text(message), self._redactor.payload(fields))

    def _load(self) -> list[BoundTool]:
        spec = self._spec
        with call_scope(self._own_scope()):
            plugin = self._import()
            view = implemented_hooks(plugin, spec.name)
            context = PluginContext(
                name=spec.name,
                version=spec.version,
                settings=spec.settings,
                secrets=spec.secrets,
                log=Log(self._hook_log),
                state_dir=spec.state_dir,
            )
            tools = bind_tools(view, spec.name, offered_tools(view, context))
            self._lifespan = Lifespan(view, context)
            return tools

    def _import(self) -> object:
        spec = self._spec
        if ":" in spec.entry or not spec.entry.endswith(".py"):
            return _installed(spec.entry)
        module = load_package(spec.root, spec.entry, self._package)
        self._loaded = True
        if self._closed:  # closed while its import was still running: nobody else will give it back
            self._loaded = False
            unload_package(self._package)
            raise LoadFault("its import ended after it had been given up")
        return module

    def _hook_log(self, kind: str, payload: dict[str, object]) -> None:
        if kind == "log":
            fields = cast("dict[str, object]", payload.get("fields") or {})
            self.say(str(payload.get("level", "info")), str(payload.get("message", "")), fields)

    def _plugin_loop(self) -> LoopThread:
        if self._loop_thread is None:
            self._loop_thread = LoopThread(f"plugin-{self._spec.name}-loop")
        return self._loop_thread

    async def _on_loop(self, work: Callable[[], Any]) -> Any:
        async def scoped() -> Any:
            with call_scope(self._own_scope()):
                return await work()

        future = asyncio.run_coroutine_threadsafe(scoped(), self._plugin_loop().loop)
        return await asyncio.wrap_future(future)

    def _overdue(self, call: _Call) -> None:
        if call.occupies:
            call.stray = True
            self._strays += 1
            self.say("warning", f"{call.bound.name} goes on running past its deadline", {})
            self._on_change()

    def _ended(self, call: _Call) -> None:
        call.ended = True
        self._running -= 1
        if call.stray:
            self._strays -= 1
            self._on_change()

    def _plugin_error(self, fault: LoadFault) -> PluginError:
        if fault.trace:
            self.say("error", str(fault), {"trace": fault.trace})
        remedy = fault.remedy or "mend the plugin's code"
        return PluginError(
            [Rejection(self._spec.name, fault.reason, remedy, fault.file, fault.line, fault.column)]
        )

    def _error(self, reason: str, remedy: str) -> PluginError:
        return PluginError([Rejection(self._spec.name, reason, remedy, self._spec.entry)])


class _Call:
    """One invocation: made on the daemon's loop, run on a thread or loop of the plugin."""

    def __init__(
        self,
        runtime: InProcessRuntime,
        bound: BoundTool,
        invocation: Invocation,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.bound = bound
        self.done: asyncio.Future[Outcome] = loop.create_future()
        self.began = False
        self.ended = False
        self.stray = False
        self._runtime = runtime
        self._invocation = invocation
        self._loop = loop
        self._is_cancelled = False
        #: Made for a tool that may look at it.
        self._cancelled: threading.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._calls: list[Future[Any]] = []
        #: Made for a tool that says something.
        self._telling: Telling | None = None

    @property
    def occupies(self) -> bool:
        """Whether it holds a thread, or waits for a loop that does not turn. One that only waits for a free
        thread holds none, and will never begin once it is cancelled.
        """
        return not self.ended and (self.began or self.bound.is_async)

    def run_sync(self) -> None:
        """On a thread of the plugin."""
        if self._is_cancelled:
            self._finish(UNBEGUN)
            return
        self.began = True
        with call_scope(self._scope()):
            try:
                outcome = self._outcome(self._start())
            except BaseException as error:  # noqa: BLE001 - SystemExit in a tool is a failure of that tool
                outcome = self._failure(error)
        self._finish(outcome)

    def start_task(self) -> None:
        """On the plugin's loop."""
        self._task = asyncio.get_running_loop().create_task(self._run_async())
        # One that is cancelled before its first step never enters its coroutine; its end is told too.
        self._task.add_done_callback(lambda task: self._finish(UNBEGUN) if task.cancelled() else None)
        if self._is_cancelled:
            self._task.cancel()

    def cancel(self) -> None:
        """On the daemon's loop: tell the tool, and wait for nothing."""
        self._is_cancelled = True
        if self._cancelled is not None:
            self._cancelled.set()
        for future in self._calls:
            future.cancel()
        if self.bound.is_async:
            self._runtime._plugin_loop().call(lambda: self._task.cancel() if self._task is not None else None)

    async def _run_async(self) -> None:
        with call_scope(self._scope()):
            try:
                outcome = self._outcome(await self._start())
            except BaseException as error:  # noqa: BLE001 - as above; cancellation ends here too: the task is ours
                outcome = self._failure(error)
        # Not in a callback of the task, which the loop would run one turn later.
        self._finish(outcome)

    def _start(self) -> Any:
        context = self._context() if self.bound.wants_context else None
        return self.bound.invoke(context, cast("dict[str, Any]", self._invocation.arguments))

    def _outcome(self, value: object) -> Outcome:
        text, content = encode_answer(value)
        redactor = self._runtime._redactor
        if not content:
            return Outcome(Code.OK, redactor.json_text(text))
        return Outcome(Code.OK, redactor.json_text(text), content_json=redactor.json_text(content))

    def _failure(self, error: BaseException) -> Outcome:
        answer = answer_of(error)
        redactor = self._runtime._redactor
        if is_unexpected(error):
            message = f"{type(error).__name__} in {self.bound.name}"
            self._runtime._tell(self._scope(), "error", message, {"trace": trace_of(error)})
        return Outcome(
            Code(answer["code"]),
            message=redactor.text(answer["message"]),
            effect=cast("Effect | None", answer.get("effect")),
            retryable=bool(answer.get("retryable")),
            detail=redactor.payload(answer.get("detail", {})),
        )

    def _finish(self, outcome: Outcome) -> None:
        if self._telling is not None:
            self._telling.end()
        try:
            self._loop.call_soon_threadsafe(self._deliver, outcome)
        except RuntimeError:
            _log.debug("%s ended after the daemon's loop", self.bound.name)

    def _deliver(self, outcome: Outcome) -> None:
        self._runtime._ended(self)
        for future in self._calls:
            future.cancel()  # what it asked for and did not wait for ends with it
        if not self.done.done():
            self.done.set_result(outcome)

    def _scope(self) -> CallScope:
        each = self._invocation
        return CallScope(
            self._runtime._spec.name,
            each.tool,
            each.request_id,
            each.session_id,
            each.attempt,
            redact=self._runtime._redactor.text,
        )

    def _context(self) -> ToolContext:
        spec, invocation = self._runtime._spec, self._invocation
        cancelled = self._cancelled = threading.Event()
        if self._is_cancelled:  # between the first look and now
            cancelled.set()
        return ToolContext(
            tool=invocation.tool,
            request_id=invocation.request_id,
            session_id=invocation.session_id,
            attempt=invocation.attempt,
            deadline=invocation.deadline,
            settings=spec.settings,
            secrets=spec.secrets,
            shared=self._runtime._lifespan.shared if self._runtime._lifespan is not None else {},
            emit=self._emit,
            call=self._call_tool,
            cancelled=cancelled,
            asynchronous=self.bound.is_async,
            state_dir=spec.state_dir,
            limit=invocation.limit,
            allowance_s=invocation.allowance_s,
            traceparent=invocation.traceparent,
            tracestate=invocation.tracestate,
        )

    def _emit(self, kind: str, payload: dict[str, object]) -> None:
        if self._telling is None:
            self._telling = Telling(self._pass_on)
        self._telling.tell(kind, payload)

    def _pass_on(self, kind: str, payload: dict[str, object]) -> None:
        told = self._runtime._redactor.payload(payload)
        try:
            self._loop.call_soon_threadsafe(self._invocation.emit, kind, told)
        except RuntimeError:
            _log.debug("%s spoke after the daemon's loop had ended", self.bound.name)

    def _call_tool(self, tool: str, arguments: dict[str, object], /) -> Future[Any]:
        future = asyncio.run_coroutine_threadsafe(self._nested(tool, arguments), self._loop)
        self._calls.append(future)
        if self._is_cancelled:
            future.cancel()
        return future

    async def _nested(self, tool: str, arguments: dict[str, object]) -> Any:
        if self.ended:
            raise ToolCallError("CANCELLED", "the call that asks has ended")
        outcome = await self._invocation.call(tool, arguments)
        if outcome.code is Code.OK:
            data = json.loads(outcome.data_json)
            return joined(data, json.loads(outcome.content_json)) if outcome.content_json else data
        raise ToolCallError(outcome.code.value, outcome.message, outcome.detail)


def _installed(reference: str) -> object:
    """The module or object that an entry point names. It is imported once a process. Raises LoadFault."""
    module_name, _, attributes = reference.partition(":")
    try:
        found: object = importlib.import_module(module_name)
        for attribute in filter(None, attributes.split(".")):
            found = getattr(found, attribute)
    except BaseException as error:  # noqa: BLE001 - SystemExit at import must not end the daemon
        raise LoadFault(f"{type(error).__name__}: {error}", remedy=f"mend {module_name}") from None
    if isinstance(found, type):
        return found()
    return found
