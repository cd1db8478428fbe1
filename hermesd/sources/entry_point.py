"""Installed packages that offer plugins through the entry point group `hermesd`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Literal

from hermesd.errors import Rejection
from hermesd.sources.source import Found, Origin, Scan

GROUP = "hermesd"


def normalised(distribution: str) -> str:
    """A distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _installed() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


class EntryPointSource:
    """Entry points of installed distributions; only those that the operator named are enabled.

    Looking imports nothing. An installed package loads once a process: when its version changed since
    it was loaded, its fingerprint differs and the daemon must be restarted to serve it.
    """

    def __init__(
        self,
        named: Sequence[str] | Literal[True],
        *,
        installed: Callable[[], Iterable[EntryPoint]] = _installed,
    ) -> None:
        self._named = named if named is True else frozenset(normalised(each) for each in named)
        self._installed = installed

    def scan(self) -> Scan:
        """Every entry point, by distribution and name. A named distribution that has none is a fault."""
        try:
            points = list(self._installed())
        except (OSError, ValueError, KeyError) as error:
            return Scan(faults=(Rejection("entry points", f"installed packages cannot be read: {error}"),))
        found = {each.unit: each for each in map(self._found, points) if each is not None}
        faults = () if self._named is True else self._missing(found.values(), self._named)
        return Scan(tuple(found[unit] for unit in sorted(found)), tuple(faults))

    def _found(self, point: EntryPoint) -> Found | None:
        if point.dist is None:  # an entry point outside a distribution: nobody could name it
            return None
        distribution = normalised(point.dist.name)
        enabled = self._named is True or distribution in self._named
        return Found(
            unit=f"entry_point:{distribution}:{point.name}",
            label=f"{distribution} {point.dist.version} ({point.value})",
            origin=Origin.ENTRY_POINT,
            path=None,
            fingerprint=(distribution, point.dist.version, point.name, point.value),
            enabled=enabled,
            remedy="" if enabled else f"add {distribution!r} to plugins.entry_points and reload",
            distribution=distribution,
            version=point.dist.version,
            entry_point=point.name,
            reference=point.value,
        )

    def _missing(self, found: Iterable[Found], named: frozenset[str]) -> tuple[Rejection, ...]:
        there = {each.distribution for each in found}
        return tuple(
            Rejection(
                each,
                f"plugins.entry_points names {each!r}, which is not installed or offers no {GROUP} plugin",
                f"install {each} into the daemon's environment, or take it out of plugins.entry_points",
            )
            for each in sorted(named - there)
        )
