"""File events, as hints: they say that looking is worth while, never what is there.

Everything that watchdog's threads do stays behind `Hints`. Events are lost (queue overflow, folders made
faster than they are watched, exchanged roots, network mounts); whoever uses them must look by himself too.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyObserver

from hermesd.model.ignored import is_ignored

Kind = Literal["modified", "created", "closed", "gone", "other"]
MAX_KEPT = 20_000

# Openings and readings are left out: our own scans make them, and would wake us for ever.
_WANTED: list[type[FileSystemEvent]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
_KINDS: dict[type[FileSystemEvent], Kind] = {
    FileModifiedEvent: "modified",
    FileCreatedEvent: "created",
    FileClosedEvent: "closed",
    FileDeletedEvent: "gone",
    DirDeletedEvent: "gone",
}
#: Kinds that tell of a file which was there already.
_WRITING = frozenset[Kind](("modified", "closed"))
_CONFIGURATION = (".yaml", ".yml", ".json")
_LIMITS = {
    errno.EMFILE: "no inotify instance is left (raise fs.inotify.max_user_instances)",
    errno.ENFILE: "no file descriptor is left on this machine (raise fs.file-max)",
    errno.ENOSPC: "no inotify watch is left (raise fs.inotify.max_user_watches)",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event at a path as the configuration spells it. Kind "other" says no more than: look. Without a
    path it stands for those that were dropped, wherever they were."""

    kind: Kind
    path: str


@dataclass(frozen=True, slots=True)
class _Target:
    """A folder to watch, and which one it was (device, inode)."""

    path: str
    recursive: bool
    identity: tuple[int, int]


