"""Which file events are worth a look, and that renewing the watches leaks nothing."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from watchdog.events import (
    DirDeletedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
)
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyObserver

from hermesd.reload import hint as module
from hermesd.reload.hint import Event, Hints, _Handler


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "real" / "orders").mkdir(parents=True)
    (tmp_path / "plugins").symlink_to("real")
    return tmp_path / "plugins"


def made_of(root: Path, event: FileSystemEvent) -> list[Event]:
    taken = list[Event]()

    def put(events: Sequence[Event]) -> None:
        taken.extend(events)

    excluded = (f"{root.parent / 'real' / 'data'}/",)
    _Handler(put, [root], [root.parent / "etc" / "hermesd.yaml"], excluded).dispatch(event)
    return taken


def test_events_are_told_at_the_path_that_the_configuration_spells(root: Path) -> None:
    real = root.parent / "real" / "orders" / "a.py"
    for event, kind in (
        (FileModifiedEvent(str(real)), "modified"),
        (FileClosedEvent(str(real)), "closed"),
        (FileCreatedEvent(str(real)), "created"),
        (FileAttribEvent(str(real)), "other"),
        (DirDeletedEvent(str(real)), "gone"),
    ):
        assert made_of(root, event) == [Event(kind, str(root / "orders" / "a.py"))]  # type: ignore[arg-type]


def test_a_rename_ends_both_names(root: Path) -> None:
    folder = root.parent / "real" / "orders"
    assert made_of(root, FileMovedEvent(str(folder / "a"), str(folder / "b"))) == [
        Event("gone", str(root / "orders" / "a")),
        Event("gone", str(root / "orders" / "b")),
    ]


def test_ignored_names_make_a_look_but_hold_nothing(root: Path) -> None:
    path = root.parent / "real" / "orders" / ".a.py.swp"
    assert [each.kind for each in made_of(root, FileModifiedEvent(str(path)))] == ["other"]


@pytest.mark.parametrize("place", ["real/data", "real/data/state/grants.json", "elsewhere", "other/file", ""])
def test_what_concerns_nobody_is_dropped(root: Path, place: str) -> None:
    assert made_of(root, FileModifiedEvent(str(root.parent / "x" / ".." / place) + "/x")) == []
    if place.startswith("real/data"):
        assert made_of(root, FileModifiedEvent(str(root.parent / place))) == []


def test_the_root_its_link_and_the_folders_above_are_worth_a_look(root: Path) -> None:
    for path in (root, root.parent / "real", root.parent):
        assert [each.kind for each in made_of(root, DirDeletedEvent(str(path)))] == ["other"]


def test_a_neighbour_of_a_configuration_file_is_worth_a_look(root: Path) -> None:
    path = str(root.parent / "etc" / "..data")
    assert made_of(root, FileMovedEvent(path + "_tmp", path))[1] == Event("gone", path)


def test_a_log_that_grows_beside_the_configuration_is_not_worth_a_look(root: Path) -> None:
    etc = root.parent / "etc"
    assert made_of(root, FileModifiedEvent(str(etc / "hermesd.log"))) == []
    assert made_of(root, FileModifiedEvent(str(etc / "hermesd.yaml"))) != []
    assert made_of(root, FileClosedEvent(str(etc / "more.yaml"))) != []
    assert made_of(root, FileCreatedEvent(str(etc / "anything"))) != []


@pytest.fixture
def flat() -> Iterator[None]:
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    yield
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.usefixtures("flat")
def test_renewing_again_and_again_leaks_nothing(root: Path) -> None:
    hints = Hints(lambda: None)
    for _ in range(20):
        assert hints.renew([root], [root.parent / "hermesd.yaml"], force=True) is None
    count = threading.active_count()
    assert hints.renew([root], [root.parent / "hermesd.yaml"]) is None
    assert threading.active_count() == count
    hints.close()
    hints.close()


@pytest.mark.usefixtures("flat")
def test_a_failed_renewal_leaks_nothing_and_names_the_limit(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(self: BaseObserver) -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr(InotifyObserver, "on_thread_start", refusing)
    hints = Hints(lambda: None)
    for _ in range(5):
        assert "max_user_watches" in (hints.renew([root], []) or "")
    hints.close()


def test_folders_made_faster_than_they_are_watched_end_no_thread(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`mkdir -p` is found twice, by a walk and by its events; warnings are errors here."""
    hints = Hints(lambda: None)
    hints.renew([root], [])
    for _ in range(60):
        os.makedirs(root / "a" / "b" / "c" / "d")
        shutil.rmtree(root / "a")
    assert hints._is_alive()
    hints.close()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_who_listens_is_told_once_until_it_takes(root: Path) -> None:
    told = list[int]()
    hints = Hints(lambda: told.append(1))
    hints._put([Event("other", "/a")])
    hints._put([Event("other", "/b")])
    assert told == [1]
    assert hints.take() == [Event("other", "/a"), Event("other", "/b")]
    hints._put([Event("other", "/c")])
    assert told == [1, 1]
    hints.close()
    hints.take()
    hints._put([Event("other", "/d")])
    assert told == [1, 1]


def test_what_nobody_takes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 10)
    hints = Hints(lambda: None)
    for number in range(1000):
        hints._put([Event("other", f"/{number}")])
    kept = hints.take()
    assert len(kept) <= 11
    assert kept[-1] == Event("other", "/999")
