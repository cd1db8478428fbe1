"""The daemon's end of the launcher: spawn, wait, kill, without threads and without blocking the loop."""

from __future__ import annotations

import array
import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from hermesd.errors import LauncherError
from hermesd.supervise.child import Child, ExitStatus

log = logging.getLogger(__name__)

Stream = Literal["pipe", "socket", "null", "inherit"]

#: Variables by which systemd talks to the daemon; a child that had them could speak in its name.
SCRUBBED = frozenset({"NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY", "MAINPID", "INVOCATION_ID", "JOURNAL_STREAM"})
SCRUBBED_PREFIXES = ("WATCHDOG_", "LISTEN_")
#: The longest request (arguments and environment together), bytes.
MAX_REQUEST_BYTES = 128 * 1024
_PACKET_BYTES = 64 * 1024
_MAX_FDS = 8
_BUFFER_BYTES = 1024 * 1024
_MAIN = Path(__file__).with_name("launcher_main.py")


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what belongs to the daemon alone."""
    return {
        name: value
        for name, value in environment.items()
        if name not in SCRUBBED and not name.startswith(SCRUBBED_PREFIXES)
    }


class Launcher:
    """Owns the launcher process and, through it, every child.

    When the launcher dies its children die with it; they end as killed, and the next `spawn`
    starts a new launcher.
    """

    def __init__(self, *, request_timeout_s: float = 10.0) -> None:
        self._timeout_s = request_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serial = 0
        self._spawning: dict[int, tuple[asyncio.Future[Child], str, Callable[[str], None] | None]] = {}
        self._children: dict[int, Child] = {}
        self._outbox: list[bytes] = []
        self._closed = False
        self.restarts = 0

    @classmethod
    def start(cls, *, request_timeout_s: float = 10.0) -> Launcher:
        """Start the process. To be called before grpc is loaded. Raises LauncherError."""
        launcher = cls(request_timeout_s=request_timeout_s)
        launcher._launch()
        return launcher

    @property
    def pid(self) -> int:
        """The launcher's process id; 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    def children(self) -> tuple[Child, ...]:
        """The children of which something is still there."""
        return tuple(self._children.values())

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | str,
        name: str,
        rlimits: Mapping[str, tuple[int, int]] | None = None,
        stdin: Stream = "null",
        stdout: Stream = "null",
        stderr: Stream = "pipe",
        on_stderr: Callable[[str], None] | None = None,
    ) -> Child:
        """Start a program in a session of its own. Raises LauncherError when it cannot be run.

        `env` is the whole environment but for one variable that marks the tree (`HERMESD_CHILD`).
        `rlimits` maps a resource ("NOFILE", "CORE", …) to its soft and hard limit. With stdin "socket" the
        child's descriptor 0 is one end of a stream socket that carries both directions. `on_stderr` is
        called on the loop with each line. Cancelling kills what was started.
        """
        loop = self._attach()
        self._serial += 1
        serial = self._serial
        request = {"op": "spawn", "serial": serial, "argv": list(argv), "env": scrubbed(env), "cwd": str(cwd)}
        request |= {"rlimits": dict(rlimits or {}), "stdin": stdin, "stdout": stdout, "stderr": stderr}
        packet = _encode(request, name)
        future: asyncio.Future[Child] = loop.create_future()
        self._spawning[serial] = (future, name, on_stderr)
        child = None
        try:
            self._send(packet)
            async with asyncio.timeout(self._timeout_s):
                child = await future
        except TimeoutError:
            message = f"{name}: the launcher did not start it within {self._timeout_s:g} s"
            raise LauncherError(message, remedy="the machine is overloaded or its disk hangs") from None
        finally:
            self._spawning.pop(serial, None)
            if child is None:  # it may run all the same, and nobody would ever end it
                self._kill(serial, 0.0)
        return child

    async def stop(self) -> None:
        """Kill every child and end the launcher without blocking the loop. Bounded; idempotent."""
        process, self._closed = self._process, True
        self._disconnect("the launcher was stopped")
        if process is None or process.poll() is not None:
            return
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        pidfd = os.pidfd_open(process.pid)
        loop.add_reader(pidfd, ended.set)
        try:
            async with asyncio.timeout(12.0):
                await ended.wait()
        except TimeoutError:
            process.kill()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        process.wait()

    def close(self) -> None:
        """Kill every child and end the launcher; waits at most 12 s. Idempotent."""
        process, self._closed = self._process, True
        self._disconnect("the launcher was closed")
        if process is None:
            return
        try:
            process.wait(12.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    # the process and its channel

    def _launch(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (ours, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", str(_MAIN), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={"LC_ALL": "C.UTF-8"},
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            remedy = "see that the machine has memory and process ids left"
            raise LauncherError(f"the launcher cannot start: {error}", remedy=remedy) from error
        finally:
            theirs.close()
        ours.setblocking(False)
        self._channel = ours
        return ours

    def _attach(self) -> asyncio.AbstractEventLoop:
        """Listen on the running loop; start a new process when the last one died."""
        if self._closed:
            raise LauncherError("the launcher is closed")
        loop = asyncio.get_running_loop()
        channel = self._channel
        if channel is None:
            channel = self._launch()
            self.restarts += 1
            self._loop = None
        if self._loop is not loop:
            loop.add_reader(channel.fileno(), self._readable)
            self._loop = loop
        return loop

    def _disconnect(self, reason: str) -> None:
        """The launcher is gone, or shall go: its children are dead or about to be."""
        channel, self._channel = self._channel, None
        if channel is None:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(channel.fileno())
            self._loop.remove_writer(channel.fileno())
        self._loop = None
        channel.close()
        self._outbox.clear()
        spawning, self._spawning = self._spawning, {}
        for future, name, _ in spawning.values():
            if not future.done():
                future.set_exception(LauncherError(f"{name}: {reason}"))
        children, self._children = self._children, {}
        for child in children.values():
            _kill_group(child.pid)
            child.ended(ExitStatus(signal=signal.SIGKILL))
            child.vanished()

    def _lost(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # without its channel it is of no use; a dead one does not mind
        code = process.wait()
        log.error("the launcher (pid %s) died with status %s; its children died with it", process.pid, code)
        self._disconnect(f"the launcher died (status {code}); the next start makes a new one")

    # packets

    def _send(self, packet: bytes) -> None:
        self._outbox.append(packet)
        if len(self._outbox) == 1:
            self._writable()

    def _writable(self) -> None:
        channel, loop = self._channel, self._loop
        if channel is None or loop is None:
            return
        while self._outbox:
            try:
                channel.send(self._outbox[0])
            except BlockingIOError:
                loop.add_writer(channel.fileno(), self._writable)
                return
            except OSError:
                self._lost()
                return
            del self._outbox[0]
        loop.remove_writer(channel.fileno())

    def _readable(self) -> None:
        for _ in range(64):
            if self._channel is None:
                return
            try:
                packet, ancillary, _flags, _ = self._channel.recvmsg(
                    _PACKET_BYTES, socket.CMSG_SPACE(_MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError:
                packet, ancillary = b"", []
            if not packet:
                self._lost()
                return
            self._handle(json.loads(packet), _descriptors(ancillary))

    def _handle(self, message: dict[str, Any], descriptors: list[int]) -> None:
        serial = message["serial"]
        match message["op"]:
            case "spawned":
                self._spawned(serial, message["pid"], dict(zip(message["fds"], descriptors, strict=True)))
            case "failed":
                future, name, _ = self._spawning.pop(serial, (None, "", None))
                if future is not None and not future.done():
                    future.set_exception(LauncherError(f"{name}: {message['error']}"))
            case "exited":
                if (child := self._children.get(serial)) is not None:
                    child.ended(ExitStatus.from_wait_status(message["status"]))
            case "gone":
                if (child := self._children.pop(serial, None)) is not None:
                    child.vanished()

    def _spawned(self, serial: int, pid: int, descriptors: dict[str, int]) -> None:
        future, name, on_stderr = self._spawning.pop(serial, (None, "", None))
        if future is None or future.done() or self._loop is None:
            for each in descriptors.values():
                os.close(each)
            return
        child = Child(
            name,
            pid,
            descriptors,
            loop=self._loop,
            kill=lambda grace_s: self._kill(serial, grace_s),
            on_stderr=on_stderr,
        )
        self._children[serial] = child
        future.set_result(child)

    def _kill(self, serial: int, grace_s: float) -> None:
        if self._channel is not None:
            self._send(json.dumps({"op": "kill", "serial": serial, "grace_s": grace_s}).encode())


def _encode(request: dict[str, object], name: str) -> bytes:
    try:
        packet = json.dumps(request).encode()
    except (TypeError, ValueError) as error:
        raise LauncherError(f"{name}: the request cannot be encoded: {error}") from None
    if len(packet) > MAX_REQUEST_BYTES:
        raise LauncherError(
            f"{name}: arguments and environment together exceed {MAX_REQUEST_BYTES // 1024} KiB",
            remedy="pass large values in files",
        )
    return packet


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return found.tolist()


def _kill_group(pid: int) -> None:
    """After the launcher's death: the leader has its parent-death signal, its group has only this."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
