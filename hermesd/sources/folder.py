"""Drop-in plugins: what lies in the operator's plugin directories."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hermesd.errors import Rejection
from hermesd.model.ignored import is_ignored_unit
from hermesd.sources.fingerprint import MAX_FILES, file_mark, folder_fingerprint
from hermesd.sources.source import DECLARATIVE, Fingerprint, Found, Origin, Root, RootState, Scan

MANIFEST = "plugin.yaml"
ATTEMPTS = 3
_DECLARATIVE = (".yaml", ".yml", ".json")


class FolderSource:
    """The plugin directories `roots`. A missing one is empty and may be made later.

    `excluded` are folders that are never looked into, such as the data dir. Nothing is kept between
    scans; a scan costs one listing a folder and one look a file.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        origin: Origin = Origin.FOLDER,
        excluded: Iterable[Path] = (),
        max_files: int = MAX_FILES,
    ) -> None:
        self._roots = tuple(dict.fromkeys(roots))
        self._origin, self._max_files = origin, max_files
        self._excluded = frozenset(os.path.realpath(each) for each in excluded)

    def scan(self) -> Scan:
        """Look once at every directory, in the order given, each in name order. Never raises."""
        taken = [self._root(root) for root in self._roots]
        return Scan(
            found=tuple(found for each in taken for found in each.found),
            faults=tuple(fault for each in taken for fault in each.faults),
            held={unit: marks for each in taken for unit, marks in each.held.items()},
            roots=tuple(root for each in taken for root in each.roots),
        )

    def rescan(self, before: Scan, places: Iterable[str]) -> Scan | None:
        """`before` (a scan of these directories), with the plugins in which `places` lie looked at anew.

        None when only a scan can tell: a place lies in no plugin of `before`, one of these is a plugin no
        more, or a directory does not stand as it did. Plugins that are links are always looked at.
        """
        if tuple(root.path for root in before.roots) != self._roots:
            return None
        names = _names_in(before.roots, places)
        units = {found.unit: found for found in before.found}
        renewed = dict[str, Found]()
        for root in before.roots:
            judged = self._again(root, names[root.path], units) if names is not None else None
            if judged is None:
                return None
            renewed.update((found.unit, found) for found in judged if found != units[found.unit])
        found = tuple(renewed.get(each.unit, each) for each in before.found)
        return Scan(found, before.faults, before.held, before.roots)

    def _again(self, root: Root, names: set[str], units: Mapping[str, Found]) -> list[Found] | None:
        """The plugins called `names` in one directory, judged anew; None when one is none, or not known."""
        if root.state is not RootState.PRESENT or _stand(root.path) != root:
            return None
        try:
            with os.scandir(root.path) as listing:
                entries = [
                    each
                    for each in listing
                    if each.name in names or (each.is_symlink() and each.path in units)
                ]
        except OSError:
            return None
        if names - {each.name for each in entries} or any(each.path not in units for each in entries):
            return None
        judged = [self._judge(root.path, each) for each in entries]
        found = [each for each in judged if isinstance(each, Found)]
        return found if len(found) == len(entries) and _stand(root.path) == root else None

    def _root(self, path: Path) -> Scan:
        """One directory. When it is exchanged while it is looked at, look again: half of each is neither."""
        for _ in range(ATTEMPTS):
            before = _stand(path)
            if before.state is not RootState.PRESENT:
                break
            scan = self._entries(before)
            if _stand(path) == before:
                return scan
        else:
            return _unreadable(path, "is exchanged again and again", "wait until whoever writes it is done")
        if before.state is RootState.ABSENT:
            return Scan(roots=(before,))
        return _unreadable(path, "is no directory that can be read", "let the daemon's user list it")

    def _entries(self, root: Root) -> Scan:
        try:
            with os.scandir(root.path) as listing:
                entries = sorted(listing, key=lambda each: each.name)
        except OSError as error:
            return _unreadable(
                root.path, f"cannot be listed: {error.strerror}", "let the daemon's user list it"
            )
        found, faults, held = list[Found](), list[Rejection](), dict[str, Fingerprint]()
        real = os.path.realpath(root.path)
        for entry in entries:
            if is_ignored_unit(entry.name) or self._is_excluded(entry, real):
                continue
            judged = self._judge(root.path, entry)
            if isinstance(judged, Found):
                found.append(judged)
            elif judged is not None:
                faults.append(judged[0])
                held[entry.path] = judged[1]
        return Scan(tuple(found), tuple(faults), held, (root,))

    def _is_excluded(self, entry: os.DirEntry[str], real: str) -> bool:
        """Whether the entry is, or links to, what is excluded; `real` is the directory behind all links."""
        if not self._excluded:
            return False
        place = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(real, entry.name)
        return place in self._excluded

    def _judge(self, root: Path, entry: os.DirEntry[str]) -> Found | tuple[Rejection, Fingerprint] | None:
        """What an entry is: a plugin, a fault with what is known of it, or nothing of ours."""
        try:
            status = entry.stat()
        except FileNotFoundError:
            return _fault(entry, "is a link to nothing", "remove or mend it") if entry.is_symlink() else None
        except OSError as error:
            return _fault(entry, f"cannot be looked at: {error.strerror}", "mend its owner or mode")
        if stat.S_ISDIR(status.st_mode):
            return self._folder(root, entry, status)
        suffix = os.path.splitext(entry.name)[1]
        if suffix != ".py" and suffix not in _DECLARATIVE:
            return None
        if not stat.S_ISREG(status.st_mode):
            return _fault(entry, "is no regular file", "a single-file plugin is a plain file")
        return self._file(root, entry, suffix)

    def _folder(
        self, root: Path, entry: os.DirEntry[str], status: os.stat_result
    ) -> Found | tuple[Rejection, Fingerprint] | None:
        path = Path(entry.path)
        try:
            marks = folder_fingerprint(path, max_files=self._max_files, top=status)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _fault(entry, f"cannot be read: {error.strerror}", "let the daemon's user read it")
        names = {mark[0] for mark in marks}
        if MANIFEST in names:
            return Found(entry.path, entry.name, self._origin, path, marks, root)
        near = sorted(names & {"plugin.yml", "plugin.json", "Plugin.yaml"})
        remedy = f"rename {near[0]} to {MANIFEST}" if near else f"add a {MANIFEST}, or move the folder away"
        return Rejection(entry.name, f"the folder holds no {MANIFEST}", remedy, entry.path), marks

    def _file(
        self, root: Path, entry: os.DirEntry[str], suffix: str
    ) -> Found | tuple[Rejection, Fingerprint] | None:
        path = Path(entry.path)
        try:
            marks = (file_mark(path),)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _fault(entry, f"cannot be looked at: {error.strerror}", "mend its owner or mode")
        origin = Origin.FILE if self._origin is Origin.FOLDER else self._origin
        if suffix == ".py":
            return Found(entry.path, entry.name, origin, path, marks, root)
        return Found(
            entry.path,
            entry.name,
            origin,
            path,
            marks,
            root,
            unsupported=DECLARATIVE[0],
            remedy=DECLARATIVE[1],
        )


