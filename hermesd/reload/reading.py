"""Reads the configuration and every source, and makes of them a goal for each plugin.

What a plan says depends on nothing but the configuration, what the sources hold, and the data dir: a
fresh start on the same three comes to the same plan.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

from hermesd.access.strict_modes import UnsafeMode, unsafe_directory, unsafe_unit
from hermesd.config.configuration import Configuration
from hermesd.config.manifest import Manifest, python_manifest, read_manifest
from hermesd.errors import ConfigError, HermesdError, PluginError, RejectedError, Rejection
from hermesd.model.name import plugin_name_fault
from hermesd.reload.goal import Goal, Plan, Run
from hermesd.reload.placing import Look, Placing
from hermesd.sources.fingerprint import file_fingerprint
from hermesd.sources.folder import MANIFEST
from hermesd.sources.source import Fingerprint, Found, Origin, Root, RootState, Scan, Source, like
from hermesd.store.content import Content, ContentStore
from hermesd.store.grants import Grants, GrantStore
from hermesd.store.served import ServedStore

#: How long before it is loaded a file must have rested to be taken for unchanged by its marks alone.
RACY_NS = 2_000_000_000
Marks = dict[str, Fingerprint]


@dataclass(frozen=True, slots=True)
class _Basis:
    """Everything that a goal follows from, besides the content store."""

    look: Look
    configuration: Configuration
    grants: Grants
    last_good: str

    def is_same(self, other: _Basis) -> bool:
        """Whether these are the very same objects: comparing them by value costs what making a goal does."""
        return (
            self.look is other.look
            and self.configuration is other.configuration
            and self.grants is other.grants
            and self.last_good == other.last_good
        )


@dataclass(frozen=True, slots=True)
class _Placed:
    """A goal, and what it was made from."""

    basis: _Basis
    goal: Goal


class SourceReading:
    """The reading of a daemon. Looks at a unit again only when its fingerprint has changed."""

    def __init__(
        self,
        *,
        load: Callable[[], Configuration],
        sources: Callable[[Configuration], Sequence[Source]],
        contents: ContentStore,
        grants: GrantStore,
        served: ServedStore,
        executor: Executor,
        unsettled: Callable[[bool], Awaitable[frozenset[str]]],
        moved: Callable[[Sequence[Scan]], frozenset[str]] = lambda _: frozenset(),
        notices: Callable[[Configuration], Iterable[Rejection]] = lambda _: (),
        state_dir: Path,
        files: Callable[[Configuration], Sequence[Path]] | None = None,
        looked: Callable[[Configuration], tuple[Scan, ...] | None] = lambda _: None,
    ) -> None:
        """`files` lists every file that `load` may look at, also those that do not exist; without it the
        configuration is loaded for each reading. `looked` gives the scans from which it is known what is
        unsettled, where such were made of the sources of that configuration: they are not made again.
        """
        self.load = load
        self._sources = sources
        self._contents = contents
        self._grants = grants
        self._served = served
        self._executor = executor
        self._unsettled = unsettled
        self._moved = moved
        self._notices = notices
        self.state_dir = state_dir
        #: What the last reading saw, for the watcher to compare with.
        self.seen: tuple[Scan, ...] = ()
        self._files = files
        self._looked = looked
        self._configuration: Configuration | None = None
        self._loaded_from: Marks | None = None
        self._goals: dict[str, _Placed] = {}
        self._looks: dict[str, Look] = {}
        self._roots: Mapping[Path, Root] = {}
        self._directories: dict[Path, UnsafeMode | None] = {}
        self._names: dict[str, str] = {}
        self._imported: dict[str, Found] = {}
        self._manifests: dict[str, Manifest] = {}

    def adopt(self, configuration: Configuration, began_ns: int) -> None:
        """Read with what was loaded already, from `began_ns` on (nanoseconds of the wall clock), if its files
        have rested since before that; else the first reading loads it again.
        """
        marks = self._marks(configuration)
        if (
            marks is not None
            and all(marks.get(str(path)) for path in configuration.files)
            and all(_is_older(mark, began_ns - RACY_NS) for mark in marks.values())
        ):
            self._configuration, self._loaded_from = configuration, marks

    async def read(self, *, patient: bool) -> Plan:
        unsettled = await self._unsettled(patient)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self.read_now, unsettled)

    async def record(self, served: Iterable[Run], in_use: Iterable[str]) -> None:
        entries = [(run.spec.name, run.spec.digest, run.spec.version) for run in served]
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, self._record_now, entries, frozenset(in_use))

    def read_now(self, unsettled: frozenset[str] = frozenset()) -> Plan:
        """One reading, on the calling thread. Raises ConfigError only where there was never a good one."""
        configuration, faults = self._configure(unsettled)
        scans = self._looked(configuration)
        if scans is None:
            scans = like(tuple(source.scan() for source in self._sources(configuration)), self.seen)
            # Between the look that found all settled and this one somebody may have begun to write again.
            unsettled |= self._moved(scans)
        self.seen = scans
        looks = self._look_at(scans, unsettled)
        rejections = [*faults, *(_placed(each, configuration) for scan in scans for each in scan.faults)]
        goals: dict[str, Goal] = {}
        claims: dict[str, Look] = {}
        stored = self._contents.listed()
        for look in sorted(looks, key=self._precedence):
            first = claims.setdefault(look.name, look)
            if first is not look:
                rejections.extend(look.rejections or [_collision(look, first)])
                continue
            goals[look.name] = self._goal_of(look, configuration, stored)
        self._names = {look.found.unit: name for name, look in claims.items()}
        self._goals = {unit: each for unit, each in self._goals.items() if unit in self._names}
        known = set(goals)
        notices = [
            *configuration.warnings,
            *self._notices(configuration),
            *_unknown_names(configuration, known),
            *(each for look in claims.values() for each in _unmet(look, goals[look.name])),
            *_absent(scans, configuration),
            *(_being_written(unit) for unit in sorted(unsettled)),
        ]
        return Plan(configuration, dict(sorted(goals.items())), tuple(rejections), tuple(notices))

    def _configure(self, unsettled: frozenset[str]) -> tuple[Configuration, tuple[Rejection, ...]]:
        present = self._configuration
        if present is not None:
            if any(str(path) in unsettled for path in present.watched):
                return present, ()
            if self._loaded_from is not None and self._loaded_from == self._marks(present):
                return present, ()
        began_ns = time.time_ns()
        before = None if present is None else self._marks(present)
        self._loaded_from = None
        try:
            self._configuration = self.load()
        except ConfigError as error:
            if self._configuration is None:
                raise
            return self._configuration, error.rejections
        marks = self._marks(self._configuration)
        # What changed while it was loaded, or so shortly before that the next change could fall into the same
        # tick of the file system's clock, is loaded again the next time.
        if (
            marks is not None
            and marks == before
            and all(_is_older(mark, began_ns - RACY_NS) for mark in marks.values())
        ):
            self._loaded_from = marks
        return self._configuration, ()

    def _marks(self, configuration: Configuration) -> Marks | None:
        """What the files of the configuration look like; None when that cannot be told."""
        if self._files is None:
            return None
        try:
            return {str(path): file_fingerprint(path) for path in self._files(configuration)}
        except OSError:
            return None

    def _precedence(self, look: Look) -> tuple[bool, bool]:
        """Who had the name in the last reading keeps it. The order is else the sources' own, except that
        what cannot be read, whose name is but a guess, takes the name of nothing that can.
        """
        return self._names.get(look.found.unit) != look.name, bool(look.rejections)

    def _look_at(self, scans: Sequence[Scan], unsettled: frozenset[str]) -> list[Look]:
        """Look at every unit; one that is unsettled, or that a scan could not judge, is as it was."""
        looks: dict[str, Look] = {}
        roots = {root.path: root for scan in scans for root in scan.roots}
        same = {root.path for root in roots.values() if self._roots.get(root.path) == root}
        looked = self._looks_of(
            [each for scan in scans for each in scan.found if each.unit not in unsettled], same
        )
        for scan in scans:
            for found in scan.found:
                if found.unit not in unsettled:
                    looks[found.unit] = looked[found.unit]
            for unit in scan.held.keys() - unsettled:
                if (look := self._served_before(unit)) is not None:
                    looks[unit] = look
            for unit, before in self._looks.items():
                hidden = unit not in scan.held and unit not in looks and scan.is_uncertain(unit)
                if unit in unsettled or hidden:
                    looks[unit] = before
        self._looks, self._roots = looks, roots
        return list(looks.values())

    def _looks_of(self, found: Sequence[Found], same: set[Path]) -> dict[str, Look]:
        """The look of each unit: as before where neither the unit has changed nor its directory, which is not
        among those that stand the `same` (who may write there decides what is trusted); else a new one.
        """
        looks: dict[str, Look] = {}
        self._directories = {}
        for each in found:
            before = self._looks.get(each.unit)
            if (
                before is not None
                and (each.root is None or each.root in same)
                and (before.found is each or before.found == each)
                and not _must_look_again(before)
            ):
                looks[each.unit] = before
            else:
                looks[each.unit] = self._look(each)
        return looks

    def _unsafe(self, root: Path, unit: Path) -> UnsafeMode | None:
        """Who else may write there; a directory is judged once in a reading. Raises OSError."""
        if root not in self._directories:
            self._directories[root] = unsafe_directory(root)
        return self._directories[root] or unsafe_unit(root, unit)

    def _served_before(self, unit: str) -> Look | None:
        """A unit that cannot be judged, if it ever served: what served last goes on, as after a restart."""
        path = Path(unit)
        found = Found(unit, path.name, Origin.FOLDER, path, ())
        name = self._known_name(found)
        return Look(found, name, None, None, None) if self.last_good(name) else None

    def _known_name(self, found: Found) -> str:
        """Of a unit whose manifest cannot be read: as what it served last, else its label.

        Nothing that only this process remembers decides it, so that a restart makes no difference.
        """
        return self._served.name_of(found.unit) or _label_name(found)

    def _look(self, found: Found) -> Look:
        name = self._known_name(found)
        if found.origin is Origin.ENTRY_POINT:
            return self._look_at_installed(found)
        if found.unsupported or found.path is None or found.root is None:
            return Look(found, name, None, None, None)
        try:
            unsafe = None if found.origin is Origin.BUNDLED else self._unsafe(found.root, found.path)
            content = self._contents.add(found.path)
            manifest = self._manifest(content, found.path)
        except RejectedError as error:
            return Look(found, name, None, None, None, _named(error.rejections, name))
        except (HermesdError, OSError) as error:
            remedy = getattr(error, "remedy", "") or "make it readable"
            rejection = Rejection(name, str(error), remedy, str(found.path))
            return Look(found, name, None, None, None, (rejection,))
        return Look(found, manifest.name, manifest, content, unsafe)

    def _look_at_installed(self, found: Found) -> Look:
        """An installed package as it was when this process imported it: another version needs a restart."""
        imported = self._imported.get(found.unit, found)
        serving = replace(found, version=imported.version, reference=imported.reference)
        name = found.entry_point.lower()
        if (problem := plugin_name_fault(name)) is not None:
            rejection = Rejection(name, f"{found.label}: the entry point's name: {problem}", "rename it")
            return Look(found, name, None, None, None, (rejection,))
        manifest = Manifest(name, serving.version, entry=serving.reference)
        newer = found.version if serving != found else ""
        return Look(serving, name, manifest, None, None, installed=newer)

    def _manifest(self, content: Content, path: Path) -> Manifest:
        """The manifest of a content, from the content store alone. Faults name the operator's own path."""
        known = self._manifests.get(content.digest)
        if known is not None:
            return known
        files = [each.path for each in content.files]
        if MANIFEST in files:
            shown = path if path.name == MANIFEST else path / MANIFEST
            manifest = read_manifest((content.root / MANIFEST).read_bytes(), str(shown))
        elif len(files) == 1 and files[0].endswith(".py"):
            manifest = python_manifest(str(path), (content.root / files[0]).read_bytes())
        else:
            raise PluginError([Rejection(path.name, f"has no {MANIFEST}", "write one", str(path))])
        if manifest.entry and manifest.entry not in files:
            reason = f"entry: there is no {manifest.entry!r} in the folder"
            raise PluginError(
                [Rejection(manifest.name, reason, "name the file that holds the code", str(path))]
            )
        self._manifests[content.digest] = manifest
        return manifest

    def _goal_of(self, look: Look, configuration: Configuration, stored: frozenset[str]) -> Goal:
        """The goal of a unit. One that runs is made anew only when something that it follows from is new, or
        its content is neither among those that are `stored` nor in the store after all.
        """
        basis = _Basis(look, configuration, self._grants.current, self.last_good(look.name))
        before = self._goals.get(look.found.unit)
        if before is not None and before.basis.is_same(basis):
            run = before.goal.run
            if run is not None and (run.spec.digest in stored or self.has_content(run.spec.digest)):
                return before.goal
        goal = self._goal(look, configuration)
        self._goals[look.found.unit] = _Placed(basis, goal)
        return goal

    def _goal(self, look: Look, configuration: Configuration) -> Goal:
        found, name = look.found, look.name
        manifest = look.manifest
        goal = Goal(
            name=name,
            version=manifest.version if manifest is not None else found.version,
            origin=found.origin.value,
            path=str(found.path or found.reference),
            unit=found.unit,
            found_digest=look.digest,
            rejections=look.rejections,
            files=tuple(each.path for each in look.content.files) if look.content is not None else (),
            unsafe=(look.unsafe.reason, look.unsafe.remedy) if look.unsafe is not None else None,
            permissions=manifest.permissions.as_json() if manifest is not None else {},
        )
        return Placing(self, look, goal, configuration).goal()

    def _record_now(self, entries: list[tuple[str, str, str]], in_use: frozenset[str]) -> None:
        at = {name: unit for unit, name in self._names.items()}
        self._served.record(entries, {name: at[name] for name, _, _ in entries if name in at})
        for name, _, _ in entries:
            look = self._looks.get(at.get(name, ""))
            if look is not None and look.found.origin is Origin.ENTRY_POINT:
                self._imported.setdefault(look.found.unit, look.found)
        configuration = self._configuration
        if configuration is None:
            return
        held = {look.content.digest for look in self._looks.values() if look.content is not None}
        trusted = {entry.digest for entry in configuration.plugins.trusted.values() if entry.digest}
        kept = self._served.keep(configuration.plugins.kept_contents)
        recorded = {digest for _, digest, _ in entries}
        self._contents.sweep(in_use | held | trusted | kept | recorded | self._grants.current.digests())

    def content_of(self, goal: Goal) -> Content | None:
        """What the unit of a goal held in the last reading; None when it could not be taken."""
        look = self._looks.get(goal.unit)
        return look.content if look is not None else None

    def grants(self) -> Grants:
        return self._grants.current

    def last_good(self, name: str) -> str:
        served = self._served.last_good(name)
        return served.digest if served is not None else ""

    def has_content(self, digest: str) -> bool:
        return self._contents.get(digest) is not None

    def stored(self, digest: str, path: Path) -> tuple[Content, Manifest] | None:
        """A content that was served before, with its manifest; None when it is not there any more."""
        content = self._contents.get(digest)
        return None if content is None else (content, self._manifest(content, path))


