"""What a source says: which plugins it holds now, and what it could not look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from hermesd.errors import Rejection

#: One file: (path relative to the unit, device, inode, size, mtime_ns, ctime_ns). A path with a final
#: `/` is a folder: (path, device, inode, mode, uid, gid), because its times say nothing about its content.
Mark = tuple[str, int, int, int, int, int]
Fingerprint = tuple[Mark, ...]
#: (reason, remedy) of tools that are described and not programmed.
DECLARATIVE = ("declarative tools are not in this build", "write the tools in Python, or move it away")


class Origin(StrEnum):
    """Where a plugin comes from; it decides where its code may run."""

    BUNDLED = "bundled"
    ENTRY_POINT = "entry_point"
    FOLDER = "folder"
    FILE = "file"


class RootState(StrEnum):
    """How a plugin directory stands. Only `present` says anything about what was removed."""

    PRESENT = "present"
    ABSENT = "absent"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Root:
    """One plugin directory. `identity` is (device, inode, mode, uid); zeros when it is not present."""

    path: Path
    state: RootState
    identity: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Found:
    """One plugin that a source holds.

    `unit` is stable across scans and unique among all sources; `label` is for people. Equal
    fingerprints mean that nothing changed. `unsupported` says why this build cannot serve it at all,
    `enabled` False that the operator did not name it; `remedy` belongs to either. `root` is the
    plugin directory that it lies in.
    """

    unit: str
    label: str
    origin: Origin
    path: Path | None = field(compare=False)  # follows from the unit, and paths are slow to compare
    fingerprint: tuple[object, ...]
    root: Path | None = None
    enabled: bool = True
    unsupported: str = ""
    remedy: str = ""
    distribution: str = ""
    version: str = ""
    entry_point: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at a source.

    `held` has the units that exist but could not be judged, with their fingerprints: whatever serves
    them goes on serving, they are not removed. A unit that is neither found nor held is gone, unless
    `is_uncertain`: its plugin directory could not be read.
    """

    found: tuple[Found, ...] = ()
    faults: tuple[Rejection, ...] = ()
    held: Mapping[str, Fingerprint] = field(default_factory=dict)
    roots: tuple[Root, ...] = ()

    def like(self, before: Scan) -> Scan:
        """The same, with the very objects of `before` for what is equal, so that comparing them is quick."""
        known = {each.unit: each for each in before.found}
        found = tuple(known[each.unit] if known.get(each.unit) == each else each for each in self.found)
        return replace(self, found=found)

    def is_uncertain(self, unit: str) -> bool:
        """Whether the absence of `unit` from this scan says nothing about it."""
        if unit in self.held:
            return True
        return any(
            root.state is RootState.UNREADABLE and unit.startswith(f"{root.path}/") for root in self.roots
        )


def like(scans: tuple[Scan, ...], before: tuple[Scan, ...]) -> tuple[Scan, ...]:
    """The same scans, with the very objects of those `before`, of the same sources, for what is equal."""
    if len(scans) != len(before):
        return scans
    return tuple(each.like(earlier) for each, earlier in zip(scans, before, strict=True))


class Source(Protocol):
    """A place that plugins come from. `scan` reads no plugin's content, runs none, and never raises."""

    def scan(self) -> Scan: ...
