"""Plugin bytes by digest: what is imported, mounted and described comes from here and from nowhere else.

Files are hashed while they are copied, made read-only and put in place by one rename. They are not
flushed to the device one by one (2,000 flushes take seconds): a content that a power cut damaged is
found by its digest when it is first used again, and then counts as absent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hermesd.errors import PluginError, StoreError
from hermesd.model.digest import digest_of
from hermesd.store.capture import ContentFile, Taker, UnsettledError, capture
from hermesd.store.durable import store_error, write_all

__all__ = ["Content", "ContentFile", "ContentStore", "UnsettledError", "content_digest"]

MAX_FILES = 2000
MAX_BYTES = 64 * 1024 * 1024
SPOOL_BYTES = 8 * 1024 * 1024
ATTEMPTS = 3
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})\Z")
_HEX = re.compile(r"[0-9a-f]{64}\Z")
_LEFTOVER = ".incoming-"


@dataclass(frozen=True, slots=True)
class Content:
    """One content in the store. `root` is read-only and holds exactly `files`."""

    digest: str
    root: Path
    files: tuple[ContentFile, ...]


def content_digest(files: Iterable[ContentFile]) -> str:
    """The digest of a content: its relative paths, bytes and executable bits, and nothing else."""
    return digest_of([[each.path, each.sha256, each.executable] for each in files])


class ContentStore:
    """Contents under `root`, one folder a digest. Safe to use from several threads of one daemon.

    What an earlier process left half-written is removed when the store is made, so the data dir's
    lock must be held. `sweep` must not run beside an `add` whose content it is not told to keep.
    """

    def __init__(self, root: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> None:
        self._root = root
        self._max_files, self._max_bytes = max_files, max_bytes
        self._known: dict[str, Content] = {}
        self._lock = threading.Lock()
        self._remove_leftovers()

    def add(self, path: Path) -> Content:
        """Copy the plugin folder or single file `path` into the store, or find that it is there already.

        Raises PluginError for what cannot be a content, UnsettledError when it goes on changing while it
        is read, StoreError when the data dir cannot be written; nothing half-written is left then.
        """
        for _ in range(ATTEMPTS - 1):
            with contextlib.suppress(UnsettledError):
                return self._add(path)
        return self._add(path)

    def get(self, digest: str) -> Content | None:
        """The content of that digest, or None. Its bytes are compared with the digest once a process."""
        with self._lock:
            known = self._known.get(digest)
            if known is not None and known.root.is_dir():
                return known
        return self._load(digest)

    def listed(self) -> frozenset[str]:
        """The digests that one listing of the store names, none when it cannot be listed: a quick way to see
        that contents are still there. `get` tells for sure.
        """
        try:
            names = self._names()
        except StoreError:
            return frozenset()
        return frozenset(f"sha256:{name}" for name in names if _HEX.match(name) is not None)

    def verify(self, digest: str) -> bool:
        """Whether the stored bytes are what the digest says, read anew from the disk."""
        return self._load(digest) is not None

    def sweep(self, keep: Iterable[str]) -> tuple[str, ...]:
        """Remove every content whose digest is not in `keep`; the removed digests, sorted."""
        kept = set(keep)
        removed = []
        for name in self._names():
            digest = f"sha256:{name}"
            if _HEX.match(name) is None or digest in kept:
                continue
            with self._lock:
                self._known.pop(digest, None)
            self._remove(self._root / name)
            removed.append(digest)
        return tuple(sorted(removed))

    def _add(self, path: Path) -> Content:
        spool = _Spool()
        files = self._capture(path, spool.take)
        digest = content_digest(files)
        present = self._present(digest)
        if present is not None:
            return present
        staging = _Staging(self._root)
        try:
            if spool.files is None:
                files = self._capture(path, staging.take)
                digest = content_digest(files)
            else:
                for relative, executable, data in spool.files:
                    staging.take(relative, executable, iter((data,)))
            staging.seal()
            return self._publish(staging, Content(digest, self._root / digest[7:], files))
        finally:
            staging.discard()

    def _capture(self, path: Path, take: Taker) -> tuple[ContentFile, ...]:
        return capture(path, take, max_files=self._max_files, max_bytes=self._max_bytes)

    def _present(self, digest: str) -> Content | None:
        """The stored content, checked by the sizes of its files, or by its bytes when first seen."""
        with self._lock:
            known = self._known.get(digest)
        if known is None:
            return self._load(digest)
        return known if all(_size(known.root / each.path) == each.size for each in known.files) else None

    def _publish(self, staging: _Staging, content: Content) -> Content:
        try:
            os.rename(staging.path, content.root)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise store_error(error, content.root, "write") from error
            # Another thread was faster, or what lies there is damaged.
            present = self._load(content.digest)
            if present is not None:
                return present
            self._remove(content.root)
            try:
                os.rename(staging.path, content.root)
            except OSError as again:
                raise store_error(again, content.root, "write") from again
        staging.published = True
        with self._lock:
            self._known[content.digest] = content
        return content

    def _load(self, digest: str) -> Content | None:
        match = _DIGEST.match(digest)
        if match is None:
            return None
        root = self._root / match[1]
        content = None
        if root.is_dir():
            with contextlib.suppress(PluginError, UnsettledError):
                files = self._capture(root, _consume)
                if content_digest(files) == digest:
                    content = Content(digest, root, files)
        with self._lock:
            if content is None:
                self._known.pop(digest, None)
            else:
                self._known[digest] = content
        return content

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._root)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise store_error(error, self._root, "read") from error

    def _remove_leftovers(self) -> None:
        for name in self._names():
            if name.startswith(_LEFTOVER):
                _remove_tree(self._root / name)

    def _remove(self, path: Path) -> None:
        """Take a content out of reach by one rename, then delete it: no reader finds half of one."""
        aside = self._root / f"{_LEFTOVER}{secrets.token_hex(8)}"
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return
        except OSError as error:
            raise store_error(error, path, "remove") from error
        _remove_tree(aside)


class _Spool:
    """Keeps small contents in memory, so that one that is in the store already is never written again."""

    def __init__(self) -> None:
        self.files: list[tuple[str, bool, bytes]] | None = []
        self._bytes = 0

    def take(self, relative: str, executable: bool, chunks: Iterator[bytes]) -> None:
        kept = list[bytes]()
        for chunk in chunks:
            self._bytes += len(chunk)
            if self._bytes > SPOOL_BYTES:
                self.files = None
                kept.clear()
            if self.files is not None:
                kept.append(chunk)
        if self.files is not None:
            self.files.append((relative, executable, b"".join(kept)))


class _Staging:
    """A folder that becomes a content by one rename."""

    def __init__(self, root: Path) -> None:
        self.path = root / f"{_LEFTOVER}{secrets.token_hex(8)}"
        self.published = False
        self._folders = {""}
        try:
            try:
                self.path.mkdir(mode=0o700)
            except FileNotFoundError:
                root.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.path.mkdir(mode=0o700)
        except OSError as error:
            raise store_error(error, root, "write") from error

    def take(self, relative: str, executable: bool, chunks: Iterator[bytes]) -> None:
        target = self.path / relative
        mode = 0o555 if executable else 0o444
        try:
            self._make_folders(relative.rpartition("/")[0])
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except OSError as error:
            raise store_error(error, target, "write") from error
        try:
            for chunk in chunks:
                try:
                    write_all(descriptor, chunk)
                except OSError as error:
                    raise store_error(error, target, "write") from error
            if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:  # the umask took some of it
                os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)

    def _make_folders(self, relative: str) -> None:
        if relative not in self._folders:
            self._make_folders(relative.rpartition("/")[0])
            (self.path / relative).mkdir(mode=0o700)
            self._folders.add(relative)

    def seal(self) -> None:
        """Make every folder read-only, the deepest first."""
        try:
            for relative in sorted(self._folders, key=len, reverse=True):
                (self.path / relative).chmod(0o555)
        except OSError as error:
            raise store_error(error, self.path, "write") from error

    def discard(self) -> None:
        """Remove what was not published."""
        if not self.published and self.path.exists():
            _remove_tree(self.path)


def _consume(_relative: str, _executable: bool, chunks: Iterator[bytes]) -> None:
    for _ in chunks:
        pass


def _size(path: Path) -> int:
    try:
        status = os.lstat(path)
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def _remove_tree(path: Path) -> None:
    """Delete a folder that was made read-only. Raises StoreError."""
    try:
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise store_error(error, path, "remove") from error
