"""One child process as the daemon sees it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

#: How long the launcher may take to tell how an exited child ended, seconds.
STATUS_S = 2.0
#: How much of the end of a child's stderr is kept, bytes.
TAIL_BYTES = 64 * 1024
#: A line longer than this is handed on in pieces, bytes.
MAX_LINE_BYTES = 8 * 1024
#: Lines beyond this many bytes a second are counted, not handed on: a child must not drown the daemon.
LINE_BYTES_PER_S = 1024 * 1024
_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a child ended: by itself with `code`, or by `signal`. Both None: nobody saw it end."""

    code: int | None = None
    signal: int | None = None

    @classmethod
    def from_wait_status(cls, status: int) -> ExitStatus:
        code = os.waitstatus_to_exitcode(status)
        return cls(signal=-code) if code < 0 else cls(code=code)

    def __str__(self) -> str:
        """ "SIGSEGV", "exit status 3" or "fate unknown"."""
        if self.signal is not None:
            try:
                return signal.Signals(self.signal).name
            except ValueError:
                return f"signal {self.signal}"
        return "fate unknown" if self.code is None else f"exit status {self.code}"


class StderrDrain:
    """Reads a child's stderr for as long as it lives: keeps the end of it, hands lines on.

    Nothing that the child writes can block it, grow without bound here, or hold the loop: one bounded
    read for each readiness.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, on_line: Callable[[str], None] | None
    ) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._on_line = on_line
        self._tail = bytearray()
        self._line = bytearray()
        self._window = 0.0
        self._passed = 0
        self._dropped = 0
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, self._readable)

    @property
    def tail(self) -> str:
        return self._tail.decode("utf-8", "replace")

    def close(self) -> None:
        """Take what is there already, then let go. Never waits for writers that still hold the pipe."""
        if self._descriptor == -1:
            return
        for _ in range(TAIL_BYTES // 1024):
            if not self._read():
                break
        self._release()

    def _readable(self) -> None:
        if not self._read() and self._descriptor != -1:
            self._release()

    def _read(self) -> bool:
        """One read. False at the end of the stream or (only when asked by `close`) when nothing waits."""
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            return False
        self._tail += data
        del self._tail[:-TAIL_BYTES]
        self._hand_on(data)
        return True

    def _hand_on(self, data: bytes) -> None:
        now = self._loop.time()
        if now - self._window >= 1.0:
            self._window, self._passed = now, 0
            self._tell_dropped()
        if self._passed + len(data) > LINE_BYTES_PER_S:
            self._dropped += len(data)
            return
        self._passed += len(data)
        *lines, rest = (bytes(self._line) + data).split(b"\n")
        for line in lines:
            self._emit(line)
        self._line = bytearray(rest)
        if len(self._line) > MAX_LINE_BYTES:
            self._emit(bytes(self._line))
            self._line.clear()

    def _emit(self, line: bytes) -> None:
        if self._on_line is None:
            return
        for start in range(0, max(len(line), 1), MAX_LINE_BYTES):
            piece = line[start : start + MAX_LINE_BYTES].rstrip(b"\r")
            if piece:
                self._on_line(piece.decode("utf-8", "replace"))

    def _tell_dropped(self) -> None:
        if self._dropped:
            self._emit(f"… {self._dropped} bytes of output dropped: more than 1 MiB in a second".encode())
            self._dropped = 0

    def _release(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self._emit(bytes(self._line))
        self._line.clear()
        self._tell_dropped()


class Child:
    """A child process, its descriptors and its end.

    The descriptors are the daemon's ends; -1: there is none. `pidfd` and `stderr_fd` (which is read here) are
    closed once the whole tree is gone. `stdin_fd` and `stdout_fd` may still hold what nobody has read: they
    stay open until `close`, or `take` hands them over.
    """

    def __init__(
        self,
        name: str,
        pid: int,
        descriptors: dict[str, int],
        *,
        loop: asyncio.AbstractEventLoop,
        kill: Callable[[float], None],
        on_stderr: Callable[[str], None] | None,
    ) -> None:
        self.name = name
        self.pid = pid
        self.pidfd = descriptors["pidfd"]
        self.stdin_fd = descriptors.get("stdin", -1)
        self.stdout_fd = descriptors.get("stdout", -1)
        self.stderr_fd = descriptors.get("stderr", -1)
        self._loop = loop
        self._kill = kill
        self._exited: asyncio.Future[ExitStatus] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self.pidfd, self._noticed)
        self._drain = StderrDrain(loop, self.stderr_fd, on_stderr) if self.stderr_fd != -1 else None

    @property
    def status(self) -> ExitStatus | None:
        """How it ended; None while it lives."""
        return self._exited.result() if self._exited.done() else None

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of what it wrote to stderr."""
        return self._drain.tail if self._drain is not None else ""

    def take(self, stream: str) -> int:
        """Hand over the daemon's end of "stdin" or "stdout": from now on closing it is the caller's."""
        descriptor: int = getattr(self, f"{stream}_fd")
        setattr(self, f"{stream}_fd", -1)
        return descriptor

    def close(self) -> None:
        """Close the daemon's ends of stdin and stdout that nobody took. Idempotent."""
        for stream in ("stdin", "stdout"):
            descriptor = self.take(stream)
            if descriptor != -1:
                os.close(descriptor)

    async def wait(self) -> ExitStatus:
        """Wait for the child's own exit: pipes that grandchildren hold open do not matter."""
        return await asyncio.shield(self._exited)

    def when_ended(self, callback: Callable[[ExitStatus], None]) -> None:
        """Call back on the loop once the child exited, soon if it has."""
        self._exited.add_done_callback(lambda exited: callback(exited.result()))

    def kill(self, grace_s: float = 0.0) -> None:
        """Ask for what `kill_tree` does, and wait for nothing."""
        if not self._gone.done():
            self._kill(grace_s)

    async def kill_tree(self, grace_s: float) -> ExitStatus:
        """TERM to the child and all below it, KILL after `grace_s` (0: at once); returns when all are gone.

        What the kernel itself cannot end (a process in an uninterruptible wait) is waited for 5 s more.
        """
        if not self._gone.done():
            self._kill(grace_s)
            await asyncio.wait([self._gone], timeout=grace_s + 5.0)
        return self.status or ExitStatus()

    def _noticed(self) -> None:
        """The kernel says that it exited; only the launcher knows how, and may be hung or gone."""
        self._loop.remove_reader(self.pidfd)
        self._loop.call_later(STATUS_S, self.ended, ExitStatus())

    def ended(self, status: ExitStatus) -> None:
        """Called by the launcher's client: the leader exited."""
        if not self._exited.done() and not self._loop.is_closed():
            self._exited.set_result(status)

    def vanished(self) -> None:
        """Called by the launcher's client: nothing of the tree is left."""
        self.ended(ExitStatus())
        if self._gone.done():
            return
        if not self._loop.is_closed():
            self._gone.set_result(None)
        if self._drain is not None:
            self._drain.close()
        if not self._loop.is_closed():
            self._loop.remove_reader(self.pidfd)
        os.close(self.pidfd)
        self.pidfd = self.stderr_fd = -1
