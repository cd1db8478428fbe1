"""A file of lines that grows to a bound and then begins anew, a number of older ones kept beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


class RotatedFile:
    """`PATH`, and its older parts `PATH.1`, `PATH.2`, …; 0600, in a folder that is made with 0700.

    Used by one thread. Raises OSError.
    """

    def __init__(self, path: Path, *, max_bytes: int, keep: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.keep = keep

    def append(self, lines: Iterable[bytes]) -> None:
        """Append whole lines, rotating whenever the file would grow beyond its bound."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        pending = bytearray()
        size = self.path.stat().st_size if self.path.exists() else 0
        for line in lines:
            if size and size + len(line) > self.max_bytes:
                self._write(pending)
                pending.clear()
                self._rotate()
                size = 0
            pending += line
            size += len(line)
        self._write(pending)

    def parts(self) -> list[Path]:
        """The files that there may be, newest first."""
        return [self.path, *(self._older(number + 1) for number in range(self.keep))]

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _rotate(self) -> None:
        for number in range(self.keep - 1, 0, -1):
            if self._older(number).exists():
                self._older(number).replace(self._older(number + 1))
        if self.keep:
            self.path.replace(self._older(1))
        else:
            self.path.unlink()
        self._drop_beyond()

    def _drop_beyond(self) -> None:
        """Remove parts that an earlier, greater `keep` left."""
        number = self.keep + 1
        while self._older(number).exists():
            self._older(number).unlink()
            number += 1

    def _write(self, data: bytes | bytearray) -> None:
        if not data:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        with open(descriptor, "ab", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
