"""From files and environment to a Configuration, or a ConfigError that lists every fault.

A pure function of both: nothing is written, started or remembered, so that a failed reading changes nothing.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermesd.config import places
from hermesd.config.build import build, cross_faults, cross_warnings
from hermesd.config.check import MAX_FAULTS, Check, Checked
from hermesd.config.configuration import Configuration
from hermesd.config.document import MAX_BYTES, Document, read_document
from hermesd.config.effective import dotted
from hermesd.config.fault import printable
from hermesd.config.interpolation import Interpolation
from hermesd.config.kind import KeyFault, PathParts, describe
from hermesd.config.merge import Loaded, Merged
from hermesd.config.origin import Origins
from hermesd.config.table import TABLE
from hermesd.config.text_file import read_bounded, trouble
from hermesd.errors import ConfigError, Rejection

MAX_FILES = 1000


def find_config(explicit: Path | None, environ: Mapping[str, str], is_root: bool) -> Path | None:
    """The file to read: a named one whether or not it exists, else the first that does, else None."""
    candidates = places.config_path(explicit, environ, is_root)
    if places.is_config_named(explicit, environ):
        return candidates[0]
    return next((path for path in candidates if os.path.lexists(path)), None)


def load_configuration(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
    held: Callable[[Path], bytes | None] = lambda _: None,
) -> Configuration:
    """Read `path` and what it includes; None: the built-in defaults. Raises ConfigError with every fault.

    `overrides` are dotted keys of the command line; their paths are relative to the working folder.
    `defaults` are dotted keys that hold where nobody says anything, because they depend on the environment.
    `held` answers for files of `${file:PATH}` whose content was taken before.
    """
    reading = _Reading(environ, held)
    if path is not None:
        reading.read(path if path.is_absolute() else _working_folder() / path, ())
    merged = Merged(TABLE)
    for loaded in reading.loaded:
        merged.add(loaded)
    _raise(reading.faults + merged.faults)
    for key, value in (defaults or {}).items():
        if not _is_set(merged.value, tuple(key.split("."))):
            _override(merged, tuple(key.split(".")), value)
    overridden = frozenset(tuple(key.split(".")) for key in overrides or {})
    for key, value in (overrides or {}).items():
        _override(merged, tuple(key.split(".")), value)

    def base_of(at: PathParts) -> Path:
        owner = None if _is_below(at, overridden) else merged.owner(at)
        return owner[0].path.parent if owner else _working_folder()

    checked = Check(base_of).run(TABLE.root, merged.value)
    if not checked.faults:
        checked.faults.extend(cross_faults(checked.tree))
        checked.warnings.extend(cross_warnings(checked.tree))
    _raise(_rejections(checked.faults, merged, overridden))
    return _configuration(reading, merged, checked, overridden)


def _configuration(
    reading: _Reading, merged: Merged, checked: Checked, overridden: frozenset[PathParts]
) -> Configuration:
    origins = Origins(TABLE, merged, checked.tree, frozenset(checked.secret), overridden)
    files = tuple(loaded.path for loaded in reading.loaded)
    return build(
        checked.tree,
        warnings=(*reading.warnings, *_rejections(checked.warnings, merged, overridden)),
        files=files,
        watched=(*files, *reading.referenced),
        include_globs=tuple(reading.globs),
        origins=origins,
    )


@dataclass(slots=True)
class _Reading:
    """The files read so far, in the order in which they are merged."""

    environ: Mapping[str, str]
    held: Callable[[Path], bytes | None]
    loaded: list[Loaded] = field(default_factory=list)
    faults: list[Rejection] = field(default_factory=list)
    warnings: list[Rejection] = field(default_factory=list)
    referenced: list[Path] = field(default_factory=list)
    globs: list[str] = field(default_factory=list)
    seen: dict[str, tuple[Loaded, int]] = field(default_factory=dict)

    def read(self, path: Path, above: tuple[str, ...]) -> None:
        """Read one file and then what it includes; `above` are the files that led here."""
        try:
            data = read_bounded(path, MAX_BYTES)
            document = read_document(data, str(path))
        except ConfigError as error:
            self.faults.extend(error.rejections)
            return
        except (OSError, ValueError) as error:
            reason = f"the configuration file {trouble(error)}"
            remedy = "fix the path or its permissions; without a file the built-in defaults hold"
            self.faults.append(Rejection(str(path), reason, remedy, str(path)))
            return
        value = self._mapping(document, path)
        if value is not None:
            loaded = Loaded(path, document, value)
            self.loaded.append(loaded)
            self._include(loaded, (*above, os.path.realpath(path)))

    def _mapping(self, document: Document, path: Path) -> Mapping[str, object] | None:
        interpolation = Interpolation(self.environ, path.parent, self.held)
        value = interpolation.apply(document.value)
        self.referenced.extend(interpolation.files)
        for at, problem, remedy in interpolation.faults:
            self._fault(Loaded(path, document, {}), at, printable(f"{dotted(at)}: {problem}"), remedy)
        if value is None:
            reason = "the configuration file is empty; nothing in it is set"
            self.warnings.append(Rejection(str(path), reason, "write keys, or remove it", str(path), 1, 1))
            return {}
        if not isinstance(value, dict):
            reason = f"the configuration must be a mapping of keys, not {describe(value)}"
            self.faults.append(Rejection(str(path), reason, "write for example server:", str(path), 1, 1))
            return None
        return value

    def _include(self, loaded: Loaded, above: tuple[str, ...]) -> None:
        entries = loaded.value.get("include")
        if entries is None:
            return
        if not isinstance(entries, list):
            self._fault(loaded, ("include",), "include: expected a list of files", 'write ["conf.d/*.yaml"]')
            return
        for index, entry in enumerate(entries):
            if not isinstance(entry, str) or not entry or "\0" in entry:
                self._fault(loaded, ("include", index), "include: expected a path", "write a file or glob")
                continue
            for path in self._matches(loaded, index, entry):
                self._enter(loaded, index, path, above)

    def _matches(self, loaded: Loaded, index: int, entry: str) -> Iterable[Path]:
        base = loaded.path.parent
        if not glob.has_magic(entry):
            return [base / entry]
        self.globs.append(os.path.join(glob.escape(str(base)), entry))
        found = sorted(glob.glob(entry, root_dir=base))
        if len(found) > MAX_FILES:
            self._fault(loaded, ("include", index), f"include: more than {MAX_FILES} files", "merge them")
            return []
        return [base / each for each in found]

    def _enter(self, loaded: Loaded, index: int, path: Path, above: tuple[str, ...]) -> None:
        real = os.path.realpath(path)
        if real in above:
            self._fault(loaded, ("include", index), f"include: {path} includes itself", "break the cycle")
        elif real in self.seen:
            first, position = self.seen[real]
            place = first.place(("include", position))
            reason = f"include: {path} is included twice, first at {place}"
            self._fault(loaded, ("include", index), reason, "include it once")
        elif len(self.seen) >= MAX_FILES:
            self._fault(loaded, ("include", index), f"include: more than {MAX_FILES} files", "merge them")
        else:
            self.seen[real] = (loaded, index)
            self.read(Path(os.path.normpath(path)), above)

    def _fault(self, loaded: Loaded, at: PathParts, reason: str, remedy: str) -> None:
        self.faults.append(Rejection(dotted(at), reason, remedy, *loaded.place(at)))


def _override(merged: Merged, path: PathParts, value: object) -> None:
    """Put a value of the command line over what the files say."""
    node = merged.value
    for part in path[:-1]:
        below = node.get(str(part))
        if not isinstance(below, dict):
            below = node[str(part)] = {}
        node = below
    node[str(path[-1])] = list(value) if isinstance(value, tuple) else value


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        reason = f"the working folder {trouble(error)}"
        raise ConfigError([Rejection("working folder", reason, "give absolute paths")]) from None


def _is_set(node: object, path: PathParts) -> bool:
    for part in path:
        if not isinstance(node, Mapping) or part not in node:
            return False
        node = node[part]
    return True


def _is_below(path: PathParts, tops: frozenset[PathParts]) -> bool:
    return any(path[:end] in tops for end in range(1, len(path) + 1))


def _rejections(faults: list[KeyFault], merged: Merged, overridden: frozenset[PathParts]) -> list[Rejection]:
    found = []
    for fault in faults[:MAX_FAULTS]:
        name = dotted(fault.path)
        reason = fault.problem if fault.problem.startswith(name) else f"{name}: {fault.problem}"
        reason = printable(reason)
        if _is_below(fault.path, overridden):
            found.append(Rejection(name, f"{reason} (on the command line)", fault.remedy))
        else:
            place = merged.place(fault.path)
            found.append(Rejection(name, reason, fault.remedy, *(place or ())))
    if len(faults) > MAX_FAULTS:
        more = f"and {len(faults) - MAX_FAULTS} more"
        found.append(Rejection("configuration", more, "fix those above first"))
    return found


def _raise(faults: list[Rejection]) -> None:
    if faults:
        raise ConfigError(faults[: MAX_FAULTS + 1])