def _is_older(fingerprint: Fingerprint, than_ns: int) -> bool:
    """Whether a file's last change of any kind lies before `than_ns`. True of a file that does not exist."""
    return all(max(int(mark[4]), int(mark[5])) < than_ns for mark in fingerprint)


def _label_name(found: Found) -> str:
    return (found.path.stem if found.path is not None else found.label).lower()


def _must_look_again(look: Look) -> bool:
    """A fault of the store, such as a full disk, can be gone though the unit is the same."""
    return bool(look.rejections) and look.content is None


def _named(rejections: Iterable[Rejection], name: str) -> tuple[Rejection, ...]:
    return tuple(each if each.name else replace(each, name=name) for each in rejections)


def _collision(look: Look, first: Look) -> Rejection:
    here, there = (str(each.found.path or each.found.label) for each in (look, first))
    return Rejection(
        look.name,
        f"the name {look.name!r} is taken by {there}, which was there first; {here} is refused",
        "rename one of them",
        here,
    )


def _placed(fault: Rejection, configuration: Configuration) -> Rejection:
    """A source's fault that lies in no file of its own lies where the operator named the source."""
    place_ = None if fault.file else configuration.place("plugins.entry_points")
    return fault if place_ is None else replace(fault, file=place_[0], line=place_[1], column=place_[2])


