"""When a change is complete: a pure state machine over scans, file events and a clock.

A unit (a plugin folder, a single file, a configuration file) that differs from what was last reported
is settled when two equal scans lie at least `settle_s` apart, unless

- one of its files was modified and not closed for writing since,
- one of its files had content and is empty now, or the whole unit lost its files,
- one of its files was just created and is still empty (at most `created_s`), or
- it is gone together with its whole plugin directory, which vanished or was exchanged for an empty one.

None of these holds a unit longer than `unsettled_s` after its change was first seen.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesd.sources.source import Fingerprint, RootState, Scan

SETTLE_S = 0.075
UNSETTLED_S = 10.0
CREATED_S = 1.0
RECHECK_S = 0.25


@dataclass(frozen=True, slots=True)
class ScanState:
    """One look at everything that is watched.

    `units` maps each unit (mostly its absolute path) to its fingerprint. `roots` maps each plugin
    directory to its identity, () when it is absent or unreadable.
    """

    units: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    roots: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def scan_state(*scans: Scan, files: Mapping[str, Fingerprint] | None = None) -> ScanState:
    """The state that these scans, and the fingerprints of single `files` by path, amount to.

    A plugin directory is a unit too, so that a change of its own mode is a change.
    """
    units = dict[str, tuple[object, ...]]()
    roots = dict[str, tuple[int, ...]]()
    for scan in scans:
        units.update(scan.held)
        units.update((found.unit, found.fingerprint) for found in scan.found)
        for root in scan.roots:
            identity = root.identity if root.state is RootState.PRESENT else ()
            roots[str(root.path)] = identity
            units[str(root.path)] = (root.state, *identity[2:])
    units.update((path, marks) for path, marks in (files or {}).items() if marks)
    return ScanState(units, roots)


@dataclass(frozen=True, slots=True)
class Step:
    """What one scan brought: units that are settled now and differ from what was reported before,
    units that are not settled, whether a change was seen for the first time, and when (monotonic
    seconds) to scan again; None: when something happens."""

    settled: frozenset[str]
    unsettled: frozenset[str]
    found: bool
    again_at: float | None


@dataclass(slots=True)
class _Pending:
    """A unit that differs from what was reported."""

    first: float
    candidate: tuple[object, ...] | None
    since: float


class Settling:
    """The machine. Times are monotonic seconds and never run backwards; not thread-safe."""

    def __init__(
        self,
        *,
        settle_s: float = SETTLE_S,
        unsettled_s: float = UNSETTLED_S,
        created_s: float = CREATED_S,
        reported: ScanState | None = None,
    ) -> None:
        self._settle_s, self._unsettled_s, self._created_s = settle_s, unsettled_s, created_s
        self._reported = dict((reported or ScanState()).units)
        self._roots = dict((reported or ScanState()).roots)
        self._pending = dict[str, _Pending]()
        self._open = dict[str, float]()
        self._created = dict[str, float]()
        self._overdue = frozenset[str]()

    def tune(self, *, settle_s: float, unsettled_s: float) -> None:
        """Judge by these times from now on."""
        self._settle_s, self._unsettled_s = settle_s, unsettled_s

    @property
    def pending(self) -> frozenset[str]:
        """The units that differ from what was reported and have not settled."""
        return frozenset(self._pending)

    def modified(self, path: str, now: float) -> None:
        """A file was written to; it may still be open."""
        self._open.setdefault(path, now)

    def created(self, path: str, now: float) -> None:
        """A file appeared; its content may not have."""
        self._created.setdefault(path, now)

    def closed(self, path: str) -> None:
        """A file that was open for writing was closed, or another one took its name."""
        self._open.pop(path, None)
        self._created.pop(path, None)

    def gone(self, path: str) -> None:
        """A file or folder was deleted or renamed: what was open below that name is no concern any more."""
        self.closed(path)
        below = f"{path}/"
        for opened in (self._open, self._created):
            for each in [each for each in opened if each.startswith(below)]:
                del opened[each]

    def observe(self, state: ScanState, now: float) -> Step:
        """Take the result of a scan that was made at `now`."""
        self._forget_old(now)
        opened = self._owners(self._open, state)
        fresh = self._empty_created(state)
        found, settled, unsettled, again = False, set[str](), set[str](), list[float]()
        for unit in self._differing(state):
            seen = state.units.get(unit)
            pending = self._pending.get(unit)
            if pending is None:
                pending = self._pending[unit] = _Pending(now, seen, now)
                found = True
            elif pending.candidate != seen:
                pending.candidate, pending.since = seen, now
            expires = pending.first + self._unsettled_s
            stable_at = pending.since + self._settle_s
            held = unit in opened or unit in fresh or self._emptied(unit, seen, state)
            stable = now >= stable_at and not held
            if stable or now >= expires:
                settled.add(unit)
                self._overdue = self._overdue - {unit} if stable else self._overdue | {unit}
            else:
                unsettled.add(unit)
                again.append(min(expires, max(stable_at, now + RECHECK_S) if held else stable_at))
        self._report(settled, state)
        return Step(frozenset(settled), frozenset(unsettled), found, min(again, default=None))

    def moved(self, state: ScanState) -> frozenset[str]:
        """The units in watched directories that are not as they were when they settled.

        What was named though it never came to rest is left out: it would be so for ever. So is what lies in a
        directory that `state` does not speak of: the configuration names it no more. From any thread.
        """
        reported = dict(self._reported)
        roots = [f"{root}/" for root in dict(self._roots) if root in state.roots]
        return frozenset(
            unit
            for unit in reported.keys() | state.units.keys()
            if reported.get(unit) != state.units.get(unit)
            and unit not in self._overdue
            and any(unit.startswith(root) for root in roots)
        )

    def _differing(self, state: ScanState) -> list[str]:
        """The units that differ from what was reported; one that became as it was is forgotten."""
        reported = self._reported
        differing = []
        for unit, seen in state.units.items():
            before = reported.get(unit)
            if before is not seen and before != seen:
                differing.append(unit)
        differing += [unit for unit in self._reported if unit not in state.units]
        for unit in self._pending.keys() - set(differing):
            del self._pending[unit]
        return differing

    def _report(self, settled: set[str], state: ScanState) -> None:
        for unit in settled:
            del self._pending[unit]
            seen = state.units.get(unit)
            if seen is None:
                self._reported.pop(unit, None)
            else:
                self._reported[unit] = seen
        for root, identity in state.roots.items():
            below = f"{root}/"
            if not any(unit.startswith(below) for unit in self._pending):
                self._roots[root] = identity

    def _forget_old(self, now: float) -> None:
        for opened, bound in ((self._open, self._unsettled_s), (self._created, self._created_s)):
            for path in [path for path, since in opened.items() if now - since >= bound]:
                del opened[path]

    def _owners(self, paths: Mapping[str, float], state: ScanState) -> set[str]:
        """The units that own these paths."""
        owners = set[str]()
        for path in paths:
            place = path
            while len(place) > 1:
                if place not in state.roots and (place in state.units or place in self._reported):
                    owners.add(place)
                    break
                place = os.path.dirname(place)
        return owners

    def _empty_created(self, state: ScanState) -> set[str]:
        """The units with a file that was just created and is empty."""
        return {
            unit
            for unit in self._owners(self._created, state)
            if any(
                size == 0 and (f"{unit}/{name}" in self._created or unit in self._created)
                for name, size in _sizes(state.units.get(unit)).items()
            )
        }

    def _emptied(self, unit: str, seen: tuple[object, ...] | None, state: ScanState) -> bool:
        before = _sizes(self._reported.get(unit))
        if not before:
            return False
        if seen is None:
            return self._lost_with_its_root(unit, state)
        after = _sizes(seen)
        return not after or any(size == 0 and before.get(name, 0) > 0 for name, size in after.items())

    def _lost_with_its_root(self, unit: str, state: ScanState) -> bool:
        for root, identity in state.roots.items():
            below = f"{root}/"
            if not unit.startswith(below):
                continue
            if not identity:
                return True
            exchanged = identity[:2] != self._roots.get(root, identity)[:2]
            return exchanged and not any(each.startswith(below) for each in state.units)
        return False


def _sizes(marks: tuple[object, ...] | None) -> dict[str, int]:
    """The files of a fingerprint with their sizes; folders and what is no file mark are left out."""
    return {
        mark[0]: mark[3]
        for mark in marks or ()
        if isinstance(mark, tuple) and isinstance(mark[0], str) and not mark[0].endswith("/")
    }
