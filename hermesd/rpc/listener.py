"""Unix sockets that are ours: locked, with their mode from the first moment, removed only if still ours.

A socket of a dead daemon is replaced, one that somebody answers on is never taken. Between the lock
beside the socket and the probe there is no moment at which two daemons can both believe to own it. The
socket is made in a private folder and moved into place when it already accepts.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
import stat
import tempfile
from pathlib import Path

from hermesd.access.socket_access import FolderFault, folder_fault, group_id
from hermesd.errors import LockedError, PreconditionError

PROBE_S = 1.0
#: A unix socket's path has at most 107 bytes, and the private folder needs 13 of them.
MAX_FOLDER = 94


class UnixListener:
    """One socket path: `acquire`, bind at `private_path`, `publish`, and `release` at the end."""

    def __init__(self, path: Path, group: str = "", *, everybody: bool = False) -> None:
        """`everybody`: each user of the machine may connect, because a token tells who may do what."""
        self.path = path
        self._everybody = everybody
        self._gid = group_id(group) if group else -1
        self._lock = -1
        self._folder: Path | None = None
        self._inode: tuple[int, int] | None = None
        #: Who else could replace the socket; known after `acquire`.
        self.fault: FolderFault | None = None

    def acquire(self) -> str:
        """Lock the path and return where to bind. LockedError names who holds it; PreconditionError."""
        folder = self.path.parent
        if len(os.fsencode(folder)) > MAX_FOLDER:
            raise PreconditionError(
                f"address unix:{self.path}: the folder's path is longer than {MAX_FOLDER} bytes",
                remedy="a unix socket needs a shorter path",
            )
        try:
            return str(self._acquire(folder) / "s")
        except OSError as error:
            self.release()
            raise PreconditionError(
                f"address unix:{self.path}: {error.strerror or error}: {error.filename or folder}",
                remedy="let this user write to the folder, or listen elsewhere",
            ) from error
        except BaseException:
            self.release()
            raise

    def _acquire(self, folder: Path) -> Path:
        if not folder.is_dir():
            folder.mkdir(parents=True, mode=0o755 if self._everybody else 0o700, exist_ok=True)
            if self._gid >= 0:
                os.chown(folder, -1, self._gid)
                folder.chmod(0o750)
        self.fault = folder_fault(folder)
        if self.fault is not None and self.fault.fatal:
            raise PreconditionError(
                f"address unix:{self.path}: {self.fault.reason}", remedy=self.fault.remedy
            )
        self._lock = _lock(self.path)
        _check_free(self.path)
        self._folder = Path(tempfile.mkdtemp(prefix=".h", dir=folder))
        return self._folder

    def publish(self) -> None:
        """Move the bound socket, with its mode, to its path."""
        assert self._folder is not None  # noqa: S101 - acquire comes first
        private = self._folder / "s"
        if self._gid >= 0:
            os.chown(private, -1, self._gid)
        private.chmod(0o666 if self._everybody else 0o660 if self._gid >= 0 else 0o600)
        found = private.stat()
        self._inode = (found.st_dev, found.st_ino)
        private.replace(self.path)
        self._folder.rmdir()
        self._folder = None

    def is_lost(self) -> bool:
        """Whether what was published is not at the path, so that nobody can connect: removed or replaced."""
        try:
            found = self.path.lstat()
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != self._inode

    def release(self) -> None:
        """Remove the socket if it is still ours, and let go of the lock. Idempotent."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if not self.is_lost():
            self.path.unlink(missing_ok=True)
        self._inode = None
        if self._lock >= 0:
            # Nobody else can hold this inode's lock now; who waits for it looks again under its name. The
            # file is somebody else's when ours was removed and another daemon has taken the path.
            if _is_same_file(self._lock, _lock_path(self.path)):
                _lock_path(self.path).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _lock(path: Path) -> int:
    """A descriptor that holds the lock of the socket path for as long as it is open."""
    name = _lock_path(path)
    while True:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise LockedError(
                f"address unix:{path} is held by {holder}", remedy="stop that one, or listen elsewhere"
            ) from None
        if _is_same_file(descriptor, name):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
            return descriptor
        os.close(descriptor)  # its holder removed it between our open and our lock


def _holder(descriptor: int) -> str:
    try:
        return f"the hermesd with pid {int(json.loads(os.pread(descriptor, 1024, 0))['pid'])}"
    except (ValueError, KeyError, TypeError):
        return "another hermesd"


def _is_same_file(descriptor: int, name: Path) -> bool:
    try:
        here, there = os.fstat(descriptor), name.lstat()
    except FileNotFoundError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _check_free(path: Path) -> None:
    """Whether the path may be taken: nothing there, or a socket on which nobody answers."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise LockedError(
            f"address unix:{path}: there is something that is no socket",
            remedy="remove it, or listen elsewhere",
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError as error:
            why = errno.errorcode.get(error.errno or 0, str(error))
            raise LockedError(
                f"address unix:{path} is in use or not ours ({why})", remedy="listen elsewhere"
            ) from None
        pid = int.from_bytes(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")
    raise LockedError(
        f"address unix:{path} is served by the process {pid}", remedy="stop that one, or listen elsewhere"
    )
