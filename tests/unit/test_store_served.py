"""The history of what was served: bounded, the newest first, and there after a restart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermesd.clock import SystemClock
from hermesd.errors import StoreError
from hermesd.store.served import ServedStore


class Ticking:
    def __init__(self) -> None:
        self.at = datetime(2026, 11, 30, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "last-good.json"


@pytest.fixture
def store(path: Path) -> ServedStore:
    return ServedStore(path, Ticking(), history=3)


def test_the_last_good_content_survives_a_restart(store: ServedStore, path: Path) -> None:
    store.record([("orders", "sha256:1", "1.0.0"), ("文本", "sha256:2", "0.1.0")])
    again = ServedStore(path, Ticking())
    assert again.last_good("orders") == store.last_good("orders")
    assert again.plugins() == ("orders", "文本")
    assert again.last_good("nobody") is None


def test_history_is_newest_first_and_says_from_when_to_when(store: ServedStore) -> None:
    store.record([("orders", "sha256:1", "1.0.0")])
    store.record([("orders", "sha256:2", "1.1.0")])
    new, old = store.history("orders")
    assert (new.digest, old.digest) == ("sha256:2", "sha256:1")
    assert old.first_served < old.last_served == new.first_served


def test_a_content_that_returns_is_named_once_with_its_first_time(store: ServedStore) -> None:
    for digest in ("sha256:1", "sha256:2", "sha256:1"):
        store.record([("orders", digest, "1.0.0")])
    new, old = store.history("orders")
    assert (new.digest, old.digest) == ("sha256:1", "sha256:2")
    assert new.first_served < old.first_served


def test_history_is_bounded(store: ServedStore) -> None:
    for number in range(10):
        store.record([("orders", f"sha256:{number}", "1.0.0")])
    assert [each.digest for each in store.history("orders")] == ["sha256:9", "sha256:8", "sha256:7"]


def test_recording_what_serves_already_writes_nothing(store: ServedStore, path: Path) -> None:
    store.record([("orders", "sha256:1", "1.0.0")])
    inode = path.stat().st_ino
    store.record([("orders", "sha256:1", "1.0.0")])
    assert path.stat().st_ino == inode


def test_a_sweep_spares_the_newest_of_each_plugin(store: ServedStore) -> None:
    for number in range(3):
        store.record([("orders", f"sha256:{number}", "1"), ("text", f"sha256:t{number}", "1")])
    assert store.keep(2) == {"sha256:2", "sha256:1", "sha256:t2", "sha256:t1"}


@pytest.mark.parametrize(
    "text",
    ["{", '{"version": 1}', '{"version": 1, "plugins": {"a": [{}]}}', '{"version": 1, "plugins": [1]}'],
)
def test_a_damaged_file_is_an_error_never_empty(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(StoreError):
        ServedStore(path, Ticking())


def test_where_a_plugin_lay_when_it_served_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "last-good.json"
    store = ServedStore(path, SystemClock())
    odd = "/plugins/\udcff"
    store.record([("a", "sha256:1", "1"), ("b", "sha256:2", "1")], {"a": "/plugins/x", "b": odd})
    again = ServedStore(path, SystemClock())
    assert (again.name_of("/plugins/x"), again.name_of(odd), again.name_of("/plugins/y")) == ("a", "b", "")
    again.record([("c", "sha256:3", "1")], {"c": "/plugins/x"})
    assert ServedStore(path, SystemClock()).name_of("/plugins/x") == "c"
