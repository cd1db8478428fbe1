"""The launcher process: every child of the daemon is born here, and none outlives the daemon.

Run as `python -I -S launcher_main.py FD`: FD is one end of a sequenced-packet unix socket. Standard
library only, single-threaded, so that forking is safe and the parent-death signal, which belongs to
the thread that forked, holds for as long as this process lives.

Guarantees: each child leads a session and a process group of its own; when it exits, whatever it
started dies too, even what moved to another session; everything dies when the daemon's end of the
socket closes or the daemon is gone; every process that ends up here is reaped.

Requests and answers are JSON objects, one a packet; `serial` ties them together:
  {"op": "spawn", "serial", "argv", "env", "cwd", "rlimits", "stdin", "stdout", "stderr"}
      → {"op": "spawned", "serial", "pid", "fds": [names]} with the descriptors,
        or {"op": "failed", "serial", "error"}
  {"op": "kill", "serial", "grace_s"}   TERM to the tree, KILL after the grace; 0: KILL at once
  → {"op": "exited", "serial", "status"} when the leader ended (its wait status)
  → {"op": "gone", "serial"} when its whole tree did
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the typing module itself is not worth its start-up time here
    from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MAX_PACKET = 192 * 1024
MARKER = "HERMESD_CHILD"
#: How often a tree that is dying is looked at again, seconds: first, at most.
RECHECK_S = (0.01, 0.25)
#: How long an orphan without the mark may be one whose program is being loaded.
UNMARKED_S = 1.0
#: How long the launcher tries to empty the house before it leaves, seconds.
FAREWELL_S = 10.0
IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGPIPE,
)

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument. Raises OSError."""
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class Process:
    """One line of the process table."""

    __slots__ = ("group", "parent", "session", "started")

    def __init__(self, parent: int, group: int, session: int, started: str) -> None:
        self.parent = parent
        self.group = group
        self.session = session
        self.started = started


def read_process(pid: int) -> Process | None:
    """What /proc says about a process that is not a zombie; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The command name may hold blanks and parentheses: the fields begin after the last one.
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(int(fields[1]), int(fields[2]), int(fields[3]), fields[19].decode())


def descendants(root: int) -> dict[int, Process]:
    """All living processes below `root`, not `root` itself."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (process := read_process(int(entry))) is not None:
            table[int(entry)] = process
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found: dict[int, Process] = {}
    stack = [root]
    while stack:
        for pid in children.get(stack.pop(), ()):
            if pid not in found:
                found[pid] = table[pid]
                stack.append(pid)
    return found


def direct_children(pid: int) -> set[int] | None:
    """The pids of all children, zombies included; None where the kernel does not list them."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return {int(each) for each in file.read().split()}
    except OSError:
        return None


def marker_of(pid: int) -> str:
    """The mark that the process carries in its environment, or ""."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return ""
    prefix = MARKER.encode() + b"="
    for entry in entries:
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode("ascii", "replace")
    return ""


