"""Installed packages are imported once a process: what is installed later waits for a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import pytest

from hermesd.config.configuration import Configuration
from hermesd.sources.entry_point import EntryPointSource
from tests.reading_doubles import Site


class Installation(Site):
    """A site whose plugins are installed packages."""

    points: list[EntryPoint]

    def install(self, version: str, point: str = "acme") -> None:
        info = self.plugins.parent / f"acme-{version}-{point}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[hermesd]\n{point} = acme.tools\n")
        self.points = list(Distribution.at(info).entry_points)

    def sources(self, configuration: Configuration) -> tuple[EntryPointSource]:  # type: ignore[override]
        named = configuration.plugins.entry_points
        return (EntryPointSource(named, installed=lambda: self.points),)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path)
    made.configure(entry_points=["acme"])
    yield made
    made.executor.shutdown()


@pytest.mark.promise("SEE-12")
def test_another_version_of_an_imported_package_waits_for_a_restart(site: Installation) -> None:
    site.install("1.0")
    run = site.goal("acme").run
    assert run is not None
    asyncio.run(site.reading.record([run], ()))

    site.install("2.0")
    for _ in range(2):
        waiting = site.goal("acme")
        assert waiting.run is not None
        assert (waiting.run.key, waiting.version) == (run.key, "1.0")
        assert waiting.awaiting is not None
        assert waiting.awaiting[0] == "restart required: 2.0 is installed, 1.0 is loaded"

    site.install("1.0")
    assert site.goal("acme").awaiting is None

    site.install("2.0")
    site.restart()
    fresh = site.goal("acme")
    assert (fresh.version, fresh.awaiting) == ("2.0", None)


def test_what_never_served_was_not_imported_and_needs_no_restart(site: Installation) -> None:
    site.install("1.0")
    site.goal("acme")
    site.install("2.0")
    assert (site.goal("acme").version, site.goal("acme").awaiting) == ("2.0", None)


def test_an_entry_point_may_not_take_a_name_of_the_daemon(site: Installation) -> None:
    site.install("1.0", point="memory")
    goal = site.goal("memory")
    assert goal.run is None
    assert "daemon's own" in goal.rejections[0].reason
