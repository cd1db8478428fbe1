"""How far a database had come, kept beside it: what tells a start that commits have been lost."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hermesd.errors import StoreError
from hermesd.store.durable import json_bytes, read_json_object, write_atomic

VERSION = 1


@dataclass(frozen=True, slots=True)
class HighWater:
    """The store with this id had made at least `commit` commits."""

    store: str
    commit: int

    @property
    def checksum(self) -> str:
        return hashlib.sha256(f"{self.store} {self.commit}".encode()).hexdigest()


def read_high_water(path: Path) -> HighWater | None:
    """What `path` says; None when there is no such file. Raises StoreError when it is damaged."""
    value = read_json_object(path, version=VERSION)
    if value is None:
        return None
    store, commit = value.get("store"), value.get("commit")
    if isinstance(store, str) and isinstance(commit, int):
        mark = HighWater(store, commit)
        if mark.checksum == value.get("checksum"):
            return mark
    raise StoreError(f"{path} is damaged", remedy=f"remove {path} to go on with the database as it is")


def write_high_water(path: Path, mark: HighWater) -> None:
    """Replace what `path` says. Raises StoreError."""
    fields = {"version": VERSION, "store": mark.store, "commit": mark.commit, "checksum": mark.checksum}
    write_atomic(path, json_bytes(fields))


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
