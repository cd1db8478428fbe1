"""One worker: a process that runs one plugin, and the frames to and from it."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from hermesd.errors import PluginError, Rejection
from hermesd.model.call import Code, Outcome
from hermesd.model.content import check_content
from hermesd.plugin.frames import FRAME_VERSION, READ_BYTES, FrameDecoder, FrameFault, Head, encode_frame
from hermesd.runtimes.redact import Redactor
from hermesd.runtimes.runtime import Invocation, Prepared
from hermesd.runtimes.spec import PluginSpec
from hermesd.supervise.child import Child, ExitStatus
from hermesd.supervise.launcher import Launcher

#: What a worker gets of the daemon's environment: where things are and how text looks, no secrets.
PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
#: How long a worker that closed its channel may take to exit, seconds.
_EXIT_S = 1.0
_MAIN = Path(sys.modules[FrameDecoder.__module__].__file__ or "").with_name("__main__.py")
_CODES = frozenset(Code)
_EFFECTS = ("none", "done", "unknown")


class LogSink(Protocol):
    """Takes one line of a plugin, on the loop; never blocks. Without a call its fields are "" and 0."""

    def __call__(
        self,
        *,
        plugin: str,
        tool: str,
        request_id: str,
        session_id: str,
        attempt: int,
        level: str,
        message: str,
        fields: Mapping[str, object],
    ) -> None: ...


class Call:
    """One invocation in a worker. `answered`: its caller has an answer, though the tool may run on."""

    __slots__ = ("asks", "future", "id", "invocation")

    def __init__(self, number: int, invocation: Invocation, future: asyncio.Future[Outcome]) -> None:
        self.id = number
        self.invocation = invocation
        self.future = future
        self.asks: dict[int, asyncio.Task[None]] = {}

    @property
    def answered(self) -> bool:
        return self.future.done()


class WorkerProcess:
    """A process, from its start to its end.

    Calls in flight are answered as soon as the process is gone, whatever else holds its pipes.
    """

    def __init__(self, spec: PluginSpec, child: Child, on_log: LogSink) -> None:
        self.pid = child.pid
        self.calls: dict[int, Call] = {}
        #: Called when a call ended in the worker, answered before or not.
        self.on_settled: Callable[[WorkerProcess, Call], None] = lambda _worker, _call: None
        #: Called once, when the process has ended.
        self.on_end: Callable[[WorkerProcess], None] = lambda _worker: None
        self.ended = False
        #: False from the moment that no new call should be sent.
        self.usable = True
        #: Why it ended; "" while it lives.
        self.reason = ""
        #: Why this side ended it; "" while it did not.
        self.verdict = ""
        self._spec = spec
        self._child = child
        self._on_log = on_log
        self._redactor = Redactor(spec.secrets.values())
        #: (reason, remedy) when the plugin itself says that it cannot work as it is configured.
        self.refusal: tuple[str, str] | None = None
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(fileno=child.take("stdin"))
        self._socket.setblocking(False)
        self._decoder = FrameDecoder()
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)
        self._outbox = bytearray()
        #: Whether what is written waits: for the loop's next turn, or for room.
        self._held = False
        self._number = 0
        self._reply: asyncio.Future[tuple[Head, bytes]] | None = None
        self._garbled = False
        self._loop.add_reader(self._socket.fileno(), self._readable)
        child.when_ended(self._exited)

    @classmethod
    async def start(
        cls, spec: PluginSpec, launcher: Launcher, on_log: LogSink, environ: Mapping[str, str]
    ) -> WorkerProcess:
        """Start the process. Raises LauncherError."""

        redactor = Redactor(spec.secrets.values())

        def line(text: str) -> None:
            on_log(
                plugin=spec.name,
                tool="",
                request_id="",
                session_id="",
                attempt=0,
                level="info",
                message=redactor.text(text),
                fields={"stream": "stderr"},
            )

        child = await launcher.spawn(
            [sys.executable, "-I", "-B", "-X", "utf8", str(_MAIN)],
            env={name: environ[name] for name in PASSED if name in environ},
            cwd="/",
            name=f"worker {spec.name}",
            rlimits={"CORE": (0, 0)},  # a core dump would hold the plugin's secrets
            stdin="socket",
            on_stderr=line,
        )
        return cls(spec, child, on_log)

    # its life

    async def load(self) -> Prepared:
        """Load the plugin and learn what it offers. Raises PluginError; the process is then of no use."""
        spec = self._spec
        hello, _ = await self._await_reply(None, b"", "hello")
        if hello.get("version") != FRAME_VERSION:
            raise self._error(f"its runner speaks frame version {hello.get('version')}, not {FRAME_VERSION}")
        head: Head = {"t": "load", "plugin": spec.name, "version": spec.version, "digest": spec.digest}
        head |= {"root": str(spec.root), "entry": spec.entry, "max_concurrency": spec.max_concurrency}
        head["state_dir"] = None if spec.state_dir is None else str(spec.state_dir)
        given = {"settings": dict(spec.settings), "secrets": dict(spec.secrets)}
        _, body = await self._await_reply(head, json.dumps(given, default=str).encode(), "described")
        try:
            described = json.loads(body)
            places = {str(name): (str(file), int(line)) for name, (file, line) in described["places"].items()}
            tools = tuple({**tool, "name": str(tool["name"])} for tool in described["tools"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._error(f"its runner described its tools in no valid way: {error!r}") from None
        return Prepared(tools, places)

    async def ready(self) -> None:
        """Run its startup and shared hooks. Raises PluginError; the process is then of no use."""
        answer, _ = await self._await_reply({"t": "ready"}, b"", "ready")
        refusal = answer.get("refusal")
        self.refusal = (str(refusal[0]), str(refusal[1])) if refusal else None

    def shut_down(self, timeout_s: float) -> None:
        """Ask it to run its shutdown hooks and exit; kill it after `timeout_s`. Waits for nothing."""
        if self.ended:
            return
        self.usable = False
        self.verdict = self.verdict or "stopped"
        self._send({"t": "shutdown"})
        timer = self._loop.call_later(timeout_s, self._child.kill)
        self._child.when_ended(lambda _status: timer.cancel())

    def kill(self, verdict: str) -> None:
        """End it now, and all that it started. `verdict` is what calls in flight are told as the reason."""
        self.usable = False
        self.verdict = self.verdict or verdict
        self._child.kill()

    async def gone(self, timeout_s: float) -> None:
        """Wait for its exit for `timeout_s`, kill what is left, and wait for that (5 s more at most)."""
        if not self.ended:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._child.wait()
            except TimeoutError:
                self.verdict = self.verdict or "stopped"
        await self._child.kill_tree(0.0)

    # calls

    def call(self, invocation: Invocation, remaining_s: float | None) -> Call:
        """Send a call. Its future gets the Outcome; it never raises."""
        self._number += 1
        call = Call(self._number, invocation, self._loop.create_future())
        head = {
            "t": "call",
            "id": call.id,
            "tool": invocation.tool,
            "request_id": invocation.request_id,
            "session_id": invocation.session_id,
            "attempt": invocation.attempt,
            "remaining_ms": None if remaining_s is None else round(remaining_s * 1000, 3),
        }
        if invocation.limit is not None and invocation.deadline is not None and remaining_s is not None:
            # Monotonic clocks are each process's own: what is sent is how long.
            head["limit_ms"] = round((invocation.limit - invocation.deadline + remaining_s) * 1000, 3)
            head["allowance_ms"] = round(invocation.allowance_s * 1000, 3)
        if invocation.traceparent:
            head["traceparent"], head["tracestate"] = invocation.traceparent, invocation.tracestate
        try:
            frame = encode_frame(head, invocation.arguments_json.encode())
        except (FrameFault, UnicodeEncodeError) as fault:
            message = f"the arguments cannot be sent: {fault}"
            refused = Outcome(Code.INVALID_ARGUMENT, message=message, effect="none", entered=False)
            call.future.set_result(refused)
            return call
        self.calls[call.id] = call
        self._write(frame)
        return call

    def cancel(self, call: Call) -> None:
        """Tell the tool that its call is cancelled or out of time."""
        if call.id in self.calls:
            self._drop_asks(call)
            self._send({"t": "cancel", "id": call.id})

    # frames out

    def _send(self, head: Head, body: bytes = b"") -> None:
        self._write(encode_frame(head, body))

    def _write(self, frame: bytes) -> None:
        """The first frame of a turn of the loop goes at once; those that follow in that turn go together."""
        if self.ended:
            return
        self._outbox += frame
        if not self._held:
            self._held = True
            self._push()

    def _push(self) -> None:
        """Send what waits; until the loop's next turn, or until there is room again, more is gathered."""
        self._send_waiting()
        if self._outbox:
            self._loop.add_writer(self._socket.fileno(), self._writable)
        else:
            self._loop.call_soon(self._turned)

    def _turned(self) -> None:
        if self._outbox and not self.ended:
            self._push()
        else:
            self._held = False

    def _writable(self) -> None:
        self._send_waiting()
        if not self._outbox:
            self._loop.remove_writer(self._socket.fileno())
            self._held = False

    def _send_waiting(self) -> None:
        try:
            del self._outbox[: self._socket.send(self._outbox)]
        except BlockingIOError:
            return
        except OSError:
            self._outbox.clear()  # its end is near: the exit answers the calls

    # frames in

    def _readable(self) -> None:
        if not self._read() and not self.ended:
            self.usable = False
            # Nothing will come any more. The exit tells why; should it not come, it is forced.
            self._loop.remove_reader(self._socket.fileno())
            timer = self._loop.call_later(_EXIT_S, self._child.kill)
            self._child.when_ended(lambda _status: timer.cancel())

    def _read(self) -> bool:
        """Read once and serve what came. False at the end of the stream."""
        try:
            size = self._socket.recv_into(self._view)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if size == 0:
            return False
        try:
            for head, body in self._decoder.feed(self._view[:size]):
                self._handle(head, body)
        except (FrameFault, KeyError, TypeError, ValueError) as error:
            self._garbage(error)
            return False
        return True

    def _handle(self, head: Head, body: bytes) -> None:
        kind = head["t"]
        if kind == "result":
            self._result(head, body)
        elif kind == "progress":
            payload = {key: head[key] for key in ("done", "total", "message")}
            call = self.calls.get(head["id"])
            if call is not None and not call.answered:
                call.invocation.emit(kind, self._redactor.payload(payload))
        elif kind == "log":
            self._log(head)
        elif kind == "ask":
            self._asked(head, body)
        elif kind == "drop":
            for call in self.calls.values():
                if (task := call.asks.pop(head["ask"], None)) is not None:
                    task.cancel()
        elif self._reply is not None and not self._reply.done():
            self._reply.set_result((head, body))

    def _result(self, head: Head, body: bytes) -> None:
        call = self.calls.pop(head["id"], None)
        if call is None:
            return
        self._drop_asks(call)
        if not call.future.done():
            call.future.set_result(outcome_of(head, body, self._redactor))
        self.on_settled(self, call)

    def _log(self, head: Head) -> None:
        """What was said with `ctx.log` goes to whoever called; the rest is for the plugin's own log."""
        level, message = str(head["level"]), self._redactor.text(str(head["message"]))
        fields = self._redactor.payload(dict(head["fields"]))
        call = self.calls.get(head["id"])
        if call is not None and not call.answered and not head.get("private"):
            call.invocation.emit("log", {"level": level, "message": message, "fields": fields})
            return
        of = call.invocation if call is not None else None
        self._on_log(
            plugin=self._spec.name,
            tool=of.tool if of else "",
            request_id=of.request_id if of else "",
            session_id=of.session_id if of else "",
            attempt=of.attempt if of else 0,
            level=level,
            message=message,
            fields=fields,
        )

    # ctx.call

    def _asked(self, head: Head, body: bytes) -> None:
        ask, call = head["ask"], self.calls.get(head["id"])
        if call is None or call.answered:
            self._send(
                {"t": "answer", "ask": ask, "code": "CANCELLED", "message": "the calling tool has ended"}
            )
            return
        arguments = json.loads(body)
        call.asks[ask] = self._loop.create_task(self._answer(call, ask, str(head["tool"]), arguments))

    async def _answer(self, call: Call, ask: int, tool: str, arguments: dict[str, object]) -> None:
        outcome = await call.invocation.call(tool, arguments)
        call.asks.pop(ask, None)
        head: Head = {"t": "answer", "ask": ask, "code": str(outcome.code), "message": outcome.message}
        body = outcome.data_json.encode()
        if outcome.content_json:
            head["data_bytes"] = len(body)
            body += outcome.content_json.encode()
        try:
            frame = encode_frame({**head, "detail": dict(outcome.detail)}, body)
        except FrameFault as fault:
            frame = encode_frame(
                head | {"code": "INVALID_RESULT", "message": f"the result is too large: {fault}"}
            )
        self._write(frame)

    def _drop_asks(self, call: Call) -> None:
        asks, call.asks = call.asks, {}
        for task in asks.values():
            task.cancel()

    # its end

    def _garbage(self, error: Exception) -> None:
        """What came is no frame: nothing after it can be trusted."""
        reason = (
            str(error) if isinstance(error, FrameFault) else f"a frame lacks what it must have: {error!r}"
        )
        self.usable = False
        self._garbled = True
        message = f"the worker of {self._spec.name} sent what is no valid frame"
        self._settle_all(Outcome(Code.INVALID_RESULT, message=message, detail={"reason": reason}))
        self.kill("invalid frame")

    def _exited(self, status: ExitStatus) -> None:
        # What it sent before it died still counts.
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        if not self._garbled:
            while self._unread() and self._read():
                pass
        self.ended = True
        self._socket.close()
        self.usable = False
        self.reason = reason = self.verdict or f"crash ({status})"
        message = f"the worker process of {self._spec.name} ended during the call: {reason}"
        self._settle_all(Outcome(Code.UNAVAILABLE, message=message, detail={"reason": reason}))
        if self._reply is not None and not self._reply.done():
            said = self._child.stderr_tail.rstrip().rpartition("\n")[2]
            self._reply.set_exception(
                self._error(
                    f"its worker process ended: {reason}" + (f"; it said: {said[:500]}" if said else "")
                )
            )
        self.on_end(self)

    def _unread(self) -> bool:
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _settle_all(self, outcome: Outcome) -> None:
        calls, self.calls = self.calls, {}
        for call in calls.values():
            self._drop_asks(call)
            if not call.future.done():
                call.future.set_result(outcome)
            self.on_settled(self, call)

    async def _await_reply(self, head: Head | None, body: bytes, kind: str) -> tuple[Head, bytes]:
        """Send a step of its life and wait for the answer, at most the plugin's time to prepare."""
        if self.ended:
            raise self._error("its worker process has ended")
        if self._reply is None:
            self._reply = self._loop.create_future()
        try:
            if head is not None:
                self._send(head, body)
            async with asyncio.timeout(self._spec.prepare_timeout_s):
                answer, data = await self._reply
        except TimeoutError:
            raise self._error(
                f"its worker process did not answer within {self._spec.prepare_timeout_s:g} s",
                remedy="do less at import and start-up, or raise plugins.prepare_timeout_s",
            ) from None
        except FrameFault as fault:
            raise self._error(f"what it is given is too large: {fault}") from None
        finally:
            self._reply = None
        if answer["t"] == "fault":
            place = {"file": str(answer.get("file", ""))}
            numbers = {key: int(answer.get(key) or 0) for key in ("line", "column")}
            remedy = str(answer.get("remedy", ""))
            raise self._error(str(answer.get("reason")), remedy=remedy, **place, **numbers)
        if answer["t"] != kind:
            raise self._error(f"its runner answered {answer['t']!r} where {kind!r} was due")
        return answer, data

    def _error(self, reason: str, *, remedy: str = "", **place: Any) -> PluginError:
        reason = self._redactor.text(reason)
        return PluginError([Rejection(name=self._spec.name, reason=reason, remedy=remedy, **place)])


