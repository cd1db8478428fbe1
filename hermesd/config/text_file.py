"""Reading a file that an operator named: bounded, never blocking on a pipe or device."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The file's bytes, at most one more than `max_bytes`, so that the caller can tell. Raises OSError.

    A folder, pipe, socket or device is refused instead of waited for.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(f"is {_kind(mode)}, not a file")
        parts = []
        left = max_bytes + 1
        while left and (part := os.read(descriptor, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def trouble(error: OSError | ValueError) -> str:
    """`cannot be read: …` without the path, which the message already names."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot be read: {text}"


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")
