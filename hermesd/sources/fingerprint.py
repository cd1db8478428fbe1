"""What tells that a plugin's files changed, without reading them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hermesd.model.ignored import is_ignored
from hermesd.sources.source import Fingerprint, Mark

MAX_FILES = 2000


def file_mark(path: Path, relative: str = "") -> Mark:
    """The mark of one file, links followed. Raises OSError."""
    return _mark(relative or path.name, os.stat(path))


def file_fingerprint(path: Path) -> Fingerprint:
    """The fingerprint of a single file, () when there is none. Raises OSError for other failures."""
    try:
        return (file_mark(path),)
    except FileNotFoundError:
        return ()


def folder_fingerprint(
    folder: Path, *, max_files: int = MAX_FILES, top: os.stat_result | None = None
) -> Fingerprint:
    """The marks of everything in `folder` that belongs to its content, sorted.

    Links are followed as far as they stay in the folder. At most `max_files` marks and as many folders
    are taken: a content with more is refused when it is read. Raises OSError when the folder, or one in
    it, cannot be listed; what vanishes meanwhile is left out. `top`: the folder's own status, if known.
    """
    marks = list[Mark]()
    if top is None:
        top = os.stat(folder)
    pending: list[tuple[str, str, tuple[tuple[int, int], ...]]] = [
        (str(folder), "", ((top.st_dev, top.st_ino),))
    ]
    marks.append(_folder_mark("/", top))
    while pending and len(marks) <= max_files:
        place, prefix, above = pending.pop()
        try:
            listing = os.scandir(place)
        except FileNotFoundError:
            continue
        with listing:
            for entry in listing:
                name = entry.name
                if is_ignored(name):
                    continue
                status = _status(entry, folder)
                if status is None:
                    continue
                relative = prefix + name
                if not stat.S_ISDIR(status.st_mode):
                    marks.append(_mark(relative, status))
                elif (identity := (status.st_dev, status.st_ino)) not in above:
                    marks.append(_folder_mark(f"{relative}/", status))
                    pending.append((entry.path, f"{relative}/", (*above, identity)))
    marks.sort()
    return tuple(marks)


def _status(entry: os.DirEntry[str], folder: Path) -> os.stat_result | None:
    """The status of what an entry means; of the link itself when it leads out of the folder or nowhere."""
    try:
        if not entry.is_symlink():
            return entry.stat(follow_symlinks=False)
        try:
            status = entry.stat()
        except OSError:
            return entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            inside = f"{os.path.realpath(folder)}/"
            if not f"{os.path.realpath(entry.path)}/".startswith(inside):
                return entry.stat(follow_symlinks=False)
        return status
    except FileNotFoundError:
        return None


def _mark(relative: str, status: os.stat_result) -> Mark:
    return (
        relative,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _folder_mark(relative: str, status: os.stat_result) -> Mark:
    return (relative, status.st_dev, status.st_ino, status.st_mode, status.st_uid, status.st_gid)
