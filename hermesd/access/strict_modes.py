"""Whether somebody else could change a plugin: owner and modes of its directory and all below it.

As sshd does with StrictModes, on Debian and Ubuntu too: a user's private group (nobody but the owner is in
it, the default there together with umask 002) is not somebody else. Of access control lists only the mode is
considered, where an entry that grants writing shows in the group bits; with one, no group counts as private.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from hermesd.model.ignored import is_ignored

MAX_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class UnsafeMode:
    """The first place that others could write to, and the command that fixes it."""

    path: Path
    reason: str
    remedy: str


def unsafe_mode(root: Path, unit: Path, *, uid: int | None = None) -> UnsafeMode | None:
    """The first fault of the plugin `unit` in the plugin directory `root`, or None when it is safe.

    `root`, `unit` and everything in it must belong to root or to `uid` (default: this process) and be
    writable by nobody else. The folders above may be writable by all when they are sticky, as /tmp is.
    Raises OSError when something cannot be looked at.
    """
    return unsafe_directory(root, uid=uid) or unsafe_unit(root, unit, uid=uid)


def unsafe_directory(root: Path, *, uid: int | None = None) -> UnsafeMode | None:
    """The first fault of the plugin directory itself and the folders above it. Raises OSError."""
    owners = _owners(uid)
    return _faulty_way(root, Path(os.path.realpath(root)), owners) or _fault(root, os.stat(root), owners)


def unsafe_unit(root: Path, unit: Path, *, uid: int | None = None) -> UnsafeMode | None:
    """The first fault of a plugin in a directory that has none. Raises OSError."""
    owners = _owners(uid)
    status = os.lstat(unit)
    if unit.parent != root or stat.S_ISLNK(status.st_mode):
        fault = _faulty_way(root, Path(os.path.realpath(unit)), owners)
        if fault is not None:
            return fault
        status = os.stat(unit)
    # Else it lies in the directory, and nothing else leads to it.
    return _fault(unit, status, owners) or (_below(unit, owners) if stat.S_ISDIR(status.st_mode) else None)


def _owners(uid: int | None) -> frozenset[int]:
    return frozenset({0, os.geteuid() if uid is None else uid})


def _faulty_way(root: Path, place: Path, owners: frozenset[int]) -> UnsafeMode | None:
    """The first fault of the folders through which `root` and `place` are reached, from the top down."""
    passed = (root, Path(os.path.realpath(root)))
    for above in dict.fromkeys(each for path in (root, place) for each in reversed(path.parents)):
        if above not in passed:
            fault = _fault(above, os.stat(above), owners, sticky=True)
            if fault is not None:
                return fault
    return None


def _below(unit: Path, owners: frozenset[int]) -> UnsafeMode | None:
    real = os.path.realpath(unit)
    pending, visited, entries = [real], {real}, 0
    while pending:
        with os.scandir(pending.pop()) as listing:
            for entry in listing:
                if is_ignored(entry.name):
                    continue
                entries += 1
                if entries > MAX_ENTRIES:
                    return UnsafeMode(
                        unit, f"{unit} holds more than {MAX_ENTRIES} entries", "leave out what is not code"
                    )
                fault = _entry_fault(entry, real, owners)
                if fault is not None:
                    return fault
                folder = os.path.realpath(entry.path) if entry.is_dir() else ""
                if folder.startswith(f"{real}/") and folder not in visited:
                    visited.add(folder)
                    pending.append(folder)
    return None


def _entry_fault(entry: os.DirEntry[str], real: str, owners: frozenset[int]) -> UnsafeMode | None:
    if not entry.is_symlink():
        return _fault(entry, entry.stat(follow_symlinks=False), owners)
    return _link_fault(Path(entry.path), real, owners)


def _link_fault(link: Path, real: str, owners: frozenset[int]) -> UnsafeMode | None:
    """A link has no mode of its own: its owner counts, and every place from the plugin to its target."""
    if os.lstat(link).st_uid not in owners:
        return _owner_fault(link)
    target = Path(os.path.realpath(link))
    if not str(target).startswith(f"{real}/") or not target.exists():
        return None  # such a link is refused when the content is read
    for place in (target, *target.parents):
        if str(place) == real:
            return None
        fault = _fault(place, os.stat(place), owners)
        if fault is not None:
            return fault
    return None


def _fault(
    place: os.PathLike[str], status: os.stat_result, owners: frozenset[int], *, sticky: bool = False
) -> UnsafeMode | None:
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid in owners and not writable:
        return None
    path = Path(place)
    if status.st_uid not in owners:
        return _owner_fault(path)
    if sticky and status.st_mode & stat.S_ISVTX:
        return None
    if not status.st_mode & stat.S_IWOTH and has_private_group(path, status):
        return None
    whom = "its group" if not status.st_mode & stat.S_IWOTH else "everybody"
    return UnsafeMode(path, f"{path} is writable by {whom}", f"chmod go-w {shlex.quote(str(path))}")


def has_private_group(path: Path, status: os.stat_result) -> bool:
    """Whether nobody but its owner, may write there as the group: the test of Debian's sshd."""
    return _is_private_group(status) and not _has_acl(path)


def _is_private_group(status: os.stat_result) -> bool:
    if status.st_uid == 0:
        return False
    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return group.gr_mem == [owner.pw_name] or (not group.gr_mem and group.gr_name == owner.pw_name)


def _has_acl(path: Path) -> bool:
    try:
        os.getxattr(path, "system.posix_acl_access")
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)
    return True


def _owner_fault(path: Path) -> UnsafeMode:
    return UnsafeMode(
        path,
        f"{path} belongs to another user than root and the daemon's",
        f"chown {os.geteuid()} {shlex.quote(str(path))}",
    )
