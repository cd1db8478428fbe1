"""Writes a set of new files: all of them or none, never over what is there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermesd.errors import AlreadyExistsError


@dataclass(frozen=True, slots=True)
class NewFile:
    """What a file holds, and its mode before the process's umask."""

    text: str
    mode: int = 0o644


def write_new(target: Path, files: Mapping[str, NewFile]) -> list[Path]:
    """Write `files` (relative path → content) below `target`; gives their paths in order.

    Folders are made 0755, whatever group-write the umask would allow: a plugin that others could write is
    refused by the daemon. Raises AlreadyExistsError, naming the first one, when any of the files exists
    already, and then writes nothing.
    """
    for relative in files:
        path = target / relative
        if os.path.lexists(path):
            raise AlreadyExistsError(f"{path} exists already", remedy="choose another place, or move it away")
    for relative, file in files.items():
        _make_folders((target / relative).parent)
        _write(target / relative, file)
    return [target / relative for relative in files]


def write_new_folder(target: Path, files: Mapping[str, NewFile]) -> list[Path]:
    """Like `write_new`, but the folder appears whole: a daemon that watches never sees half of it.

    `target` may exist only as an empty folder.
    """
    _make_folders(target.parent)
    if os.path.lexists(target) and (not target.is_dir() or any(target.iterdir())):
        raise AlreadyExistsError(f"{target} exists already", remedy="choose another name, or move it away")
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        write_new(draft, files)
        draft.chmod(0o755)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return [target / relative for relative in files]


def _make_folders(path: Path) -> None:
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o755)


def _write(path: Path, file: NewFile) -> None:
    # O_EXCL and the mode at creation: a key is never readable for a moment, a link is never followed.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, file.mode)
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(file.text)
