"""A reading makes anew only what follows from something new."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hermesd.config.configuration import Configuration
from hermesd.reload.reading import SourceReading
from hermesd.sources.source import Scan
from tests.reading_doubles import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as one that was left alone for long."""
    monkeypatch.setattr("hermesd.reload.reading.RACY_NS", -(10**15))


class Counting:
    """A reading that counts how often the configuration is loaded."""

    def __init__(self, site: Site, looked: tuple[Scan, ...] | None = None) -> None:
        self.site, self.loads = site, 0
        self.reading = SourceReading(
            load=self._load,
            sources=site.sources,
            contents=site.contents,
            grants=site.grants,
            served=site.served,
            executor=site.executor,
            unsettled=site._unsettled,
            state_dir=site.directory.state / "plugins",
            files=self._files,
            looked=lambda _: looked,
        )

    def _load(self) -> Configuration:
        self.loads += 1
        return self.site._load()

    def _files(self, configuration: Configuration) -> Sequence[Path]:
        return [self.site.path / "made-later.yaml", *configuration.watched]


@pytest.mark.usefixtures("rested")
def test_a_configuration_that_is_left_alone_is_loaded_until_that_is_known_and_then_kept(site: Site) -> None:
    counting = Counting(site)
    plans = [counting.reading.read_now() for _ in range(4)]
    assert counting.loads == 2
    assert plans[3].configuration is plans[1].configuration


@pytest.mark.usefixtures("rested")
def test_what_was_loaded_before_the_first_reading_is_taken_over(site: Site) -> None:
    counting = Counting(site)
    loaded = site._load()
    counting.reading.adopt(loaded, time.time_ns())
    assert counting.reading.read_now().configuration is loaded
    assert counting.loads == 0
    site.follow("orders")
    assert "orders" in counting.reading.read_now().configuration.plugins.trusted


def test_what_was_loaded_from_a_file_that_did_not_rest_is_loaded_again(site: Site) -> None:
    counting = Counting(site)
    loaded = site._load()
    site.follow("orders")
    counting.reading.adopt(loaded, time.time_ns())
    assert "orders" in counting.reading.read_now().configuration.plugins.trusted


@pytest.mark.usefixtures("rested")
def test_an_edit_of_the_configuration_is_read_however_small(site: Site) -> None:
    counting = Counting(site)
    for _ in range(3):
        counting.reading.read_now()
    status = site.config.stat()
    site.follow("orders")
    os.utime(site.config, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "orders" in counting.reading.read_now().configuration.plugins.trusted


@pytest.mark.usefixtures("rested")
def test_a_configuration_file_that_appears_is_read(site: Site) -> None:
    counting = Counting(site)
    for _ in range(3):
        counting.reading.read_now()
    before = counting.loads
    (site.path / "made-later.yaml").write_text("")
    counting.reading.read_now()
    assert counting.loads == before + 1


def test_a_configuration_that_was_changed_just_now_is_read_again(site: Site) -> None:
    """A second edit within one tick of the file system's clock leaves the same marks."""
    counting = Counting(site)
    for _ in range(3):
        counting.reading.read_now()
    assert counting.loads == 3


@pytest.mark.usefixtures("rested")
def test_the_goal_of_what_is_unchanged_is_kept_and_that_of_what_changed_is_new(site: Site) -> None:
    site.follow("a", "b")
    site.plugin("a")
    site.plugin("b")
    reading = Counting(site).reading
    for _ in range(2):
        reading.read_now()
    first = reading.read_now().goals
    site.plugin("b", "2")
    second = reading.read_now().goals
    assert second["a"] is first["a"]
    assert second["b"].run is not None
    assert first["b"].run is not None
    assert second["b"].run.key != first["b"].run.key


@pytest.mark.usefixtures("rested")
def test_a_decision_of_the_operator_makes_goals_anew(site: Site) -> None:
    site.follow("a")
    site.plugin("a")
    reading = Counting(site).reading
    for _ in range(3):
        reading.read_now()
    site.grants.set_plugin("a", enabled=False, by="test")
    assert reading.read_now().goals["a"].run is None


def test_a_scan_that_was_just_made_is_not_made_again(site: Site) -> None:
    site.plugin("a")
    scans = tuple(source.scan() for source in site.sources(site._load()))
    site.plugin("b")
    assert set(Counting(site, scans).reading.read_now().goals) == {"a"}
