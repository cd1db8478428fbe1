"""Writing to the data dir: whole or not at all, and every failure says what to do."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from pathlib import Path
from typing import cast

from hermesd.errors import StoreError

#: What to do about a failed system call, by errno.
REMEDIES = {
    errno.ENOSPC: "the disk is full: free space there, then try again",
    errno.EDQUOT: "the disk quota is used up: free space there, then try again",
    errno.EROFS: "the file system is read-only: mount it writable or choose another data dir",
    errno.EACCES: "let the daemon's user write there, or choose another data dir",
    errno.EPERM: "let the daemon's user write there, or choose another data dir",
    errno.EMFILE: "too many open files: raise LimitNOFILE of the service",
    errno.ENFILE: "too many open files on this machine: raise fs.file-max",
    errno.EIO: "the device reports errors: look at the kernel's log",
}


def store_error(error: OSError, path: Path, doing: str) -> StoreError:
    """The StoreError for a failed system call: what, where, why, and the remedy."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StoreError(f"cannot {doing} {path}: {reason}", remedy=REMEDIES.get(error.errno or 0, ""))


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    """Replace `path` by `data`: after a crash the file holds the old bytes or the new, never a part.

    `sync` False: that holds for a crash of the daemon, and not for one of the machine.
    Raises StoreError; the old file is untouched then and no temporary file is left.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            try:
                os.fchmod(descriptor, mode)
                write_all(descriptor, data)
                if sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
            if sync:
                sync_directory(path.parent)
        except OSError as error:
            raise store_error(error, path, "write") from error
    finally:
        # Gone by the rename, or never made; what a dying disk keeps is swept at the next start.
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def sweep_temporary(folder: Path) -> None:
    """Remove what a killed `write_atomic` left in `folder`. Raises StoreError."""
    try:
        for name in os.listdir(folder):
            if name.startswith(".") and name.endswith(".tmp"):
                os.unlink(folder / name)
    except OSError as error:
        raise store_error(error, folder, "tidy") from error


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte: a system call may take only a part of them."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: Path) -> None:
    """Make renames in `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json_object(
    path: Path, *, version: int, max_bytes: int = 16 * 1024 * 1024
) -> dict[str, object] | None:
    """The JSON object in `path`; None when there is no such file.

    Raises StoreError when it is unreadable, damaged, or written by a newer build: what an operator
    decided is never taken for empty.
    """
    remedy = f"restore {path.name} from a backup, or move {path} away to start without it"
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error(error, path, "read") from error
    if len(data) > max_bytes:
        raise StoreError(f"{path} is larger than {max_bytes} bytes", remedy=remedy)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is damaged: {error}", remedy=remedy) from error
    if not isinstance(value, dict):
        raise StoreError(f"{path} is damaged: it holds no JSON object", remedy=remedy)
    written = value.get("version")
    if not isinstance(written, int) or isinstance(written, bool) or written < 1:
        raise StoreError(f"{path} is damaged: it names no version", remedy=remedy)
    if written > version:
        raise StoreError(
            f"{path} was written by a newer hermesd (version {written}; this build reads {version})",
            remedy="start that hermesd again, or restore a backup made by this one",
        )
    return cast("dict[str, object]", value)


def json_bytes(value: object) -> bytes:
    """The text that the state files hold: readable, sorted, with a final newline."""
    return (json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()
