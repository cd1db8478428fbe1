"""Walking the folders below a place, bounded, and never through a link."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Literal

from .fault import FileFault, fault_of
from .root import Place, show

MAX_SCANNED = 50_000
MAX_WALK_DEPTH = 64
MAX_PATTERN = 200

EntryKind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True)
class DirEntry:
    """One thing in a folder.

    `path` can be handed to the other tools, unless `odd_name`: then the name is no UTF-8.
    """

    path: str
    kind: EntryKind
    size: int | None
    modified_at: datetime
    odd_name: bool


@dataclass(frozen=True)
class Listing:
    """What a folder holds, in name order. `truncated` says which bound was met, else it is null."""

    path: str
    entries: list[DirEntry]
    truncated: Literal["entries", "scanned", "time"] | None
    unreadable: list[str]


@dataclass(frozen=True)
class Met:
    """A thing that the walk met: `folder` is the open folder that holds it."""

    folder: int
    name: str
    relative: str
    status: os.stat_result


@dataclass
class Walk:
    """Depth first, in name order.

    `stop` raises when the call ends; `late` says that its time is nearly used up.
    """

    depth: int
    include_hidden: bool
    stop: Callable[[], None]
    late: Callable[[], bool]
    scanned: int = 0
    ended: Literal["scanned", "time"] | None = None
    unreadable: list[str] = field(default_factory=list)

    def through(self, place: Place) -> Generator[Met, None, None]:
        """Everything below the folder of `place`."""
        if place.name is not None:
            problem = "does not exist" if place.status is None else "is no folder"
            raise FileFault("TOOL_ERROR", f"{place.shown} {problem}")
        with ExitStack() as opened:
            try:
                top = _open_folder(".", place.folder, opened)
            except OSError as error:
                raise fault_of(error, place.shown) from None
            yield from self._below(top, "", 1)

    def _below(self, folder: int, prefix: str, level: int) -> Iterator[Met]:
        for name, status in self._children(folder):
            self.stop()
            relative = prefix + name
            yield Met(folder, name, relative, status)
            if not stat.S_ISDIR(status.st_mode) or level >= min(self.depth, MAX_WALK_DEPTH):
                continue
            with ExitStack() as opened:
                try:
                    child = _open_folder(name, folder, opened)
                except OSError:
                    self._cannot_read(relative)
                    continue
                yield from self._below(child, relative + "/", level + 1)
            if self.ended:
                return

    def _children(self, folder: int) -> list[tuple[str, os.stat_result]]:
        if self.late():
            self.ended = "time"
        if self.ended:
            return []
        found = []
        with os.scandir(folder) as entries:
            for entry in islice(entries, MAX_SCANNED - self.scanned + 1):
                self.scanned += 1
                if self.scanned > MAX_SCANNED:
                    self.ended = "scanned"
                    break
                if self.include_hidden or not entry.name.startswith("."):
                    found.append(entry)
            return sorted(self._with_status(found), key=lambda each: os.fsencode(each[0]))

    def _with_status(self, found: list[os.DirEntry[str]]) -> Iterator[tuple[str, os.stat_result]]:
        for entry in found:
            try:
                yield entry.name, entry.stat(follow_symlinks=False)
            except OSError:  # gone since the folder was read: as if it had never been met
                continue

    def _cannot_read(self, relative: str) -> None:
        if len(self.unreadable) < 20:
            self.unreadable.append(show(relative))


def _open_folder(name: str, parent: int, opened: ExitStack) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=parent)
    opened.callback(os.close, descriptor)
    return descriptor


def name_filter(pattern: str) -> Callable[[str], bool]:
    """Whether a relative path fits the glob: all of it when there is a slash, else the name."""
    if len(pattern) > MAX_PATTERN:
        raise FileFault("INVALID_ARGUMENT", f"the pattern is longer than {MAX_PATTERN} characters")
    if pattern in ("", "*"):
        return lambda _: True
    try:
        matches = re.compile(fnmatch.translate(pattern)).match
    except re.error:
        raise FileFault("INVALID_ARGUMENT", f"{pattern!r} is no glob") from None
    if "/" in pattern:
        return lambda relative: matches(relative) is not None
    return lambda relative: matches(relative.rpartition("/")[2]) is not None


def list_folder(place: Place, walk: Walk, pattern: str, max_entries: int) -> Listing:
    """The things below `place` whose name matches, at most `max_entries`."""
    fits = name_filter(pattern)
    base = place.shown.rstrip("/")
    entries: list[DirEntry] = []
    with closing(walk.through(place)) as things:
        for met in things:
            if not fits(met.relative):
                continue
            if len(entries) == max_entries:
                return Listing(place.shown, entries, "entries", walk.unreadable)
            entries.append(_entry(base, met))
    return Listing(place.shown, entries, walk.ended, walk.unreadable)


def _entry(base: str, met: Met) -> DirEntry:
    mode = met.status.st_mode
    kind: EntryKind = "other"
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        kind = "file" if stat.S_ISREG(mode) else "folder"
    elif stat.S_ISLNK(mode):
        kind = "link"
    return DirEntry(
        path=f"{base}/{show(met.relative)}",
        kind=kind,
        size=met.status.st_size if kind == "file" else None,
        modified_at=datetime.fromtimestamp(met.status.st_mtime, UTC),
        odd_name=show(met.relative) != met.relative,
    )