def send_signal(pid: int, process: Process, signum: int) -> None:
    """Signal exactly that process: a pid that was given to another one meanwhile is left alone."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        now = read_process(pid)
        if now is not None and now.started == process.started:
            signal.pidfd_send_signal(descriptor, signum)
    except OSError:
        pass  # it ended by itself
    finally:
        os.close(descriptor)


class Leader:
    """One spawned child and the tree below it."""

    __slots__ = ("error_fd", "exited", "exited_at", "fds", "kill_at", "marker", "pid", "serial")

    def __init__(self, serial: int, pid: int, marker: str, error_fd: int, fds: dict[str, int]) -> None:
        self.serial = serial
        self.pid = pid
        self.marker = marker
        self.exited = False
        self.exited_at = 0.0
        #: Monotonic time at which the rest of the tree is killed; None: nobody asked.
        self.kill_at: float | None = None
        #: Read end of the pipe on which a failed exec is told; -1 once that is settled.
        self.error_fd = error_fd
        #: The daemon's ends, until they are sent.
        self.fds = fds

    @property
    def dying(self) -> bool:
        return self.exited or self.kill_at is not None


class Launcher:
    """The loop: requests, failed execs, exits, kill deadlines."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._leaders: dict[int, Leader] = {}
        self._outbox: list[tuple[bytes, list[int]]] = []
        self._poll = select.poll()
        self._wake, self._wake_in = os.pipe()
        self._parent = -1
        self._recheck = RECHECK_S[0]

    def run(self) -> None:
        """Serve until the daemon's end closes or the daemon is gone; then kill everything."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        for each in IGNORED:
            signal.signal(each, signal.SIG_IGN)
        for descriptor in (self._wake, self._wake_in):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._channel.setblocking(False)
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(self._channel, select.POLLIN)
        try:
            # The socket alone would not do: a fork of the daemon could hold its end open.
            self._parent = os.pidfd_open(os.getppid())
            self._poll.register(self._parent, select.POLLIN)
        except OSError:
            return
        try:
            while self._step():
                pass
        finally:
            self._farewell()

    def _step(self) -> bool:
        events = dict(self._poll.poll(self._timeout_ms()))
        if self._parent in events:
            return False
        if self._wake in events:
            _drain(self._wake)
        channel = events.get(self._channel.fileno(), 0)
        # Room in the socket first: answers go out in the order of what happened.
        if channel & select.POLLOUT and not self._flush():
            return False
        if channel & (select.POLLIN | select.POLLHUP | select.POLLERR) and not self._receive():
            return False
        for leader in [each for each in self._leaders.values() if each.error_fd in events]:
            self._settle_spawn(leader)
        self._reap()
        self._pursue()
        return self._flush()

    def _timeout_ms(self) -> int | None:
        waits = []
        now = time.monotonic()
        for leader in self._leaders.values():
            if leader.kill_at is not None and leader.kill_at > now:
                waits.append(leader.kill_at - now)
            if leader.dying and (leader.exited or (leader.kill_at or 0) <= now):
                waits.append(self._recheck)
        return None if not waits else max(1, int(min(waits) * 1000) + 1)

    # requests

    def _receive(self) -> bool:
        for _ in range(64):
            try:
                packet = self._channel.recv(MAX_PACKET)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not packet:
                return False
            request = json.loads(packet)
            if request["op"] == "spawn":
                self._spawn(request)
            else:
                self._kill(request["serial"], request["grace_s"])
        return True

    def _spawn(self, request: dict[str, Any]) -> None:
        serial = request["serial"]
        opened: list[int] = []
        try:
            ours, theirs = _open_streams(request, opened)
            told, tell = os.pipe()
            opened += [told, tell]
            marker = f"{self._pid}.{serial}"
            environment = {**request["env"], MARKER: marker}
            pid = os.fork()
        except OSError as error:
            _close(opened)
            self._answer({"op": "failed", "serial": serial, "error": f"cannot start: {error.strerror}"})
            return
        if pid == 0:
            _become(request, environment, theirs, tell, self._pid)
        _close([tell, *{each for each in theirs if each > 2}])
        leader = Leader(serial, pid, marker, told, ours)
        self._leaders[serial] = leader
        self._poll.register(told, select.POLLIN)

    def _settle_spawn(self, leader: Leader) -> None:
        """The pipe closed without a word: the program runs. Otherwise it says why not."""
        error = os.read(leader.error_fd, 4096)
        self._poll.unregister(leader.error_fd)
        os.close(leader.error_fd)
        leader.error_fd = -1
        if error:
            _close(list(leader.fds.values()))
            del self._leaders[leader.serial]
            message = error.decode("utf-8", "replace")
            self._answer({"op": "failed", "serial": leader.serial, "error": message})
            return
        fds, leader.fds = leader.fds, {}
        try:
            fds["pidfd"] = os.pidfd_open(leader.pid)
        except OSError as refused:
            _close(list(fds.values()))
            leader.kill_at = time.monotonic()
            reason = f"cannot watch it: {refused.strerror}"
            self._answer({"op": "failed", "serial": leader.serial, "error": reason})
            return
        self._answer(
            {"op": "spawned", "serial": leader.serial, "pid": leader.pid, "fds": list(fds)},
            list(fds.values()),
        )

    def _kill(self, serial: int, grace_s: float) -> None:
        leader = self._leaders.get(serial)
        if leader is None:
            self._answer({"op": "gone", "serial": serial})
            return
        kill_at = time.monotonic() + grace_s
        leader.kill_at = kill_at if leader.kill_at is None else min(kill_at, leader.kill_at)
        self._recheck = RECHECK_S[0]
        if grace_s > 0:
            for pid, process in self._tree(leader)[0].items():
                send_signal(pid, process, signal.SIGTERM)

    # exits

    def _reap(self) -> None:
        """Collect whatever ended: leaders, and orphans that the kernel handed over."""
        by_pid = {leader.pid: leader for leader in self._leaders.values() if not leader.exited}
        while True:
            try:
                pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if pid is None:
                return
            leader = by_pid.get(pid.si_pid)
            # Before the pid is given up: the spawn must be settled while it cannot be another's.
            if leader is not None and leader.error_fd != -1:
                self._settle_spawn(leader)
            _, status = os.waitpid(pid.si_pid, 0)
            if leader is not None and leader.serial in self._leaders:
                leader.exited = True
                leader.exited_at = time.monotonic()
                self._recheck = RECHECK_S[0]
                self._answer({"op": "exited", "serial": leader.serial, "status": status})

    def _pursue(self) -> None:
        """Kill what is left of the trees whose leader ended or whose time is up."""
        now = time.monotonic()
        pending = False
        for leader in list(self._leaders.values()):
            if not leader.dying:
                continue
            tree, conclusive = self._tree(leader)
            if leader.exited and not tree:
                if not conclusive:
                    pending = True
                    continue
                del self._leaders[leader.serial]
                self._answer({"op": "gone", "serial": leader.serial})
                continue
            if leader.kill_at is None or leader.kill_at <= now:
                pending = True
                for pid, process in tree.items():
                    send_signal(pid, process, signal.SIGKILL)
        self._recheck = min(self._recheck * 2, RECHECK_S[1]) if pending else RECHECK_S[0]

    def _tree(self, leader: Leader) -> tuple[dict[int, Process], bool]:
        """All living processes that stem from `leader`, itself included; and whether nothing can be missing.

        While the leader lives, ancestry tells. Orphans become children of this process: those are told
        by their session, their group, or the mark in the environment that they were started with.
        """
        leaders = {each.pid for each in self._leaders.values() if not each.exited}
        if leader.exited:
            children = direct_children(self._pid)
            if children is not None and not children - leaders:
                return {}, True
        below = descendants(self._pid)
        members: dict[int, Process] = {}
        unmarked = False
        for pid, process in below.items():
            if pid in leaders:
                belongs = pid == leader.pid
            elif leader.pid in (process.group, process.session):
                belongs = True
            else:
                marker = marker_of(pid) if process.parent == self._pid else None
                belongs = marker == leader.marker
                unmarked = unmarked or marker == ""
            if belongs:
                members[pid] = process
        grown = True
        while grown:
            more = {
                pid: process
                for pid, process in below.items()
                if pid not in members and pid not in leaders and process.parent in members
            }
            members.update(more)
            grown = bool(more)
        # The process table is no snapshot: a process whose parent ended while it was read can be missing,
        # but then it is a child of this process by now.
        children = direct_children(self._pid)
        seen_all = children is None or children <= leaders | below.keys()
        # An orphan that is just being executed shows no environment for an instant: look again before it
        # is taken for somebody else's. One that has none for long has thrown its own away.
        in_doubt = unmarked and time.monotonic() - leader.exited_at < UNMARKED_S
        return members, seen_all and not in_doubt

    def _farewell(self) -> None:
        """Kill everything below this process and reap it."""
        until = time.monotonic() + FAREWELL_S
        while time.monotonic() < until:
            for pid, process in descendants(self._pid).items():
                send_signal(pid, process, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0] != 0:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.005)

    # answers

    def _answer(self, message: dict[str, object], fds: list[int] | None = None) -> None:
        self._outbox.append((json.dumps(message).encode(), fds or []))

    def _flush(self) -> bool:
        """Send what waits, as far as there is room. False: the daemon's end is closed."""
        while self._outbox:
            packet, fds = self._outbox[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                self._channel.sendmsg([packet], rights)
            except BlockingIOError:
                break
            except OSError:
                return False
            _close(fds)
            del self._outbox[0]
        self._poll.modify(self._channel, select.POLLIN | (select.POLLOUT if self._outbox else 0))
        return True


def _open_streams(request: dict[str, Any], opened: list[int]) -> tuple[dict[str, int], tuple[int, int, int]]:
    """The daemon's ends by name, and the child's three descriptors. `opened` collects all for the undo."""
    ours: dict[str, int] = {}
    theirs = []
    null = os.open(os.devnull, os.O_RDWR)
    opened.append(null)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        kind = request[name]
        if kind == "null":
            theirs.append(null)
        elif kind == "inherit":
            theirs.append(number)
        else:
            mine, child = _open_stream(kind, reading=number == 0)
            opened += [mine, child]
            ours[name] = mine
            theirs.append(child)
    if null not in theirs:
        os.close(null)
        opened.remove(null)
    return ours, (theirs[0], theirs[1], theirs[2])


def _open_stream(kind: str, *, reading: bool) -> tuple[int, int]:
    if kind == "socket":
        first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return first.detach(), second.detach()
    readable, writable = os.pipe()
    return (writable, readable) if reading else (readable, writable)


def _become(
    request: dict[str, Any],
    environment: dict[str, str],
    streams: tuple[int, int, int],
    tell: int,
    parent: int,
) -> NoReturn:
    """In the forked child: become the program, or tell why not. Never returns."""
    stage = "cannot set up"
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)  # the launcher died before the signal was armed
        os.setsid()
        signal.set_wakeup_fd(-1)
        for each in (*IGNORED, signal.SIGCHLD, signal.SIGXFSZ):
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Out of the way of 0, 1, 2 first: a stream may sit on a number that another one wants.
        tell = _above_stdio(tell)
        for number, descriptor in enumerate([_above_stdio(each) for each in streams]):
            os.dup2(descriptor, number)
        for name, (soft, hard) in request["rlimits"].items():
            stage = f"cannot set the limit {name}"
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (soft, hard))
        stage = f"cannot enter {request['cwd']}"
        os.chdir(request["cwd"])
        stage = f"cannot run {request['argv'][0]}"
        os.execvpe(request["argv"][0], request["argv"], environment)  # noqa: S606 - that is its purpose
    except BaseException as error:  # noqa: BLE001 - nothing may unwind into the launcher's loop here
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        os.write(tell, f"{stage}: {reason}".encode("utf-8", "replace")[:4096])
    finally:
        os._exit(127)


def _above_stdio(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _close(descriptors: list[int]) -> None:
    for each in descriptors:
        os.close(each)


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass


def main() -> None:
    if os.getsid(0) != os.getpid():
        os.setsid()  # out of reach of the terminal's signals
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)  # it was handed over an exec; no child may hold it
    Launcher(channel).run()


if __name__ == "__main__":
    main()