def _absent(scans: Iterable[Scan], configuration: Configuration) -> Iterable[Rejection]:
    """The plugin directories that somebody named and that do not exist; the usual one may be missing."""
    place_ = configuration.place("plugins.dirs")
    for root in [root for scan in scans for root in scan.roots]:
        if root.state is RootState.ABSENT and place_ is not None:
            reason = f"plugins.dirs: {root.path} does not exist; it is read as soon as it does"
            yield Rejection("plugins.dirs", reason, "make the folder, or take it out", *place_)


def _unmet(look: Look, goal: Goal) -> Iterable[Rejection]:
    """What a manifest asks for and this build does not do."""
    if look.manifest is not None and look.manifest.requirements and goal.run is not None:
        reason = "requirements: this build installs none; the code finds what the daemon's Python has"
        remedy = f"install {', '.join(look.manifest.requirements)} beside hermesd"
        yield Rejection(goal.name, reason, remedy, goal.path)


def _being_written(unit: str) -> Rejection:
    return Rejection(unit, "is being written just now; it is read when that has ended", file=unit)


def _unknown_names(configuration: Configuration, known: set[str]) -> Iterable[Rejection]:
    for section in ("trusted", "untrusted", "settings"):
        for name in getattr(configuration.plugins, section):
            if name not in known:
                place_ = configuration.place(f"plugins.{section}.{name}")
                file, line, column = place_ if place_ is not None else ("", 0, 0)
                reason = f"plugins.{section} speaks of {name!r}, and no source holds such a plugin"
                yield Rejection(name, reason, "correct the name, or add the plugin", file, line, column)