def outcome_of(head: Head, body: bytes, redactor: Redactor) -> Outcome:
    """A result frame as an Outcome. What is no JSON, or no such code, is INVALID_RESULT with its reason."""
    code, effect = head["code"], head.get("effect")
    if code not in _CODES or effect not in (None, *_EFFECTS):
        reason = f"code {code!r}, effect {effect!r}"
        message = "the worker answered what is no result"
        return Outcome(Code.INVALID_RESULT, message=message, detail={"reason": reason})
    text, content = "null", ""
    if body:
        try:
            text, content = _texts(body, head.get("data_bytes"))
        except (ValueError, RecursionError) as error:
            message = "the result is no valid JSON"
            return Outcome(Code.INVALID_RESULT, message=message, detail={"reason": str(error)[:500]})
    return Outcome(
        Code(code),
        redactor.json_text(text),
        redactor.text(str(head.get("message", ""))),
        effect,
        retryable=head.get("retryable") is True,
        detail=redactor.payload(dict(head.get("detail") or {})),
        content_json=redactor.json_text(content) if content else "",
    )


def _texts(body: bytes, data_bytes: object) -> tuple[str, str]:
    """The data and the content of a result's body. Raises ValueError for what is no JSON, or no content."""
    if data_bytes is None:
        text = body.decode()
        json.loads(text)
        return text, ""
    if not isinstance(data_bytes, int) or not 0 < data_bytes < len(body):
        raise ValueError(f"data_bytes {data_bytes!r} of {len(body)}")
    text, content = body[:data_bytes].decode(), body[data_bytes:].decode()
    json.loads(text)
    check_content(json.loads(content))
    return text, content
