"""The one pointer to the current catalogue, who watches it, and the operator's switches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from hermesd.errors import FellBehindError
from hermesd.model.status import Standing, State
from hermesd.serving.catalogue import Catalogue, Entry, Slice

KEPT_CHANGES = 10_000
ChangeKind = Literal["added", "changed", "removed", "state"]


@dataclass(frozen=True, slots=True)
class ToolChange:
    """One change of one tool, in the order in which it took effect.

    `roles` and `roles_before`: for which agents the tool is and was there; None where it was not.
    """

    seq: int
    kind: ChangeKind
    name: str
    generation: int
    roles: tuple[str, ...] | None = ()
    roles_before: tuple[str, ...] | None = ()


class Registry:
    """Holds the current generation. Readers take `catalogue` once and use it for the whole request.

    All methods belong to the event loop's thread.
    """

    def __init__(self) -> None:
        self._catalogue = Catalogue.empty()
        self._troubles: dict[str, Standing] = {}
        self._switched_off: dict[str, datetime] = {}
        self._changes: deque[ToolChange] = deque(maxlen=KEPT_CHANGES)
        self._seq = 0
        self._changed = asyncio.Event()

    @property
    def catalogue(self) -> Catalogue:
        return self._catalogue

    def commit(self, changes: Mapping[str, Slice | None]) -> Catalogue:
        """Swap in the next generation: every owner in `changes` at once, or none (ValueError)."""
        before = self._catalogue
        after = before.with_slices(changes)
        self._catalogue = after
        for owner in changes:
            old, new = before.slices.get(owner, {}), after.slices.get(owner, {})
            for name in sorted(old.keys() | new.keys()):
                if (kind := _kind(old.get(name), new.get(name))) is not None:
                    self._announce(kind, name, _roles(old.get(name)))
        for name in sorted(before.blocked.keys() ^ after.blocked.keys()):
            if name in before.tools and name in after.tools:
                self._announce("state", name)
        self._wake()
        return after

    def standing(self, entry: Entry) -> Standing:
        """The whole truth about one tool's state, and what can be done about it."""
        name = entry.definition.name
        if (since := self._switched_off.get(name)) is not None:
            remedy = f"hermesd ctl tools enable {name}"
            return Standing(State.DISABLED, since, "switched off by the operator", remedy)
        own = entry.standing()
        if own.state is State.READY and (reason := self._catalogue.blocked.get(name)) is not None:
            return Standing(State.UNAVAILABLE, entry.since, f"{name} {reason}", "add what is missing")
        if self._troubles and own.state is State.READY:
            return self._troubles.get(name) or self._troubles.get(entry.plugin) or own
        return own

    def trouble_of(self, name: str) -> Standing | None:
        """What `set_trouble` said of it."""
        return self._troubles.get(name)

    def set_trouble(self, name: str, trouble: Standing | None) -> None:
        """A tool, or all tools of a plugin, are degraded for this reason; None: no more.

        `name` is a tool's or a plugin's: only the first has a dot.
        """
        if self._troubles.get(name) == trouble:
            return
        if trouble is None:
            del self._troubles[name]
        else:
            self._troubles[name] = trouble
        for tool in sorted(self._catalogue.slices.get(name, ())) or [name]:
            if tool in self._catalogue.tools:
                self._announce("state", tool)
        self._wake()

    def switch_off(self, names: Mapping[str, datetime]) -> None:
        """The operator's switches as a whole: these tools are off since then, all others on."""
        changed = self._switched_off.keys() ^ names.keys()
        self._switched_off = dict(names)
        for name in sorted(changed):
            if name in self._catalogue.tools:
                self._announce("state", name)
        self._wake()

    def state_changed(self, plugin: str) -> None:
        """A runtime says that the standing of its tools may have changed."""
        for name, entry in self._catalogue.slices.get(plugin, {}).items():
            self.standing(entry)  # now, and not when somebody asks: `since` is when it happened
            self._announce("state", name)
        self._wake()

    def watch(self, after_seq: int | None = None) -> AsyncIterator[ToolChange]:
        """Changes after `after_seq` (None: after this moment), for ever.

        The iterator raises FellBehindError when what it owes is no longer kept.
        """
        return self._follow(self._seq if after_seq is None else after_seq)

    @property
    def last_seq(self) -> int:
        """The number of the newest change; 0 before the first."""
        return self._seq

    async def _follow(self, position: int) -> AsyncIterator[ToolChange]:
        while True:
            changed = self._changed
            oldest = self._seq - len(self._changes)
            if not oldest <= position <= self._seq:
                raise FellBehindError(
                    f"changes after {position} are not kept (only from {oldest} to {self._seq})",
                    remedy="list the tools, then watch without after_seq",
                )
            for change in [each for each in self._changes if each.seq > position]:
                position = change.seq
                yield change
            if position == self._seq:
                await changed.wait()

    def _announce(self, kind: ChangeKind, name: str, before: tuple[str, ...] | None = None) -> None:
        self._seq += 1
        now = _roles(self._catalogue.find(name))
        before = now if kind == "state" else before
        self._changes.append(ToolChange(self._seq, kind, name, self._catalogue.generation, now, before))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _roles(entry: Entry | None) -> tuple[str, ...] | None:
    return None if entry is None else entry.definition.roles


def _kind(old: Entry | None, new: Entry | None) -> ChangeKind | None:
    if old is None:
        return "added"
    if new is None:
        return "removed"
    if old.definition.digest != new.definition.digest or old.definition.version != new.definition.version:
        return "changed"
    was, now = old.standing(), new.standing()
    return "state" if (was.state, was.reason) != (now.state, now.reason) else None
