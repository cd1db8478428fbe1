"""What was served: per plugin the last good content and a bounded history, for restarts and rollbacks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from hermesd.clock import Clock
from hermesd.errors import StoreError
from hermesd.store.durable import read_json_object, write_atomic

VERSION = 1
HISTORY = 20


@dataclass(frozen=True, slots=True)
class Served:
    """One content that a plugin served. Times are RFC 3339, UTC."""

    digest: str
    version: str
    first_served: str
    last_served: str


class ServedStore:
    """`plugins/last-good.json`. Safe to use from several threads; every write is on disk when it returns."""

    def __init__(self, path: Path, clock: Clock, *, history: int = HISTORY) -> None:
        """Raises StoreError when the file is damaged or unreadable."""
        self._path, self._clock, self._bound = path, clock, history
        self._lock = threading.Lock()
        self._served, self._units = _read(path)
        #: The text of each history that was written: one plugin's change costs one plugin's encoding.
        self._texts: dict[str, tuple[tuple[Served, ...], str]] = {}

    def last_good(self, plugin: str) -> Served | None:
        """The content that this plugin served last, or None."""
        history = self._served.get(plugin, ())
        return history[0] if history else None

    def history(self, plugin: str) -> tuple[Served, ...]:
        """What this plugin served, the newest first, each digest once."""
        return self._served.get(plugin, ())

    def plugins(self) -> tuple[str, ...]:
        """Every plugin that ever served and was not forgotten, in name order."""
        return tuple(sorted(self._served))

    def name_of(self, unit: str) -> str:
        """The plugin that this unit (see `sources.source.Found`) was when it served last, or ""."""
        return next((plugin for plugin, each in self._units.items() if each == unit), "")

    def record(self, entries: Iterable[tuple[str, str, str]], units: Mapping[str, str] | None = None) -> None:
        """Note that each (plugin, digest, version) serves from now on. One write for all of them.

        `units` says where plugins lie, by name, so that one whose manifest cannot be read is still known
        after a restart. Nothing is written when each is the last good one already. Raises StoreError; the
        history is as it was then.
        """
        now = self._clock.now().isoformat(timespec="microseconds")
        with self._lock:
            served = dict(self._served)
            for plugin, digest, version in entries:
                history = served.get(plugin, ())
                if not history or (history[0].digest, history[0].version) != (digest, version):
                    served[plugin] = self._advance(history, digest, version, now)
            known = units or {}
            kept = {name: each for name, each in self._units.items() if each not in known.values()}
            self._replace(served, {**kept, **known})

    def keep(self, kept: int) -> frozenset[str]:
        """The digests of the `kept` newest contents of each plugin: what a sweep must spare."""
        served = self._served
        return frozenset(each.digest for history in served.values() for each in history[:kept])

    def _advance(
        self, history: tuple[Served, ...], digest: str, version: str, now: str
    ) -> tuple[Served, ...]:
        before = next((each for each in history if each.digest == digest), None)
        first = before.first_served if before is not None else now
        # The one that stops serving was served until now.
        ended = tuple(
            Served(each.digest, each.version, each.first_served, now) if index == 0 else each
            for index, each in enumerate(history)
        )
        rest = tuple(each for each in ended if each.digest != digest)
        return (Served(digest, version, first, now), *rest)[: self._bound]

    def _replace(self, served: Mapping[str, tuple[Served, ...]], units: Mapping[str, str]) -> None:
        if served == self._served and units == self._units:
            return
        write_atomic(self._path, self._document(served, units))
        self._served, self._units = dict(served), dict(units)

    def _document(self, served: Mapping[str, tuple[Served, ...]], units: Mapping[str, str]) -> bytes:
        """One line for each plugin, in name order."""
        texts = {}
        for name, history in sorted(served.items()):
            known = self._texts.get(name)
            if known is None or known[0] is not history:
                known = (history, _line(name, history))
            texts[name] = known
        self._texts = texts
        lines = ",\n".join(text for _, text in texts.values())
        places = json.dumps(units, sort_keys=True)  # ASCII: a path may hold bytes that are no text
        return f'{{"version": {VERSION}, "units": {places}, "plugins": {{\n{lines}\n}}}}\n'.encode()


def _line(name: str, history: tuple[Served, ...]) -> str:
    contents = json.dumps([asdict(each) for each in history], ensure_ascii=False, sort_keys=True)
    return f"{json.dumps(name, ensure_ascii=False)}: {contents}"


def _read(path: Path) -> tuple[dict[str, tuple[Served, ...]], dict[str, str]]:
    value = read_json_object(path, version=VERSION)
    if value is None:
        return {}, {}
    try:
        plugins = cast("dict[str, list[dict[str, str]]]", value["plugins"])
        served = {
            name: tuple(
                Served(each["digest"], each["version"], each["first_served"], each["last_served"])
                for each in history
            )
            for name, history in plugins.items()
        }
        return served, dict(cast("dict[str, str]", value.get("units", {})))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path} is damaged: {error!r}", remedy=f"move {path} away to start without the history"
        ) from error
