"""Why a file could not be served, in terms of what the caller can do."""

from __future__ import annotations

import errno
from typing import Literal

Kind = Literal["INVALID_ARGUMENT", "PERMISSION_DENIED", "UNAVAILABLE", "TOOL_ERROR"]

_KINDS: dict[int, tuple[Kind, str]] = {
    errno.ENOENT: ("TOOL_ERROR", "does not exist"),
    errno.ENOTDIR: ("TOOL_ERROR", "is no folder"),
    errno.EISDIR: ("TOOL_ERROR", "is a folder"),
    errno.EACCES: ("PERMISSION_DENIED", "may not be accessed by the daemon's user"),
    errno.EPERM: ("PERMISSION_DENIED", "may not be changed by the daemon's user"),
    errno.EROFS: ("PERMISSION_DENIED", "lies on a read-only file system"),
    errno.ELOOP: ("TOOL_ERROR", "was replaced by a link while it was opened; try again"),
    errno.ENXIO: ("PERMISSION_DENIED", "is no regular file"),
    errno.ENAMETOOLONG: ("INVALID_ARGUMENT", "has a name that is too long"),
    errno.ENOSPC: ("TOOL_ERROR", "was not written: the disk is full"),
    errno.EDQUOT: ("TOOL_ERROR", "was not written: the disk quota is used up"),
    errno.EFBIG: ("TOOL_ERROR", "was not written: larger than the system allows"),
    errno.EMFILE: ("UNAVAILABLE", "cannot be opened now: too many files are open"),
    errno.ENFILE: ("UNAVAILABLE", "cannot be opened now: too many files are open"),
}


class FileFault(Exception):  # noqa: N818 - turned into the tool's error at its edge
    """One refusal. Nothing has been changed when it is raised, unless `changed` says so."""

    def __init__(self, code: Kind, message: str, *, retryable: bool = False, changed: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.changed = changed


def fault_of(error: OSError, shown: str) -> FileFault:
    """The system's error for the file that the caller knows as `shown`; the machine's own paths stay out."""
    code, what = _KINDS.get(error.errno or 0, ("TOOL_ERROR", f"cannot be used: {error.strerror}"))
    return FileFault(code, f"{shown} {what}", retryable=code == "UNAVAILABLE")
