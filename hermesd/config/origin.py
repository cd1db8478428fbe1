"""Who said what: the effective values of one reading, each traced to a file, a variable or a default."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property

from hermesd.config.effective import EffectiveValue, dotted, fingerprint, flatten, masked
from hermesd.config.fault import Place
from hermesd.config.interpolation import Expanded
from hermesd.config.key import Reload, Table
from hermesd.config.kind import PathParts
from hermesd.config.merge import Merged
from hermesd.model.digest import digest_of

COMMAND_LINE = "command line"
DEFAULT = "default"


class Origins:
    """The typed `tree` beside the `merged` text it was read from. Places are looked up when asked for."""

    def __init__(
        self,
        table: Table,
        merged: Merged,
        tree: Mapping[str, object],
        secret: frozenset[PathParts],
        overridden: frozenset[PathParts],
    ) -> None:
        self._table = table
        self._merged = merged
        self._tree = tree
        self._secret = secret
        self._overridden = overridden

    def effective(self) -> list[EffectiveValue]:
        """Sorted by key; secrets masked."""
        values = [
            EffectiveValue(dotted(path), masked(value, path, self._secret), self._origin(path))
            for path, value in flatten(self._tree)
        ]
        return sorted(values, key=lambda each: each.key)

    def place_of(self, key: str) -> Place | None:
        """The place of a dotted key, when a file holds it."""
        path = tuple(key.split("."))
        return self._merged.place(path) if self._written(path)[0] else None

    @cached_property
    def fingerprints(self) -> dict[PathParts, str]:
        return {
            path: json.dumps(fingerprint(value, path, self._secret), sort_keys=True)
            for path, value in flatten(self._tree)
        }

    @property
    def digest(self) -> str:
        """Changes with every effective value; no secret can be read back from it."""
        return digest_of({dotted(path): text for path, text in self.fingerprints.items()})

    def differing(self, other: Origins) -> list[PathParts]:
        """The paths whose value is not the same in both, sorted."""
        mine, theirs = self.fingerprints, other.fingerprints
        found = {path for path in {**mine, **theirs} if mine.get(path) != theirs.get(path)}
        # An empty mapping that is filled, or emptied, is told by what stands in it.
        above = {path[:end] for path in found for end in range(1, len(path))}
        return sorted(found - above, key=dotted)

    def reload_of(self, path: PathParts) -> Reload:
        return self._table.reload_of(path)

    def _origin(self, path: PathParts) -> str:
        if any(path[:end] in self._overridden for end in range(1, len(path) + 1)):
            return COMMAND_LINE
        is_written, raw = self._written(path)
        place = self._merged.place(path) if is_written else None
        if place is None:
            return DEFAULT
        if isinstance(raw, Expanded) and raw.variables:
            return f"environment variable {', '.join(raw.variables)} at {place}"
        return str(place)

    def _written(self, path: PathParts) -> tuple[bool, object]:
        """Whether a file holds the path, or a short form of what lies above it; and the raw value."""
        node: object = self._merged.value
        for depth, part in enumerate(path):
            if not isinstance(node, Mapping):
                above = self._table.at(path[:depth])
                is_short = above is not None and above.key is not None and above.key.short == part
                return is_short and node is not None, node
            if part not in node:
                return False, None
            node = node[part]
        return node is not None, node
