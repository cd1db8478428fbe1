"""The catalogue: an immutable snapshot of every tool, replaced owner by owner in one swap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from hermesd.model.correct import Correction
from hermesd.model.definition import ToolDefinition
from hermesd.model.dependency import blocked_tools
from hermesd.model.schema import Schema
from hermesd.model.status import Standing, State
from hermesd.serving.instance import Instance


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool in the catalogue. Without an instance it is listed, and answers UNAVAILABLE with `fixed`."""

    definition: ToolDefinition
    plugin: str
    source: str
    since: datetime
    schema: Schema | None = None
    instance: Instance | None = None
    fixed: Standing | None = None
    corrections: tuple[Correction, ...] = ()
    returns: Schema | None = None

    def standing(self) -> Standing:
        """The tool's own state; the operator's switch and missing dependencies are the registry's."""
        if self.fixed is not None:
            return self.fixed
        if not self.definition.enabled:
            return Standing(
                State.DISABLED, self.since, "its definition says enabled: false", "enable it there"
            )
        assert self.instance is not None  # noqa: S101 - an entry has an instance or a fixed standing
        own = self.instance.standing()
        if self.instance.unmet and own.state is State.READY:
            return self.instance.unmet.get(self.definition.name, own)
        return own


Slice = Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Generation N: what every call, listing and edge reads, from one pointer."""

    generation: int
    slices: Mapping[str, Slice]
    tools: Mapping[str, Entry]
    blocked: Mapping[str, str]

    @classmethod
    def empty(cls) -> Catalogue:
        return cls(0, MappingProxyType({}), MappingProxyType({}), MappingProxyType({}))

    def find(self, name: str) -> Entry | None:
        return self.tools.get(name)

    def with_slices(self, changes: Mapping[str, Slice | None]) -> Catalogue:
        """The next generation: each owner's slice replaced, or removed where it is None.

        Raises ValueError when two owners claim one name: producers settle collisions before they commit.
        """
        slices = {owner: each for owner, each in self.slices.items() if owner not in changes}
        slices.update({owner: each for owner, each in changes.items() if each is not None})
        tools = _merged(slices.items())
        return Catalogue(
            self.generation + 1,
            MappingProxyType(slices),
            MappingProxyType(tools),
            MappingProxyType(
                blocked_tools({name: entry.definition.depends_on for name, entry in tools.items()})
            ),
        )


def _merged(slices: Iterable[tuple[str, Slice]]) -> dict[str, Entry]:
    tools: dict[str, Entry] = {}
    for owner, each in slices:
        for name, entry in each.items():
            if name in tools:
                raise ValueError(f"{name} is claimed by {tools[name].plugin} and {owner}")
            tools[name] = entry
    return dict(sorted(tools.items()))
