"""Replacing a file whole: at every instant a reader meets either the old content or the new.

Writers of the same folder take turns through a lock on it, in this daemon and in its worker processes.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from .content import open_regular, read_whole
from .fault import FileFault, fault_of
from .root import Place

Mode = Literal["create", "overwrite", "append"]
LOCK_TRIES = 200
LOCK_PAUSE_S = 0.01


@contextmanager
def turn(place: Place, pause: Callable[[float], object]) -> Iterator[int]:
    """The folder of `place`, locked against other writers of hermesd; waits at most two seconds."""
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.folder)
    try:
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pause(LOCK_PAUSE_S)
        else:
            raise FileFault(
                "TOOL_ERROR", f"the folder of {place.shown} is being written by others", retryable=True
            )
        yield folder
    finally:
        os.close(folder)


def current(folder: int, place: Place, limit: int) -> tuple[bytes, os.stat_result] | None:
    """The content and status of the file as it is now, under the lock; None when there is none."""
    if place.name is None:
        raise FileFault("TOOL_ERROR", f"{place.shown} is a folder")
    if place.status is not None and not stat.S_ISREG(place.status.st_mode):
        raise FileFault("PERMISSION_DENIED", f"{place.shown} is no regular file")
    try:
        os.stat(place.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    descriptor = open_regular(folder, place.name, place.shown)
    try:
        status = os.fstat(descriptor)
        _check_may_replace(place, status)
        return read_whole(descriptor, limit, place.shown), status
    finally:
        os.close(descriptor)


def _check_may_replace(place: Place, status: os.stat_result) -> None:
    """A rename needs no right on the file itself: what its mode says is kept to all the same."""
    if not status.st_mode & 0o222:
        raise FileFault(
            "PERMISSION_DENIED", f"{place.shown} is write-protected (mode {status.st_mode & 0o777:o})"
        )
    if status.st_nlink > 1:
        raise FileFault(
            "TOOL_ERROR", f"{place.shown} has {status.st_nlink} hard links: replacing it would part them"
        )


def check_digest(data: bytes | None, expected: str | None, shown: str) -> None:
    """Refuse when the caller based its change on other content. The digest of "" means: no such file."""
    if expected is None:
        return
    found = hashlib.sha256(data).hexdigest() if data is not None else ""
    if found != expected.lower().removeprefix("sha256:"):
        state = f"now has sha256 {found}" if data is not None else "does not exist"
        raise FileFault("TOOL_ERROR", f"{shown} {state}, not the expected one: read it again")


def put(folder: int, place: Place, data: bytes, status: os.stat_result | None, *, new: bool) -> None:
    """Write `data` beside the file, bring it to disk, and put it in the file's place.

    With `new` an existing file is refused rather than replaced. Mode and owner of `status` are kept.
    Until the rename nothing has changed, and a failure leaves nothing behind.
    """
    name = place.name
    if name is None:
        raise FileFault("TOOL_ERROR", f"{place.shown} is a folder")
    beside = f".hermesd-{secrets.token_hex(8)}.tmp"
    try:
        _write_beside(folder, beside, data, status)
        if new:
            _put_new(folder, beside, name, place)
        else:
            os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        raise fault_of(error, place.shown) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
    try:
        os.fsync(folder)
    except OSError as error:
        raise FileFault("TOOL_ERROR", str(fault_of(error, place.shown)), changed=True) from None


def _write_beside(folder: int, beside: str, data: bytes, status: os.stat_result | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o666 if status is None else 0o600, dir_fd=folder)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if status is not None:
            made = os.fstat(descriptor)
            if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
                os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_new(folder: int, beside: str, name: str, place: Place) -> None:
    """A hard link fails when the name is taken; where the file system has none, the name is claimed first."""
    try:
        os.link(beside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise FileFault("TOOL_ERROR", f"{place.shown} exists already; mode overwrite replaces it") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            os.close(os.open(name, flags, 0o600, dir_fd=folder))
        except FileExistsError:
            raise FileFault(
                "TOOL_ERROR", f"{place.shown} exists already; mode overwrite replaces it"
            ) from None
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
