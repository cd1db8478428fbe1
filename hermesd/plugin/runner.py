"""Runs one plugin in a process of its own: loads it, tells what it offers, serves calls until told to stop.

Threads: the main thread loads the plugin and runs its hooks. Leaders and followers read the frames: the
thread that read a call of a sync tool runs it itself, so that a call needs no hop. It lets the next one read
first, unless the tool has always been quick of late: then it goes on leading until the call takes long.
Async tools run as tasks on one loop thread, made when first needed.

Guarantee: each call is answered exactly once; nothing that a tool raises ends the process; what a tool
prints never reaches the protocol.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import queue
import signal
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hermesd.plugin.bind import BoundTool, bind_tools, offered_tools
from hermesd.plugin.channel import Channel, claim_stdio
from hermesd.plugin.content import joined
from hermesd.plugin.context import Log, PluginContext, ToolContext
from hermesd.plugin.encode import encode_answer, encode_result
from hermesd.plugin.failure import answer_of, is_unexpected, trace_of
from hermesd.plugin.fault import LoadFault, ToolCallError
from hermesd.plugin.frames import FRAME_VERSION, FrameFault, Head
from hermesd.plugin.lifespan import Lifespan
from hermesd.plugin.load import load_package, package_name
from hermesd.plugin.loop import LoopThread
from hermesd.plugin.output import Line, Printer, current_printer, redirect
from hermesd.plugin.valve import LINES_PER_S, PROGRESS_PER_S, Valve

if TYPE_CHECKING:
    import asyncio

MAX_LOG_CHARS = 64 * 1024
#: What one plugin may tell in a second; of more, lines are dropped and counted, and only the newest
#: progress of each call is kept.
#: A sync tool whose last calls were all quick (so many, each below so many seconds) runs while its thread
#: still leads. The lead is taken from it when the call has not ended `LEAD_S` later: as long may other calls
#: and cancellations wait once.
QUICK_CALLS = 8
QUICK_S = 0.0005
LEAD_S = 0.005


class Call:
    """One call in flight."""

    __slots__ = (
        "asked",
        "asks",
        "cancelled",
        "context",
        "deadline",
        "id",
        "printer",
        "progress",
        "task",
        "tool",
        "values",
    )

    def __init__(self, number: int, tool: BoundTool, values: dict[str, Any], line: Line) -> None:
        self.id = number
        #: Monotonic seconds; None: no deadline.
        self.deadline: float | None = None
        self.tool = tool
        self.values = values
        self.cancelled = threading.Event()
        self.context: ToolContext | None = None
        self.printer = Printer(line)
        #: Progress that was held back; it is told before the answer.
        self.progress: dict[str, object] | None = None
        self.task: asyncio.Task[None] | None = None
        #: The numbers of the calls that this one waits for.
        self.asks: set[int] = set()
        #: Whether it ever called another tool: to wait for an answer another thread must read.
        self.asked = False


class Plugin:
    """The loaded plugin and what it was given."""

    def __init__(self, head: Head, given: dict[str, Any], log: Log) -> None:
        self.settings = MappingProxyType(given["settings"])
        self.secrets: dict[str, str] = given["secrets"]
        self.state_dir = None if head.get("state_dir") is None else Path(head["state_dir"])
        module = load_package(Path(head["root"]), head["entry"], package_name(head["plugin"], head["digest"]))
        context = PluginContext(
            name=head["plugin"],
            version=head["version"],
            settings=self.settings,
            secrets=self.secrets,
            log=log,
            state_dir=self.state_dir,
        )
        self.tools = {
            tool.name: tool for tool in bind_tools(module, head["plugin"], offered_tools(module, context))
        }
        self.lifespan = Lifespan(module, context)


class Runner:
    """The frames' other end. `serve` returns when the daemon says so or is gone."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._plugin: Plugin | None = None
        self._loop = LoopThread()
        self._on_loop = False
        self._calls: dict[int, Call] = {}
        self._asks: dict[int, Future[Any]] = {}
        self._ask = 0
        self._control: queue.SimpleQueue[tuple[Head, bytes]] = queue.SimpleQueue()
        #: Whoever holds it reads. It is taken from a leader whose call takes long, so no `with` holds it.
        self._baton = threading.Lock()
        self._mutex = threading.Lock()
        #: The call that the leader runs itself.
        self._led: Call | None = None
        #: Whether the timer that takes the lead away is ours: plugin code may have put its own in its place.
        self._timed = False
        #: How many calls of a sync tool were quick in a row.
        self._quick: dict[str, int] = {}
        self._backlog: deque[Call] = deque()
        self._threads = 0
        self._idle = 0
        self._max_threads = 2
        self._lines = Valve(LINES_PER_S)
        self._progress = Valve(PROGRESS_PER_S)
        self._log = Log(lambda kind, value: self._tell(0, kind, value))

    def serve(self) -> None:
        """Work until told to stop."""
        redirect(self._current_line)
        python = ".".join(str(each) for each in sys.version_info[:3])
        self._channel.send({"t": "hello", "version": FRAME_VERSION, "python": python})
        self._add_thread()
        steps = {"load": self._load, "ready": self._ready}
        # Python runs this on the main thread, which waits below; a handler may fill a queue.
        signal.signal(signal.SIGALRM, self._overdue)
        while True:
            head, body = self._control.get()
            if head["t"] == "shutdown":
                break
            if head["t"] == "depose":
                self._depose()
                continue
            try:
                steps[head["t"]](head, body)
            except LoadFault as fault:
                self._tell_fault(head["t"], fault)
            except BaseException as error:  # noqa: BLE001 - plugin code may raise anything
                self._tell_fault(
                    head["t"], LoadFault(str(answer_of(error)["message"]), trace=trace_of(error))
                )
        self._shut_down()

    # the plugin's life, on the main thread

    def _load(self, head: Head, body: bytes) -> None:
        plugin = Plugin(head, json.loads(body), self._log)
        # As many as can ever run at once, so that no call waits here behind those of another tool: who waits,
        # waits in the daemon's queue. A thread is only made when there is work for it.
        least = int(head["max_concurrency"])
        asked = (
            int(each.raw.get("max_concurrency") or 0) for each in plugin.tools.values() if not each.is_async
        )
        self._max_threads = max(sum(max(each, least) for each in asked), least) + 1
        self._plugin = plugin
        gc.collect()
        gc.freeze()
        places = {tool.name: [tool.file, tool.line] for tool in plugin.tools.values()}
        described = {"tools": [tool.raw for tool in plugin.tools.values()], "places": places}
        self._channel.send({"t": "described"}, encode_result(described).encode())

    def _ready(self, _head: Head, _body: bytes) -> None:
        if self._plugin is None:
            raise LoadFault("nothing is loaded")
        lifespan = self._plugin.lifespan
        self._on_loop = lifespan.needs_loop
        if self._on_loop:
            self._loop.run(lifespan.aopen())
        else:
            lifespan.open()
        self._timed = signal.getsignal(signal.SIGALRM) == self._overdue
        self._channel.send({"t": "ready", "refusal": lifespan.unavailable()})

    def _shut_down(self) -> None:
        if self._plugin is not None:
            try:
                if self._on_loop:
                    self._loop.run(self._plugin.lifespan.aclose())
                else:
                    self._plugin.lifespan.close()
            except LoadFault as fault:
                self._line(0)("error", f"shutting down: {fault}", {"trace": fault.trace})
        self._loop.close()
        self._send({"t": "closed"})

    def _tell_fault(self, stage: str, fault: LoadFault) -> None:
        if fault.trace:
            self._line(0)("error", fault.reason, {"trace": fault.trace})
        head = {"t": "fault", "stage": stage, "reason": fault.reason, "file": fault.file}
        self._send(head | {"line": fault.line, "column": fault.column, "remedy": fault.remedy})

    # leaders and followers

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._follow, name=f"tool-{self._threads}", daemon=True).start()

    def _follow(self) -> None:
        """One thread: lead until there is a call to run, run it, queue up again."""
        while True:
            with self._mutex:
                call = self._backlog.popleft() if self._backlog else None
                self._idle += call is None
            if call is None:
                self._baton.acquire()
                try:
                    call = self._lead()
                except EOFError:
                    self._baton.release()
                    return
            if call is not None:
                self._run(call)

    def _lead(self) -> Call | None:
        """Read frames until another thread leads; the call to run, if any. Raises EOFError at the end."""
        while True:
            try:
                head, body = self._channel.receive()
                call = self._handle(head, body)
            except (OSError, EOFError):
                break
            except (FrameFault, KeyError, ValueError) as error:
                self._line(0)("error", f"the daemon sent what cannot be read: {error}", {})
                break
            if call is None or not self._can_hand_over(call):
                continue
            if self._quick.get(call.tool.name, 0) < QUICK_CALLS or not self._timed:
                self._hand_over()
                return call
            if not self._run_leading(call):
                return None
        self._control.put(({"t": "shutdown"}, b""))
        raise EOFError

    def _can_hand_over(self, call: Call) -> bool:
        """Whether somebody else can lead, so that this thread may run the call; if not it is queued."""
        with self._mutex:
            # This thread itself counts as idle while it leads. As long as it does no other becomes busy.
            if self._idle < 2 and self._threads >= self._max_threads:
                self._backlog.append(call)
                return False
            return True

    def _hand_over(self) -> None:
        """Let another thread lead."""
        with self._mutex:
            self._idle -= 1
            if self._idle == 0:
                self._add_thread()
        self._baton.release()

    def _run_leading(self, call: Call) -> bool:
        """Run a call and keep the lead; whether it could be kept."""
        self._led = call
        signal.setitimer(signal.ITIMER_REAL, LEAD_S)
        self._run(call)
        with self._mutex:
            if self._led is not call:
                return False
            self._led = None
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        return True

    def _overdue(self, _signal: int, _frame: object) -> None:
        self._control.put(({"t": "depose"}, b""))

    def _depose(self) -> None:
        """Let another thread lead, if the leader runs a call. Any thread."""
        with self._mutex:
            if self._led is None:
                return
            self._led = None
        self._hand_over()

    def _took(self, call: Call, seconds: float) -> None:
        """How long a tool ran, without the way of its answer."""
        name = call.tool.name
        is_quick = seconds < QUICK_S and not call.asked
        self._quick[name] = self._quick.get(name, 0) + 1 if is_quick else 0

    def _handle(self, head: Head, body: bytes) -> Call | None:
        """Serve one frame. Returns the call of a sync tool, for the thread that asked."""
        kind = head["t"]
        if kind == "call":
            return self._start(head, body)
        if kind == "cancel":
            self._cancel(head["id"])
        elif kind == "answer":
            self._answered(head, body)
        else:
            self._control.put((head, body))
        return None

    # calls

    def _start(self, head: Head, body: bytes) -> Call | None:
        number, plugin = head["id"], self._plugin
        tool = plugin.tools.get(head["tool"]) if plugin is not None else None
        if plugin is None or tool is None:
            message = f"the plugin has no tool {head['tool']!r}"
            self._send(
                {"t": "result", "id": number, "code": "UNAVAILABLE", "message": message, "effect": "none"}
            )
            return None
        call = Call(number, tool, json.loads(body), self._line(number))
        if head["remaining_ms"] is not None:
            call.deadline = time.monotonic() + head["remaining_ms"] / 1000
        if tool.wants_context:
            limit = head.get("limit_ms")
            call.context = ToolContext(
                tool=tool.name,
                request_id=head["request_id"],
                session_id=head["session_id"],
                attempt=head["attempt"],
                deadline=call.deadline,
                settings=plugin.settings,
                secrets=plugin.secrets,
                shared=plugin.lifespan.shared,
                emit=lambda kind, value: self._tell(number, kind, value),
                call=lambda name, arguments: self._ask_for(call, name, arguments),
                cancelled=call.cancelled,
                asynchronous=tool.is_async,
                state_dir=plugin.state_dir,
                limit=None if limit is None else time.monotonic() + limit / 1000,
                allowance_s=head.get("allowance_ms", 0) / 1000,
                traceparent=head.get("traceparent", ""),
                tracestate=head.get("tracestate", ""),
            )
        self._calls[number] = call
        if not tool.is_async:
            return call
        loop = self._loop.get()
        loop.call_soon_threadsafe(self._begin, loop, call)
        return None

    def _run(self, call: Call) -> None:
        """A sync tool, on the thread that read its call."""
        token = current_printer.set(call.printer)
        try:
            if call.cancelled.is_set():
                self._answer(
                    call, {"code": "CANCELLED", "message": "cancelled before it began", "effect": "none"}
                )
                return
            began = time.monotonic()
            try:
                texts = encode_answer(call.tool.invoke(call.context, call.values))
            finally:
                self._took(call, time.monotonic() - began)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its answer
            self._failed(call, error)
        else:
            self._answer(call, {"code": "OK"}, *texts)
        finally:
            current_printer.reset(token)

    def _begin(self, loop: asyncio.AbstractEventLoop, call: Call) -> None:
        """An async tool, on the loop."""
        call.task = loop.create_task(self._arun(call), name=call.tool.name)
        if call.cancelled.is_set():
            call.task.cancel()

    async def _arun(self, call: Call) -> None:
        current_printer.set(call.printer)  # a task has a context of its own
        try:
            texts = encode_answer(await call.tool.invoke(call.context, call.values))
        except BaseException as error:  # noqa: BLE001 - see above; the task ends here either way
            if type(error).__name__ == "CancelledError" and call.cancelled.is_set():
                self._answer(call, {"code": "CANCELLED", "message": "cancelled"})
            else:
                self._failed(call, error)
        else:
            self._answer(call, {"code": "OK"}, *texts)

    def _failed(self, call: Call, error: BaseException) -> None:
        answer = answer_of(error)
        deadline = call.deadline if call.context is None else call.context.deadline
        if isinstance(error, ToolCallError) and deadline is not None and time.monotonic() >= deadline:
            # What it called ran out of the time that was its own.
            answer = {"code": "TIMEOUT", "message": answer["message"]}
        if is_unexpected(error):
            self._line(call.id)("error", answer["message"], {"trace": trace_of(error)})
        self._answer(call, answer)

    def _answer(self, call: Call, answer: Head, text: str = "", content: str = "") -> None:
        call.printer.flush()
        if call.progress is not None:
            self._send({"t": "progress", "id": call.id, **call.progress})
        self._calls.pop(call.id, None)
        head = {"t": "result", "id": call.id, **answer}
        body = text.encode()
        if content:
            head["data_bytes"] = len(body)
            body += content.encode()
        try:
            self._channel.send(head, body)
        except FrameFault as fault:
            refused = {"code": "INVALID_RESULT", "message": f"the result is too large: {fault}"}
            self._send({"t": "result", "id": call.id, **refused, "detail": {"reason": "too large"}})
        except OSError:
            return  # the daemon is gone; whoever reads the channel ends this process

    def _cancel(self, number: int) -> None:
        call = self._calls.get(number)
        if call is None:
            return
        call.cancelled.set()
        for ask in list(call.asks):
            self._settle(ask, ToolCallError("CANCELLED", "the calling tool was cancelled"))
        if call.tool.is_async:
            self._loop.get().call_soon_threadsafe(_cancel_task, call)

    # calls of other tools

    def _ask_for(self, call: Call, name: str, arguments: dict[str, object]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._mutex:
            self._ask += 1
            ask = self._ask
            self._asks[ask] = future
        call.asks.add(ask)
        call.asked = True
        if self._led is call:
            self._depose()
        future.add_done_callback(lambda done: self._forget(call, ask, done))
        if call.cancelled.is_set():
            self._settle(ask, ToolCallError("CANCELLED", "the calling tool was cancelled"))
            return future
        try:
            body = encode_result(arguments).encode()
            self._channel.send({"t": "ask", "id": call.id, "ask": ask, "tool": name}, body)
        except FrameFault as fault:
            self._settle(ask, ToolCallError("INVALID_ARGUMENT", f"the arguments are too large: {fault}"))
        except OSError:
            self._settle(ask, ToolCallError("UNAVAILABLE", "the daemon is gone"))
        return future

    def _forget(self, call: Call, ask: int, future: Future[Any]) -> None:
        call.asks.discard(ask)
        if self._asks.pop(ask, None) is not None and future.cancelled():
            self._send({"t": "drop", "ask": ask})

    def _answered(self, head: Head, body: bytes) -> None:
        if head["code"] == "OK":
            self._settle(head["ask"], None, _answered_value(head, body))
        else:
            self._settle(head["ask"], ToolCallError(head["code"], head["message"], head.get("detail")))

    def _settle(self, ask: int, error: ToolCallError | None, value: object = None) -> None:
        future = self._asks.pop(ask, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    # telling

    def _tell(self, number: int, kind: str, value: dict[str, object]) -> None:
        """What a plugin tells through its context: progress and log lines."""
        if kind == "log":
            value = {**value, "message": str(value.get("message"))[:MAX_LOG_CHARS]}
            self._send_line({"t": "log", "id": number, **value})
            return
        call = self._calls.get(number)
        if call is not None:
            call.progress = None if (passed := self._progress.admit()) else value
            if passed:
                self._send({"t": kind, "id": number, **value})

    def _line(self, number: int) -> Line:
        def line(level: str, message: str, fields: dict[str, object]) -> None:
            head = {"t": "log", "id": number, "level": level, "message": message[:MAX_LOG_CHARS]}
            self._send_line({**head, "fields": fields, "private": True})

        return line

    def _send_line(self, head: Head) -> None:
        if dropped := self._lines.take_dropped():
            message = f"{dropped} lines dropped: more than {LINES_PER_S} in a second"
            self._send({**head, "level": "warning", "message": message, "fields": {}, "private": True})
        if self._lines.admit():
            self._send(head)

    def _current_line(self) -> Line:
        printer = current_printer.get()
        return printer.line if printer is not None else self._line(0)

    def _send(self, head: Head) -> None:
        """Send what nobody waits for: too large is dropped with a word, a daemon that is gone is ignored."""
        try:
            try:
                self._channel.send(head)
            except FrameFault as fault:
                notice = {
                    "t": "log",
                    "id": head.get("id", 0),
                    "level": "warning",
                    "fields": {},
                    "private": True,
                }
                self._channel.send({**notice, "message": f"a {head['t']} frame was dropped: {fault}"})
        except OSError:
            return  # whoever reads the channel learns of it and ends this process


def _answered_value(head: Head, body: bytes) -> object:
    size = head.get("data_bytes", len(body))
    data = json.loads(body[:size])
    return joined(data, json.loads(body[size:])) if size < len(body) else data


def _cancel_task(call: Call) -> None:
    if call.task is not None:
        call.task.cancel()


def main() -> int:
    """Serve on descriptors 0 and 1 until told to stop."""
    sys.setswitchinterval(0.001)
    faulthandler.enable()  # where a crash in C happened, for the operator's log
    Runner(claim_stdio()).serve()
    return 0
