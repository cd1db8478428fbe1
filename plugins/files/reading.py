"""Reading a part of one file: lines of text, or bytes."""

from __future__ import annotations

import base64
import codecs
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from .content import SAMPLE, Coding, coding_for, opened, read_at_most
from .root import Limits, Place

CHUNK = 256 * 1024
#: Codecs in which the byte 0x0A is a line feed wherever it stands, so that lines can be cut before decoding.
_LINEAR = frozenset({"utf-8", "gb18030", "big5", "shift_jis", "latin-1"})


@dataclass(frozen=True)
class FileContent:
    """A part of a file.

    `text` has the lines from `first_line`, `next_line` is where to go on (null at the end). A binary
    file has `base64` of the bytes from `first_byte`, and `next_byte`. `sha256` is of the whole file,
    null when it is too large to be hashed; `replaced` counts bytes that were no text.
    """

    path: str
    kind: Literal["text", "binary"]
    size: int
    modified_at: datetime
    sha256: str | None
    encoding: str | None = None
    newline: Literal["lf", "crlf", "mixed", "none"] | None = None
    text: str | None = None
    first_line: int | None = None
    lines: int = 0
    next_line: int | None = None
    base64: str | None = None
    first_byte: int | None = None
    next_byte: int | None = None
    replaced: int = 0
    cut_line: bool = False


def read_text_or_bytes(
    place: Place,
    limits: Limits,
    *,
    first_line: int,
    max_lines: int,
    encoding: str,
    first_byte: int,
    force_bytes: bool,
    stop: Callable[[], None],
) -> FileContent:
    """Read the part that was asked for, at most `limits.max_bytes` of it. Raises FileFault."""
    with opened(place) as (descriptor, status):
        sample = read_at_most(descriptor, SAMPLE)
        coding = None if force_bytes else coding_for(sample, encoding)
        whole = FileContent(
            path=place.shown,
            kind="binary",
            size=status.st_size,
            modified_at=datetime.fromtimestamp(status.st_mtime, UTC),
            sha256=file_digest(descriptor, limits.max_file_bytes, stop),
        )
        if coding is None:
            return _with_bytes(whole, descriptor, limits.max_bytes, first_byte)
        lines = _raw_lines(descriptor, coding, limits, stop)
        return _with_lines(whole, lines, coding, limits.max_bytes, first_line=first_line, max_lines=max_lines)


def file_digest(descriptor: int, limit: int, stop: Callable[[], None]) -> str | None:
    """SHA-256 of the open file in hexadecimal; None when it has more than `limit` bytes."""
    digest = hashlib.sha256()
    offset = 0
    while piece := read_at_most(descriptor, CHUNK, offset):
        stop()
        digest.update(piece)
        offset += len(piece)
        if offset > limit:
            return None
    return digest.hexdigest()


def _with_bytes(whole: FileContent, descriptor: int, limit: int, first_byte: int) -> FileContent:
    """`limit` bounds the base64 text, which is a third longer than the bytes."""
    data = read_at_most(descriptor, limit * 3 // 4, first_byte)
    following = first_byte + len(data)
    return replace(
        whole,
        base64=base64.b64encode(data).decode("ascii"),
        first_byte=first_byte,
        next_byte=following if following < whole.size and data else None,
    )


def _with_lines(
    whole: FileContent, lines: Iterator[bytes], coding: Coding, room: int, *, first_line: int, max_lines: int
) -> FileContent:
    taken: list[bytes] = []
    cut, following = False, None
    for number, line in enumerate(lines, 1):
        if number < first_line:
            continue
        if len(taken) == max_lines or (len(line) > room and taken):
            following = number
            break
        taken.append(line[:room])
        cut = len(line) > room
        room -= len(line)
    raw = b"".join(taken)
    text, replaced = _decoded(raw, coding.name if coding.name in _LINEAR else "utf-8", whole=not cut)
    return replace(
        whole,
        kind="text",
        encoding=coding.name + ("-bom" if coding.mark else ""),
        newline=newline_of(raw),
        text=text,
        first_line=first_line,
        lines=len(taken),
        next_line=following,
        replaced=replaced,
        cut_line=cut,
    )


def _decoded(raw: bytes, name: str, *, whole: bool) -> tuple[str, int]:
    """The text and how many places of it were none; a character cut off at the end is left out."""
    try:
        return codecs.getincrementaldecoder(name)().decode(raw, final=whole), 0
    except UnicodeDecodeError:
        text = raw.decode(name, "replace")
        return text, text.count("�")


def newline_of(raw: bytes) -> Literal["lf", "crlf", "mixed", "none"]:
    """Which line ending the bytes use."""
    both, feeds = raw.count(b"\r\n"), raw.count(b"\n")
    if not feeds:
        return "none"
    if not both:
        return "lf"
    return "crlf" if both == feeds else "mixed"


def _raw_lines(descriptor: int, coding: Coding, limits: Limits, stop: Callable[[], None]) -> Iterator[bytes]:
    """Lines with their ends; UTF-16 and UTF-32 come as UTF-8. One line is kept up to max_bytes + 1."""
    if coding.name not in _LINEAR:
        data = read_at_most(descriptor, limits.max_file_bytes)
        text = data[len(coding.mark) :].decode(coding.name, "replace")
        yield from text.encode("utf-8", "replace").splitlines(keepends=True)
        return
    pending, offset, bound = b"", len(coding.mark), limits.max_bytes + 1
    while piece := read_at_most(descriptor, CHUNK, offset):
        stop()
        offset += len(piece)
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield (
                (pending + line)[:bound] + b"\n"
                if len(pending) + len(line) < bound
                else (pending + line)[:bound]
            )
            pending = b""
        pending = (pending + rest)[:bound]
    if pending:
        yield pending
