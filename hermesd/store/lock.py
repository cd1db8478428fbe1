"""One daemon a data dir: an flock that the kernel drops when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hermesd.clock import Clock
from hermesd.errors import LockedError
from hermesd.store.durable import store_error, write_all

_MAX_BYTES = 64 * 1024


class DataDirLock:
    """The lock file of a data dir. It says who holds it, and is never deleted (that would be a race).

    The descriptor is closed on exec, so no child keeps the lock.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._descriptor: int | None = None
        self._since = ""

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self, addresses: Sequence[str] = ()) -> None:
        """Take the lock without waiting. Raises LockedError naming the holder, or StoreError."""
        if self._descriptor is not None:
            raise RuntimeError("this lock is held already")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise store_error(error, self._path, "open") from error
        try:
            self._lock(descriptor)
            self._since = self._clock.now().isoformat(timespec="seconds")
            self._write(descriptor, addresses)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):  # what it says is information; the flock is the lock
                os.ftruncate(descriptor, 0)
            with contextlib.suppress(OSError):
                # A child between fork and exec still holds a copy of the descriptor for an instant:
                # unlocking lets go for all copies, closing only for ours.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(
                f"the data dir {self._path.parent} is in use by {_holder(descriptor)}",
                remedy="stop that daemon, or give this one another --data-dir",
            ) from None
        except OSError as error:
            raise store_error(error, self._path, "lock") from error

    def _write(self, descriptor: int, addresses: Sequence[str]) -> None:
        text = json.dumps(
            {"pid": os.getpid(), "since": self._since, "addresses": list(addresses)}, ensure_ascii=False
        )
        try:
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            write_all(descriptor, text.encode() + b"\n")
        except OSError as error:
            raise store_error(error, self._path, "write") from error


def _holder(descriptor: int) -> str:
    """Who holds the lock, as far as the file says (its holder may be writing it just now)."""
    try:
        holder = json.loads(os.pread(descriptor, _MAX_BYTES, 0))
        pid, since, addresses = int(holder["pid"]), str(holder["since"]), list(holder["addresses"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another hermesd"
    listening = f", listening on {', '.join(map(str, addresses))}" if addresses else ""
    return f"the hermesd with pid {pid} since {since}{listening}"
