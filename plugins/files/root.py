"""The configured folders, and the walk that cannot leave them.

A path is opened component by component, each relative to the descriptor of the one before and without
following links. A link is read and walked in the same way, `..` returns to the descriptor that the walk
came through, and neither can pass the root. What another process renames or links meanwhile therefore
changes which file inside the root is met, never whether it lies inside.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from .fault import FileFault, fault_of

MAX_PATH = 4096
MAX_DEPTH = 128
MAX_LINKS = 40

_WALK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Root:
    """One configured folder: `path` as the operator wrote it, `real` with the links above it resolved."""

    path: str
    real: str

    def below(self, path: str) -> list[str] | None:
        """The components of the absolute `path` below this root; None when it lies elsewhere."""
        for prefix in (self.path, self.real):
            if path == prefix:
                return []
            if path.startswith(prefix.rstrip("/") + "/"):
                return path[len(prefix.rstrip("/")) + 1 :].split("/")
        return None


@dataclass(frozen=True)
class Limits:
    """What the operator set: the folders, and the bounds in bytes."""

    roots: tuple[Root, ...]
    read_only: bool = False
    max_bytes: int = 1024 * 1024
    max_file_bytes: int = 64 * 1024 * 1024

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Limits:
        """Read the settings; the manifest's schema has already checked their types."""
        paths = settings.get("roots") or ()
        if not isinstance(paths, Sequence) or isinstance(paths, str):
            raise TypeError("settings.roots must be a list of paths")
        roots = tuple(Root(os.path.normpath(str(path)), os.path.realpath(str(path))) for path in paths)
        return cls(
            roots,
            bool(settings.get("read_only", False)),
            int(str(settings.get("max_bytes", cls.max_bytes))),
            int(str(settings.get("max_file_bytes", cls.max_file_bytes))),
        )


@dataclass
class Place:
    """Where a path leads: `folder` is a descriptor inside the root.

    `name` is the file in it, with its `status` (None: it does not exist yet); `name` None means that the
    path leads to the folder itself.
    """

    root: Root
    folder: int
    names: list[str]
    name: str | None = None
    status: os.stat_result | None = None

    @property
    def shown(self) -> str:
        """The path as callers may hand it back."""
        return show("/".join([self.root.path.rstrip("/"), *self.names, *([self.name] if self.name else [])]))


def show(name: str) -> str:
    r"""A name as text: bytes that are no UTF-8 appear as `\xff`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") or "/"


def locate(limits: Limits, path: str) -> tuple[Root, list[str]]:
    """The root that `path` belongs to and its components below it; nothing is opened."""
    check_path(path)
    if not limits.roots:
        raise FileFault("UNAVAILABLE", "no root is configured: set plugins.settings.files.roots")
    if path.startswith("/"):
        found = [(root, parts) for root in limits.roots if (parts := root.below(path)) is not None]
        if not found:
            raise FileFault(
                "PERMISSION_DENIED", f"{path} lies outside the configured roots: {_listed(limits)}"
            )
        return max(found, key=lambda each: len(each[0].path))
    if len(limits.roots) > 1:
        raise FileFault(
            "INVALID_ARGUMENT",
            f"{path!r} is relative and there are several roots: {_listed(limits)}; name one",
        )
    return limits.roots[0], path.split("/")


def check_path(path: str) -> None:
    """Refuse what no path can be."""
    if not path:
        raise FileFault("INVALID_ARGUMENT", "the path is empty")
    if "\0" in path:
        raise FileFault("INVALID_ARGUMENT", "the path contains a NUL character")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise FileFault("INVALID_ARGUMENT", "the path is no valid Unicode text") from None
    if size > MAX_PATH:
        raise FileFault("INVALID_ARGUMENT", f"the path has {size} bytes; at most {MAX_PATH} are allowed")


def _listed(limits: Limits) -> str:
    return ", ".join(show(root.path) for root in limits.roots)


@contextmanager
def reach(limits: Limits, path: str, *, make_folders: bool = False) -> Iterator[Place]:
    """Walk to `path`; the Place's descriptor is closed at the end of the block.

    With `make_folders` missing folders on the way are made. Raises FileFault.
    """
    root, parts = locate(limits, path)
    try:
        top = os.open(root.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise FileFault("UNAVAILABLE", str(fault_of(error, f"the root {show(root.path)}"))) from None
    walk = _Walk(root, [top], pending=parts[::-1], make_folders=make_folders)
    try:
        place = walk.run()
        yield place
    except OSError as error:
        raise fault_of(error, show(path)) from error
    finally:
        for descriptor in walk.stack:
            os.close(descriptor)


@dataclass
class _Walk:
    root: Root
    stack: list[int]
    pending: list[str]
    make_folders: bool
    names: list[str] = field(default_factory=list)
    links: int = 0

    def run(self) -> Place:
        while self.pending:
            part = self.pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                self._leave()
                continue
            status = self._enter(part)
            if status is not None and stat.S_ISLNK(status.st_mode):
                continue
            if status is None or not stat.S_ISDIR(status.st_mode):
                return self._end(part, status)
        return Place(self.root, self.stack[-1], self.names)

    def _leave(self) -> None:
        if len(self.stack) == 1:
            raise FileFault("PERMISSION_DENIED", f"the path leaves the root {show(self.root.path)}")
        os.close(self.stack.pop())
        self.names.pop()

    def _enter(self, part: str) -> os.stat_result | None:
        """Open one component: a folder is entered, a link's target is put before what is pending."""
        try:
            descriptor = os.open(part, _WALK, dir_fd=self.stack[-1])
        except FileNotFoundError:
            if not (self.make_folders and self._more()):
                return None
            with suppress(FileExistsError):  # somebody else was faster: the walk goes on through theirs
                os.mkdir(part, dir_fd=self.stack[-1])
            descriptor = os.open(part, _WALK, dir_fd=self.stack[-1])
        try:
            status = os.fstat(descriptor)
            if stat.S_ISLNK(status.st_mode):
                self._follow(os.readlink("", dir_fd=descriptor))
            elif stat.S_ISDIR(status.st_mode):
                if len(self.stack) > MAX_DEPTH:
                    raise FileFault("INVALID_ARGUMENT", f"the path is deeper than {MAX_DEPTH} folders")
                self.stack.append(os.dup(descriptor))
                self.names.append(part)
        finally:
            os.close(descriptor)
        return status

    def _follow(self, target: str) -> None:
        self.links += 1
        if self.links > MAX_LINKS:
            raise FileFault("TOOL_ERROR", f"more than {MAX_LINKS} links: they probably lead in a circle")
        parts: list[str] | None = target.split("/")
        if target.startswith("/"):
            parts = self.root.below(target)
            if parts is None:
                raise FileFault("PERMISSION_DENIED", f"a link leaves the root {show(self.root.path)}")
            while len(self.stack) > 1:
                os.close(self.stack.pop())
            self.names.clear()
        self.pending.extend((parts or [])[::-1])

    def _more(self) -> bool:
        return any(part not in ("", ".") for part in self.pending)

    def _end(self, part: str, status: os.stat_result | None) -> Place:
        here = show("/".join([self.root.path.rstrip("/"), *self.names, part]))
        if self.pending:
            problem = "does not exist" if status is None else "is no folder"
            raise FileFault("TOOL_ERROR", f"{here} {problem}")
        return Place(self.root, self.stack[-1], self.names, part, status)