def _names_in(roots: Sequence[Root], places: Iterable[str]) -> dict[Path, set[str]] | None:
    """The entries of each directory in which `places` lie; None when one lies in no directory."""
    names: dict[Path, set[str]] = {root.path: set() for root in roots}
    prefixes = [(f"{root.path}/", names[root.path]) for root in roots]
    for place in places:
        within = [(place[len(prefix) :], known) for prefix, known in prefixes if place.startswith(prefix)]
        if not within:
            return None
        for relative, known in within:
            name = relative.partition("/")[0]
            if not is_ignored_unit(name):  # whatever happens there, no scan looks at it
                known.add(name)
    return names


def _stand(path: Path) -> Root:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return Root(path, RootState.ABSENT)
    except OSError:
        return Root(path, RootState.UNREADABLE)
    if not stat.S_ISDIR(status.st_mode):
        return Root(path, RootState.UNREADABLE)
    return Root(path, RootState.PRESENT, (status.st_dev, status.st_ino, status.st_mode, status.st_uid))


def _unreadable(path: Path, reason: str, remedy: str) -> Scan:
    fault = Rejection(path.name, f"the plugin directory {reason}", remedy, str(path))
    return Scan(faults=(fault,), roots=(Root(path, RootState.UNREADABLE),))


def _fault(entry: os.DirEntry[str], reason: str, remedy: str) -> tuple[Rejection, Fingerprint]:
    """A fault, with what can be seen of the entry itself, so that its mending is a change."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        marks: Fingerprint = ()
    else:
        marks = (("/", status.st_dev, status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns),)
    return Rejection(entry.name, f"{entry.name} {reason}", remedy, entry.path), marks
