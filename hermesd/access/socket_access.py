"""Who can reach, or replace, a socket: the group that may use it, and the folder in which it lies."""

from __future__ import annotations

import grp
import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from hermesd.access.strict_modes import has_private_group
from hermesd.errors import PreconditionError


@dataclass(frozen=True, slots=True)
class FolderFault:
    """Why others could replace the socket. `fatal`: anybody on this machine could."""

    reason: str
    remedy: str
    fatal: bool


def folder_fault(folder: Path, *, uid: int | None = None) -> FolderFault | None:
    """What is wrong with the folder of a socket, or None: whoever can write there can replace the socket.

    A sticky folder, such as /tmp, is safe, and so is one that belongs to root or to `uid` (default: this
    process) and that nobody else can write to. Raises OSError when it cannot be looked at.
    """
    status = os.stat(folder)
    sticky = status.st_mode & stat.S_ISVTX
    fix = f"chmod go-w {shlex.quote(str(folder))}"
    if status.st_mode & stat.S_IWOTH and not sticky:
        return FolderFault(f"{folder} is writable by everybody", fix, fatal=True)
    if status.st_uid not in (0, os.geteuid() if uid is None else uid):
        reason = f"{folder} belongs to the uid {status.st_uid}, which can replace the socket"
        return FolderFault(reason, "listen in a folder of your own", fatal=False)
    if status.st_mode & stat.S_IWGRP and not sticky and not has_private_group(folder, status):
        return FolderFault(
            f"{folder} is writable by its group, which can replace the socket", fix, fatal=False
        )
    return None


def group_id(group: str) -> int:
    """The number of `group`, a name or a number. PreconditionError when there is no such name."""
    try:
        return int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise PreconditionError(
            f"server.socket_group: there is no group {group!r}", remedy="create it, or name another"
        ) from None
