"""What calls answered, kept apart for whoever asked, one file each, until it expires.

A file is one line of JSON that says whose it is, and then the texts. It is written whole or not at all, mode
0600, and not forced to the disk: it outlives the daemon, and a crash of the machine may lose it. Its name is
a digest of kind, owner and request id: two callers who choose the same id never meet.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, cast

from hermesd.clock import Clock
from hermesd.errors import StoreError
from hermesd.store.durable import store_error, sweep_temporary, write_atomic

_log = logging.getLogger("hermesd.store")

VERSION = 1
MIB = 1024 * 1024
MAX_HEAD_BYTES = 4 * MIB
#: Each is known in memory too, whatever its size.
MAX_FILES = 10_000
#: `output`: the whole of a result that was cut; `call`: a detached call and, once it has ended, its answer.
Kind = Literal["output", "call"]


@dataclass(frozen=True, slots=True)
class Kept:
    """One file. `about` is what its writer notes in it. `expires` None: not before it is written anew."""

    kind: Kind
    owner: str
    request_id: str
    at: datetime
    expires: datetime | None
    sizes: tuple[int, int] = (0, 0)
    about: Mapping[str, object] = field(default_factory=dict)
    #: Where the texts begin.
    begin: int = 0

    @property
    def name(self) -> str:
        told = "\0".join((self.kind, self.owner, self.request_id)).encode()
        return hashlib.sha256(told).hexdigest()[:40]

    @property
    def total(self) -> int:
        return self.begin + sum(self.sizes)


class OutputStore:
    """The files and an index of them in memory. Its methods block and may be called from any thread."""

    def __init__(
        self, root: Path, clock: Clock, *, max_bytes: int = 256 * MIB, keep_s: float = 86_400
    ) -> None:
        self._root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._index: dict[str, Kept] = {}
        #: Bytes and files of each owner.
        self._held: dict[str, tuple[int, int]] = {}
        self._bytes = 0
        self.max_files = MAX_FILES
        self.max_bytes = max_bytes
        self.keep_s = keep_s

    @property
    def size(self) -> int:
        """Bytes on the disk now."""
        return self._bytes

    def open(self) -> list[Kept]:
        """Read the index; what is damaged or has expired is removed. Returns the calls that had not ended.

        Raises StoreError.
        """
        try:
            self._root.mkdir(mode=0o700, exist_ok=True)
            self._root.chmod(0o700)
            sweep_temporary(self._root)
            paths = [each for each in self._root.iterdir() if each.is_file()]
        except OSError as error:
            raise store_error(error, self._root, "open") from error
        now = self._clock.now()
        found: list[Kept] = []
        for path in paths:
            kept = _read_head(path)
            if kept is None or kept.name != path.name or _expired(kept, now):
                self._unlink(path)
            else:
                found.append(kept)
        with self._lock:
            self._index, self._held, self._bytes = {}, {}, 0
            for each in sorted(found, key=lambda each: each.at):
                self._put(each)
            return [each for each in self._index.values() if each.kind == "call" and each.expires is None]

    def write(
        self,
        kind: Kind,
        owner: str,
        request_id: str,
        *,
        data: str = "",
        content: str = "",
        about: Mapping[str, object] | None = None,
        lasting: bool = False,
    ) -> Kept:
        """Keep these texts in the place of any earlier ones of the call; `lasting`: they do not expire.

        The oldest of whoever has most make room. Raises StoreError: too large, or the disk cannot take it.
        """
        now = self._clock.now()
        expires = None if lasting else now + timedelta(seconds=self.keep_s)
        texts = data.encode("utf-8", "replace"), content.encode("utf-8", "replace")
        kept = Kept(kind, owner, request_id, now, expires, (len(texts[0]), len(texts[1])), dict(about or {}))
        head = _head_line(kept)
        kept = replace(kept, begin=len(head))
        self._make_room(kept, now)
        write_atomic(self._root / kept.name, b"".join((head, *texts)), mode=0o600, sync=False)
        with self._lock:
            if (before := self._index.pop(kept.name, None)) is not None:
                self._count(before, -1)
            self._put(kept)
        return kept

    def find(self, kind: Kind, owner: str, request_id: str) -> Kept | None:
        """What is kept of that owner's call; None when there is nothing, or not any more."""
        wanted = Kept(kind, owner, request_id, self._clock.now(), None)
        kept = self._index.get(wanted.name)
        return None if kept is None or _expired(kept, wanted.at) else kept

    def owners(self, kind: Kind, request_id: str) -> list[Kept]:
        """What is kept of all calls with that id, the newest first."""
        now = self._clock.now()
        with self._lock:
            found = [
                each
                for each in self._index.values()
                if each.kind == kind and each.request_id == request_id and not _expired(each, now)
            ]
        return sorted(found, key=lambda each: each.at, reverse=True)

    def read(self, kept: Kept, part: Literal["data", "content"], offset: int, count: int) -> bytes:
        """At most `count` bytes of a text from `offset` on. Raises StoreError when it is gone."""
        first = kept.begin + (kept.sizes[0] if part == "content" else 0)
        size = kept.sizes[1 if part == "content" else 0]
        path = self._root / kept.name
        try:
            with path.open("rb") as file:
                file.seek(first + offset)
                return file.read(max(0, min(count, size - offset)))
        except OSError as error:
            raise store_error(error, path, "read") from error

    def remove(self, kept: Kept) -> None:
        """Keep it no longer."""
        with self._lock:
            self._drop(kept)

    def sweep(self) -> int:
        """Remove what has expired; how many that were."""
        now = self._clock.now()
        with self._lock:
            gone = [each for each in self._index.values() if _expired(each, now)]
            for each in gone:
                self._drop(each)
        return len(gone)

    def _make_room(self, kept: Kept, now: datetime) -> None:
        limit = self.max_bytes
        if kept.total > limit:
            raise StoreError(
                f"{kept.total} bytes are more than all kept outputs may have together ({limit})",
                remedy="raise defaults.result.keep_mb, or ask for less at a time",
            )
        with self._lock:
            for each in list(self._index.values()):  # in the order in which they were written
                if not _expired(each, now):
                    break
                self._drop(each)
            while self._bytes + kept.total > limit or len(self._index) >= self.max_files:
                if (oldest := self._to_go(kept)) is None:
                    break
                self._drop(oldest)

    def _to_go(self, kept: Kept) -> Kept | None:
        """The oldest of the owner that has most, so that nobody's outputs drive out those of others."""
        shares = {owner: self._share(*held) for owner, held in self._held.items()}
        shares[kept.owner] = shares.get(kept.owner, 0.0) + self._share(kept.total, 1)
        may_go = [
            each for each in self._index.values() if each.expires is not None and each.name != kept.name
        ]
        most = max((shares[each.owner] for each in may_go), default=0.0)
        return next((each for each in may_go if shares[each.owner] == most), None)

    def _share(self, size: int, files: int) -> float:
        return size / self.max_bytes + files / self.max_files

    def _put(self, kept: Kept) -> None:
        self._index[kept.name] = kept
        self._count(kept, 1)

    def _count(self, kept: Kept, sign: int) -> None:
        size, files = self._held.get(kept.owner, (0, 0))
        self._held[kept.owner] = size + sign * kept.total, files + sign
        if files + sign == 0:
            del self._held[kept.owner]
        self._bytes += sign * kept.total

    def _drop(self, kept: Kept) -> None:
        if self._index.get(kept.name) is kept:
            del self._index[kept.name]
            self._count(kept, -1)
            self._unlink(self._root / kept.name)

    def _unlink(self, path: Path) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("%s", store_error(error, path, "remove"))


