"""Several files as one: mappings grow together, a name or value stands once, and each keeps its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermesd.config.document import Document
from hermesd.config.effective import dotted
from hermesd.config.fault import Place
from hermesd.config.key import Table
from hermesd.config.kind import PathParts
from hermesd.errors import Rejection


@dataclass(frozen=True, slots=True)
class Loaded:
    """One file that was read, its references put in."""

    path: Path
    document: Document
    value: Mapping[str, object]

    def place(self, path: PathParts) -> Place:
        return Place(str(self.path), *self.document.place(path))


@dataclass(slots=True)
class Merged:
    """The files' common value. `owners` says for a path which file it is of, and its path there."""

    table: Table
    value: dict[str, object] = field(default_factory=dict)
    owners: dict[PathParts, tuple[Loaded, PathParts]] = field(default_factory=dict)
    faults: list[Rejection] = field(default_factory=list)

    def add(self, loaded: Loaded) -> None:
        """Take in one more file; what stands already is a fault that names both places."""
        self._join(self.value, loaded.value, (), loaded)

    def owner(self, path: PathParts) -> tuple[Loaded, PathParts] | None:
        for end in range(len(path), 0, -1):
            found = self.owners.get(path[:end])
            if found is not None:
                loaded, local = found
                return loaded, (*local, *path[end:])
        return None

    def place(self, path: PathParts) -> Place | None:
        """Where a path was written; None when no file holds it."""
        found = self.owner(path)
        return found[0].place(found[1]) if found else None

    def _join(
        self, target: dict[str, object], more: Mapping[str, object], path: PathParts, loaded: Loaded
    ) -> None:
        for key, value in more.items():
            here = (*path, key)
            standing = target.get(key)
            if key not in target or standing is None:
                target[key] = _own(value)
                self.owners[here] = (loaded, here)
            elif isinstance(standing, dict) and isinstance(value, Mapping) and not self._is_whole(here):
                self._join(standing, value, here, loaded)
            elif isinstance(standing, list) and isinstance(value, list) and self._joins(here):
                self._extend(standing, value, here, loaded)
            elif value is not None:
                self._twice(here, loaded)

    def _is_whole(self, path: PathParts) -> bool:
        node = self.table.at(path)
        return self.table.is_named(path) or (node is not None and node.kind is not None)

    def _joins(self, path: PathParts) -> bool:
        node = self.table.at(path)
        return node is not None and node.key is not None and node.key.joins

    def _extend(self, standing: list[object], more: list[object], path: PathParts, loaded: Loaded) -> None:
        for index, item in enumerate(more):
            self.owners[(*path, len(standing))] = (loaded, (*path, index))
            standing.append(item)

    def _twice(self, path: PathParts, loaded: Loaded) -> None:
        first = self.place(path)
        here = loaded.place(path)
        reason = f"{dotted(path)} stands in two files, first at {first}"
        self.faults.append(Rejection(dotted(path), reason, "keep one of the two", *here))


def _own(value: object) -> object:
    """A copy whose mappings and lists may grow without touching what aliases share."""
    if isinstance(value, Mapping):
        return {key: _own(each) for key, each in value.items()}
    return list(value) if isinstance(value, list) else value
