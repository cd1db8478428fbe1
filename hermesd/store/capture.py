"""Reading a plugin's files once, from a directory descriptor, without leaving its folder.

What `capture` hands to its taker is what it hashes: nobody can change a file between the two.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from hermesd.errors import HermesdError, PluginError, Rejection, StoreError
from hermesd.model.ignored import is_ignored

MAX_DEPTH = 32
MAX_LINKS = 40
CHUNK_BYTES = 1024 * 1024
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

#: Takes one file: its path in the plugin, whether it is executable, and its bytes, which it must consume.
Taker = Callable[[str, bool, Iterator[bytes]], None]


class UnsettledError(HermesdError):
    """The files changed while they were read: wait until whoever writes them has finished, then try again."""


@dataclass(frozen=True, slots=True)
class ContentFile:
    """One file of a content. `path` is relative, with `/`; `sha256` is hexadecimal."""

    path: str
    size: int
    sha256: str
    executable: bool = False


def capture(path: Path, take: Taker, *, max_files: int, max_bytes: int) -> tuple[ContentFile, ...]:
    """Hand every file of the folder (or the single file) `path` to `take`; return them sorted by path.

    Ignored names are left out (see `model.ignored`). A link is followed only to what lies inside the
    folder, and stored as what it points to. Raises PluginError for what cannot be a plugin's content,
    UnsettledError when something changed meanwhile.
    """
    real = Path(os.path.realpath(path))
    single = _is_single(real, path)
    folder = real.parent if single else real
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        _refuse_error(error, path, "")
    walk = _Walk(
        path.parent if single else path, folder, root, take, max_files=max_files, max_bytes=max_bytes
    )
    try:
        if single:
            walk.file(root, real.name, path.name)
        else:
            walk.folder(root, "", ())
    finally:
        os.close(root)
    if not walk.files:
        _refuse(path, "", "holds no files", "put the plugin's files there, or remove it")
    return tuple(sorted(walk.files, key=lambda each: each.path))


def _is_single(real: Path, path: Path) -> bool:
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        _refuse_error(error, path, "")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        _refuse(path, "", f"is {_kind(mode)}", "a plugin is a folder or a file")
    return stat.S_ISREG(mode)


class _Walk:
    """One pass over one folder. `shown` is the path for messages, `real` the folder behind `root`."""

    def __init__(
        self, shown: Path, real: Path, root: int, take: Taker, *, max_files: int, max_bytes: int
    ) -> None:
        self.files: list[ContentFile] = []
        self._shown, self._real, self._root, self._take = shown, real, root, take
        self._max_files, self._max_bytes = max_files, max_bytes
        self._bytes = self._folders = 0

    def folder(self, descriptor: int, relative: str, above: tuple[tuple[int, int], ...]) -> None:
        before = os.fstat(descriptor)
        identity = (before.st_dev, before.st_ino)
        if identity in above:
            _refuse(self._shown, relative, "is a link to a folder that it lies in", "remove the link")
        if len(above) >= MAX_DEPTH:
            _refuse(self._shown, relative, f"nests deeper than {MAX_DEPTH} folders", "flatten it")
        self._folders += 1
        if self._folders > self._max_files:
            _refuse(self._shown, "", f"has more than {self._max_files} folders", "leave out what is not code")
        try:
            names = sorted(os.listdir(descriptor))
        except OSError as error:
            _refuse_error(error, self._shown, relative)
        for name in names:
            if not is_ignored(name):
                self._entry(descriptor, name, f"{relative}/{name}" if relative else name, (*above, identity))
        if os.fstat(descriptor).st_mtime_ns != before.st_mtime_ns:
            raise UnsettledError(f"{self._shown / relative} changed while it was read")

    def _entry(self, parent: int, name: str, relative: str, above: tuple[tuple[int, int], ...]) -> None:
        try:
            name.encode()
        except UnicodeEncodeError:
            _refuse(self._shown, ascii(relative), "has a name that is no UTF-8", "rename it")
        try:
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        except OSError as error:
            _refuse_error(error, self._shown, relative)
        if stat.S_ISLNK(mode):
            self._link(relative, above)
        elif stat.S_ISDIR(mode):
            self._open_folder(parent, name, relative, above)
        elif stat.S_ISREG(mode):
            self.file(parent, name, relative)
        else:
            _refuse(self._shown, relative, f"is {_kind(mode)}", "remove it: a plugin holds files and folders")

    def _open_folder(self, parent: int, name: str, relative: str, above: tuple[tuple[int, int], ...]) -> None:
        try:
            descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
        except OSError as error:
            _refuse_error(error, self._shown, relative)
        try:
            self.folder(descriptor, relative, above)
        finally:
            os.close(descriptor)

    def _link(self, relative: str, above: tuple[tuple[int, int], ...]) -> None:
        *folders, name = self._resolve(relative) or ["."]
        parent = self._descend(folders, relative)
        try:
            try:
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            except FileNotFoundError:
                _refuse(self._shown, relative, "is a link to nothing", "remove or mend the link")
            except OSError as error:
                _refuse_error(error, self._shown, relative)
            if stat.S_ISDIR(mode):
                # A folder is entered again under the link's name; the chain of folders above it
                # is what tells a loop from a second way to the same place.
                self._open_folder(parent, name, relative, above)
            elif stat.S_ISREG(mode):
                self.file(parent, name, relative)
            elif stat.S_ISLNK(mode):
                raise UnsettledError(f"{self._shown / relative} changed while it was read")
            else:
                _refuse(self._shown, relative, f"is a link to {_kind(mode)}", "remove the link")
        finally:
            os.close(parent)

    def _resolve(self, relative: str) -> list[str]:
        """The place inside the folder that a link means, as parts none of which is a link."""
        pending, done, links = relative.split("/")[::-1], list[str](), 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    self._refuse_leaving(relative)
                done.pop()
                continue
            target = self._target("/".join((*done, part)), relative)
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                _refuse(self._shown, relative, "is a link that leads back to itself", "remove the link")
            if target.startswith("/"):
                inside = os.path.normpath(target)
                if inside != str(self._real) and not inside.startswith(f"{self._real}/"):
                    self._refuse_leaving(relative)
                target, done = os.path.relpath(inside, self._real), []
            pending.extend(target.split("/")[::-1])
        return done

    def _target(self, place: str, relative: str) -> str | None:
        try:
            return os.readlink(place, dir_fd=self._root)
        except FileNotFoundError:
            _refuse(self._shown, relative, "is a link to nothing", "remove or mend the link")
        except OSError as error:
            if error.errno == errno.EINVAL:  # no link
                return None
            if error.errno == errno.ENOTDIR:
                _refuse(self._shown, relative, "is a link to nothing", "remove or mend the link")
            _refuse_error(error, self._shown, relative)

    def _refuse_leaving(self, relative: str) -> NoReturn:
        _refuse(
            self._shown,
            relative,
            "is a link that leaves the plugin's folder",
            "copy what it points to into the folder",
        )

    def _descend(self, folders: Sequence[str], relative: str) -> int:
        """A descriptor of the folder `folders`, reached without following any link."""
        descriptor = os.dup(self._root)
        for each in folders:
            try:
                below = os.open(each, _FOLDER_FLAGS, dir_fd=descriptor)
            except OSError as error:
                _refuse_error(error, self._shown, relative)
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def file(self, parent: int, name: str, relative: str) -> None:
        try:
            descriptor = os.open(name, _FILE_FLAGS, dir_fd=parent)
        except OSError as error:
            _refuse_error(error, self._shown, relative)
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise UnsettledError(f"{self._shown / relative} changed while it was read")
            self._admit(before.st_size)
            digest = hashlib.sha256()
            executable = bool(before.st_mode & 0o111)
            self._take(relative, executable, self._chunks(descriptor, before, relative, digest))
        finally:
            os.close(descriptor)
        self.files.append(ContentFile(relative, before.st_size, digest.hexdigest(), executable))

    def _admit(self, size: int) -> None:
        self._bytes += size
        if len(self.files) >= self._max_files:
            _refuse(self._shown, "", f"has more than {self._max_files} files", "leave out what is not code")
        if self._bytes > self._max_bytes:
            _refuse(
                self._shown,
                "",
                f"is larger than {self._max_bytes / 1024 / 1024:g} MiB",
                "keep large data outside the plugin's folder and name it in its settings",
            )

    def _chunks(
        self, descriptor: int, before: os.stat_result, relative: str, digest: hashlib._Hash
    ) -> Iterator[bytes]:
        left = before.st_size + 1  # one more than there was: a file that grows is noticed, and never followed
        while left:
            try:
                chunk = os.read(descriptor, min(CHUNK_BYTES, left))
            except OSError as error:
                _refuse_error(error, self._shown, relative)
            if not chunk:
                break
            left -= len(chunk)
            digest.update(chunk)
            yield chunk
        after = os.fstat(descriptor)
        if left != 1 or _mark(after) != _mark(before):
            raise UnsettledError(f"{self._shown / relative} changed while it was read")


def _mark(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no file and no folder")


def _refuse(path: Path, relative: str, reason: str, remedy: str) -> NoReturn:
    place = path / relative if relative else path
    raise PluginError([Rejection(path.name, f"{relative or path.name} {reason}", remedy, str(place))])


def _refuse_error(error: OSError, path: Path, relative: str) -> NoReturn:
    """Sort a failed call: gone or exchanged is unsettled, no descriptors is ours, the rest the plugin's."""
    place = path / relative if relative else path
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise StoreError(
            f"cannot read {place}: {os.strerror(error.errno)}", remedy="raise LimitNOFILE of the service"
        ) from error
    if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ESTALE):
        raise UnsettledError(f"{place} vanished or was exchanged while it was read") from error
    remedy = "let the daemon's user read it" if error.errno in (errno.EACCES, errno.EPERM) else ""
    reason = os.strerror(error.errno) if error.errno else str(error)
    raise PluginError([Rejection(path.name, f"cannot be read: {reason}", remedy, str(place))]) from error
