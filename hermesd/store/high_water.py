"""How far a database had come, kept beside it: what tells a start that commits have been lost."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

from hermesd.errors import StoreError
from hermesd.store.durable import json_bytes, read_json_object, write_atomic

VERSION = 1


@dataclass(frozen=True, slots=True)
class HighWater:
    """The store with this id had made at least `commit` commits. `closed`: nothing has it open."""

    store: str
    commit: int
    closed: bool = False

    @property
    def checksum(self) -> str:
        return hashlib.sha256(f"{self.store} {self.commit} {self.closed}".encode()).hexdigest()


def read_high_water(path: Path) -> HighWater | None:
    """What `path` says; None when there is no such file. Raises StoreError when it is damaged."""
    value = read_json_object(path, version=VERSION)
    if value is None:
        return None
    store, commit, closed = value.get("store"), value.get("commit"), value.get("closed")
    if isinstance(store, str) and isinstance(commit, int) and isinstance(closed, bool):
        mark = HighWater(store, commit, closed)
        if mark.checksum == value.get("checksum"):
            return mark
    raise StoreError(f"{path} is damaged", remedy=f"remove {path} to go on with the database as it is")


def write_high_water(path: Path, mark: HighWater) -> None:
    """Replace what `path` says. Raises StoreError."""
    write_atomic(path, json_bytes({"version": VERSION, **asdict(mark), "checksum": mark.checksum}))


def was_closed(path: Path) -> bool:
    """Whether the store was closed in peace, or never opened: nothing of it needs to be looked at."""
    try:
        mark = read_high_water(path)
    except StoreError:
        return False
    return mark is None or mark.closed


def check_high_water(path: Path, database: Path, found: HighWater | None) -> None:
    """Refuse a database that holds less than it once held.

    `found` is what the database itself says, None when it is new or gone. Raises StoreError with the two ways
    out: a backup, or removing the mark, by which an operator accepts the loss.
    """
    mark = read_high_water(path)
    if mark is None or (found is not None and found.store == mark.store and found.commit >= mark.commit):
        return
    if found is None:
        told = f"{database} is gone or empty, and held {mark.commit} commits"
    elif found.store != mark.store:
        told = f"{database} is another store than the one that {path.name} belongs to"
    else:
        told = f"{database} has lost its last {mark.commit - found.commit} commits of {mark.commit}"
    raise StoreError(told, remedy=f"restore a backup, or remove {path} to accept the loss")