def _expired(kept: Kept, now: datetime) -> bool:
    return kept.expires is not None and kept.expires <= now


def _head_line(kept: Kept) -> bytes:
    told = {
        "version": VERSION,
        "kind": kept.kind,
        "owner": kept.owner,
        "request_id": kept.request_id,
        "at": kept.at.isoformat(),
        "expires": None if kept.expires is None else kept.expires.isoformat(),
        "sizes": kept.sizes,
        "about": kept.about,
    }
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def _read_head(path: Path) -> Kept | None:
    """None for what this build did not write, or did not write to its end."""
    try:
        with path.open("rb") as file:
            line = file.readline(MAX_HEAD_BYTES)
            size = os.fstat(file.fileno()).st_size
        told = json.loads(line)
        if told["version"] != VERSION or told["kind"] not in ("output", "call"):
            return None
        data, content = (int(each) for each in told["sizes"])
        kept = Kept(
            told["kind"],
            str(told["owner"]),
            str(told["request_id"]),
            _time(told["at"]),
            None if told["expires"] is None else _time(told["expires"]),
            (data, content),
            cast("Mapping[str, object]", dict(told["about"])),
            len(line),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        _log.warning("%s is damaged and is removed: %r", path, error)
        return None
    return kept if kept.total == size and min(data, content) >= 0 else None


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