class Hints:
    """Watches plugin directories (and the folders above them) and the folders of files.

    `on_hint` is called from a foreign thread, once until the next `take`. `renew` and `close` block
    and belong off the event loop; `renew` is never called twice at once.
    """

    def __init__(
        self,
        on_hint: Callable[[], None],
        *,
        excluded: Iterable[Path] = (),
        observer: Callable[[], BaseObserver] = InotifyObserver,
    ) -> None:
        self._on_hint, self._make = on_hint, observer
        self._excluded = tuple(f"{os.path.realpath(each)}/" for each in excluded)
        self._observer: BaseObserver | None = None
        self._targets: tuple[_Target, ...] = ()
        self._lock = threading.Lock()
        self._kept = list[Event]()
        #: How often the watches were made anew: what happened meanwhile may have made no event.
        self.renewals = 0
        self._told = False
        self._closed = False

    def take(self) -> list[Event]:
        """The events since the last `take`, the oldest first."""
        with self._lock:
            kept, self._kept, self._told = self._kept, [], False
        return kept

    def renew(self, roots: Sequence[Path], files: Sequence[Path], *, force: bool = False) -> str | None:
        """Watch exactly these, anew when a folder was exchanged, a thread died, or on `force`.

        Returns why there are no events now, or None. Look at the folders after it, not before: what
        happens while it works may make no event.
        """
        targets = _targets(roots, files)
        if not force and targets == self._targets and self._is_alive():
            return None
        self._stop()
        self.renewals += 1
        _quieten_watchdog()
        try:
            self._observer = observer = self._make()
            handler = _Handler(self._put, roots, files, self._excluded)
            for target in targets:
                observer.schedule(handler, target.path, recursive=target.recursive, event_filter=_WANTED)
            observer.start()
        except OSError as error:
            self._stop()
            return _LIMITS.get(error.errno or 0, str(error))
        self._targets = targets
        _name_threads()
        return None

    def close(self) -> None:
        """Stop for good; nothing is told afterwards. Idempotent."""
        with self._lock:
            self._closed = True
        self._stop()

    def _is_alive(self) -> bool:
        observer = self._observer
        return (
            observer is not None
            and observer.is_alive()
            and all(emitter.is_alive() for emitter in observer.emitters)
        )

    def _stop(self) -> None:
        observer, self._observer, self._targets = self._observer, None, ()
        if observer is not None:
            observer.stop()
            if observer.is_alive():
                observer.join()

    def _put(self, events: Sequence[Event]) -> None:
        with self._lock:
            if len(self._kept) >= MAX_KEPT:
                self._kept = [Event("other", ""), *self._kept[MAX_KEPT // 2 :]]
            self._kept.extend(events)
            tell = not self._told and not self._closed
            self._told = True
        if tell:
            self._on_hint()


def _name_threads() -> None:
    """So that a list of threads says whose these are: watchdog leaves its own without names."""
    for thread in threading.enumerate():
        if type(thread).__module__.startswith("watchdog."):
            thread.name = "hermesd-inotify"


def _quieten_watchdog() -> None:
    """Drop two of its messages that tell of nothing wrong.

    A folder made a moment ago may be found by its walk and by its event: it warns, and where warnings
    are errors its thread dies. A thread that is stopped while it waits says so as an error.
    """
    warnings.filterwarnings("ignore", message="Callback with id ", category=RuntimeWarning)
    logging.getLogger("watchdog.observers.inotify").addFilter(_is_no_stop)


def _is_no_stop(record: logging.LogRecord) -> bool:
    return "called when the thread is inactive" not in str(record.msg)


class _Handler(FileSystemEventHandler):
    """Sorts events in watchdog's thread, cheaply: a folder above a root may be a busy one."""

    def __init__(
        self,
        put: Callable[[Sequence[Event]], None],
        roots: Sequence[Path],
        files: Sequence[Path],
        excluded: tuple[str, ...],
    ) -> None:
        self._put, self._excluded = put, excluded
        # Watches are on real paths, units are spelled as the configuration spells them.
        self._roots = [(f"{os.path.realpath(root)}/", f"{root}/") for root in roots]
        folders = {file.parent for file in files}
        self._files = frozenset(str(each) for file in files for each in (file, os.path.realpath(file)))
        self._folders = {os.path.realpath(each): str(each) for each in folders}
        ways = [
            each for root in roots for path in (root, Path(os.path.realpath(root))) for each in _way(path)
        ]
        self._ways = frozenset(map(str, ways))

    def dispatch(self, event: FileSystemEvent) -> None:
        events = [each for path, kind in _sorted(event) if (each := self._event(path, kind)) is not None]
        if events:
            self._put(events)

    def _event(self, path: str, kind: Kind) -> Event | None:
        if any(path.startswith(each) or f"{path}/" == each for each in self._excluded):
            return None
        for real, spelled in self._roots:
            if path.startswith(real):
                relative = path[len(real) :]
                ignored = any(is_ignored(part) for part in relative.split("/"))
                return Event("other" if ignored else kind, spelled + relative)
        folder, _, name = path.rpartition("/")
        if folder in self._folders:
            spelled = f"{self._folders[folder]}/{name}"
            # A log that grows beside the configuration is no hint; what is new there may be included by it.
            if kind in _WRITING and not name.endswith(_CONFIGURATION) and not self._files & {path, spelled}:
                return None
            return Event(kind, spelled)
        return Event("other", path) if path in self._ways else None


def _sorted(event: FileSystemEvent) -> list[tuple[str, Kind]]:
    if isinstance(event, (FileMovedEvent, DirMovedEvent)):
        # The one that was there under the new name is gone too.
        return [(os.fsdecode(event.src_path), "gone"), (os.fsdecode(event.dest_path), "gone")]
    return [(os.fsdecode(event.src_path), _KINDS.get(type(event), "other"))]


def _way(path: Path) -> list[Path]:
    return [path, *(each for each in path.parents if each != each.parent)]


def _targets(roots: Sequence[Path], files: Sequence[Path]) -> tuple[_Target, ...]:
    """What to watch: each root with all below it, the nearest folder above it, each file's folder."""
    wanted = dict[str, bool]()
    for root in roots:
        if root.is_dir():
            wanted[os.path.realpath(root)] = True
        for way in {root, Path(os.path.realpath(root))}:
            wanted.setdefault(os.path.realpath(_nearest(way.parent)), False)
    for file in files:
        wanted.setdefault(os.path.realpath(_nearest(file.parent)), False)
    targets = []
    for path, recursive in sorted(wanted.items()):
        try:
            status = os.stat(path)
        except OSError:
            continue  # gone meanwhile: the next look finds what is there then
        targets.append(_Target(path, recursive, (status.st_dev, status.st_ino)))
    return tuple(targets)


def _nearest(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next((each for each in (path, *path.parents) if each.is_dir()), Path("/"))
