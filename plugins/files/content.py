"""A file's bytes, and the text that they are."""

from __future__ import annotations

import codecs
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from .fault import FileFault, fault_of
from .root import Place

Encoding = Literal["auto", "utf-8", "gb18030", "big5", "shift_jis", "utf-16-le", "utf-16-be", "latin-1"]
SAMPLE = 64 * 1024

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class Coding:
    """How bytes are text: Python's codec name and the byte order mark that stands in front."""

    name: str
    mark: bytes = b""

    def decode(self, data: bytes) -> str:
        """The whole text, without the mark; raises FileFault where a byte is no text."""
        try:
            return data[len(self.mark) :].decode(self.name)
        except UnicodeDecodeError as error:
            place = error.start + len(self.mark)
            raise FileFault("TOOL_ERROR", f"byte {place} is no {self.name} text") from None

    def encode(self, text: str) -> bytes:
        """The bytes of `text`, with the mark."""
        try:
            return self.mark + text.encode(self.name)
        except UnicodeEncodeError as error:
            bad = error.object[error.start : error.end][:10]
            raise FileFault(
                "INVALID_ARGUMENT", f"{bad!a} cannot be written in the file's encoding, {self.name}"
            ) from None


def detect(sample: bytes) -> Coding | None:
    """The encoding of a file that begins with `sample`; None means that it is no text.

    A byte order mark decides, then UTF-8, then GB18030 when what it gives looks written by people.
    """
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return Coding(name, mark)
    if b"\0" in sample:
        return None
    if _decoded(sample, "utf-8") is not None:
        return Coding("utf-8")
    text = _decoded(sample, "gb18030")
    return Coding("gb18030") if text is not None and _is_plausible(text) else None


def coding_for(sample: bytes, wanted: str) -> Coding | None:
    """`detect`, unless the caller names the encoding."""
    if wanted == "auto":
        return detect(sample)
    for mark, name in _MARKS:
        if name == wanted and sample.startswith(mark):
            return Coding(name, mark)
    return Coding(wanted)


def _decoded(sample: bytes, name: str) -> str | None:
    """`sample` as text, which may break off within its last character."""
    try:
        return codecs.getincrementaldecoder(name)().decode(sample, final=len(sample) < SAMPLE)
    except UnicodeDecodeError:
        return None


def _is_plausible(text: str) -> bool:
    """GB18030 takes almost any bytes; only a text of ordinary characters is believed."""
    foreign = [char for char in text if not char.isascii()]
    ordinary = sum("一" <= char <= "鿿" or "　" <= char <= "〿" or "！" <= char <= "￥" for char in foreign)
    control = sum(
        unicodedata.category(char) in ("Cc", "Co", "Cn") and char not in "\t\n\r\f\x1b" for char in text
    )
    return ordinary >= 0.7 * len(foreign) and control == 0


@contextmanager
def opened(place: Place) -> Iterator[tuple[int, os.stat_result]]:
    """The file of `place` open for reading. Only regular files: a FIFO or device is never waited for."""
    if place.name is None:
        raise FileFault("TOOL_ERROR", f"{place.shown} is a folder")
    if place.status is None:
        raise FileFault("TOOL_ERROR", f"{place.shown} does not exist")
    if not stat.S_ISREG(place.status.st_mode):
        raise FileFault("PERMISSION_DENIED", f"{place.shown} is no regular file")
    descriptor = open_regular(place.folder, place.name, place.shown)
    try:
        yield descriptor, os.fstat(descriptor)
    finally:
        os.close(descriptor)


def open_regular(folder: int, name: str, shown: str) -> int:
    """A descriptor of the regular file `name` in `folder`; never follows a link, never blocks."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise fault_of(error, shown) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileFault("PERMISSION_DENIED", f"{shown} is no regular file")
    return descriptor


def read_at_most(descriptor: int, limit: int, offset: int = 0) -> bytes:
    """Up to `limit` bytes from `offset`; fewer only at the end of the file."""
    pieces = []
    while limit > 0:
        piece = os.pread(descriptor, min(limit, 1 << 20), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        limit -= len(piece)
    return b"".join(pieces)


def read_whole(descriptor: int, limit: int, shown: str) -> bytes:
    """All bytes; refused when there are more than `limit`."""
    data = read_at_most(descriptor, limit + 1)
    if len(data) > limit:
        raise FileFault("TOOL_ERROR", f"{shown} is larger than {limit} bytes, the configured max_file_bytes")
    return data
