"""The content store: one digest, one content, whole or absent."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.errors import StoreError
from hermesd.store import content as module
from hermesd.store.content import Content, ContentFile, ContentStore, UnsettledError, content_digest


def folder(path: Path, **files: str) -> Path:
    for name, text in {"plugin.yaml": "name: orders\n", **files}.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return path


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path / "data" / "plugins")


def test_what_was_added_is_found_by_its_digest(store: ContentStore, tmp_path: Path) -> None:
    added = store.add(folder(tmp_path / "orders", main="x"))
    assert store.get(added.digest) == added
    assert (added.root / "plugin.yaml").read_text() == "name: orders\n"
    assert added.root == tmp_path / "data" / "plugins" / added.digest.removeprefix("sha256:")
    assert store.verify(added.digest)


def test_equal_contents_have_one_digest_wherever_they_lie(store: ContentStore, tmp_path: Path) -> None:
    first = store.add(folder(tmp_path / "a"))
    second = store.add(folder(tmp_path / "b"))
    assert first == second
    assert len(os.listdir(tmp_path / "data" / "plugins")) == 1


@pytest.mark.parametrize(
    "other",
    [
        ContentFile("b.py", 1, "aa"),
        ContentFile("a.py", 1, "bb"),
        ContentFile("a.py", 1, "aa", executable=True),
    ],
)
def test_path_bytes_and_executable_bit_make_the_digest(other: ContentFile) -> None:
    assert content_digest([ContentFile("a.py", 1, "aa")]) != content_digest([other])


@given(st.lists(st.tuples(st.text(max_size=5), st.text("ab", max_size=3), st.booleans()), max_size=4))
def test_different_lists_of_files_never_share_a_digest(entries: list[tuple[str, str, bool]]) -> None:
    files = [ContentFile(path, 0, digest, executable) for path, digest, executable in entries]
    for index in range(len(files)):
        assert content_digest(files) != content_digest(files[:index] + files[index + 1 :])


def test_stored_files_are_read_only_and_readable_by_a_container(store: ContentStore, tmp_path: Path) -> None:
    source = folder(tmp_path / "orders", **{"lib/a.py": "a"})
    (source / "lib" / "a.py").chmod(0o700)
    added = store.add(source)
    modes = {
        name: stat.S_IMODE((added.root / name).stat().st_mode)
        for name in (".", "lib", "lib/a.py", "plugin.yaml")
    }
    assert modes == {".": 0o555, "lib": 0o555, "lib/a.py": 0o555, "plugin.yaml": 0o444}


def test_a_content_that_is_there_is_not_written_again(store: ContentStore, tmp_path: Path) -> None:
    source = folder(tmp_path / "orders")
    inode = store.add(source).root.stat().st_ino
    assert store.add(source).root.stat().st_ino == inode
    assert ContentStore(tmp_path / "data" / "plugins").add(source).root.stat().st_ino == inode


def test_a_large_content_is_streamed_and_found_again(
    store: ContentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPOOL_BYTES", 10)
    source = folder(tmp_path / "orders", big="x" * 1000)
    added = store.add(source)
    assert (added.root / "big").read_text() == "x" * 1000
    assert store.verify(added.digest)
    assert store.add(source) == added


def test_a_damaged_content_counts_as_absent_and_is_replaced(store: ContentStore, tmp_path: Path) -> None:
    source = folder(tmp_path / "orders")
    added = store.add(source)
    (added.root / "plugin.yaml").chmod(0o600)
    (added.root / "plugin.yaml").write_text("name: hacked\n")
    assert not store.verify(added.digest)
    assert store.get(added.digest) is None
    assert ContentStore(added.root.parent).get(added.digest) is None
    assert store.add(source) == added
    assert store.verify(added.digest)


def test_a_content_emptied_by_a_power_cut_is_replaced(store: ContentStore, tmp_path: Path) -> None:
    source = folder(tmp_path / "orders")
    added = store.add(source)
    (added.root / "plugin.yaml").chmod(0o600)
    (added.root / "plugin.yaml").write_text("")
    again = store.add(source)
    assert (again.root / "plugin.yaml").read_text() == "name: orders\n"


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "sha256:../../etc", "md5:" + "a" * 64, "sha256:" + "A" * 64]
)
def test_what_is_no_digest_is_never_a_path(store: ContentStore, digest: str) -> None:
    assert store.get(digest) is None
    assert not store.verify(digest)


def test_a_full_disk_leaves_nothing_and_says_so(
    store: ContentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_all", full)
    with pytest.raises(StoreError, match="No space left") as caught:
        store.add(folder(tmp_path / "orders"))
    assert "free space" in caught.value.remedy
    assert os.listdir(tmp_path / "data" / "plugins") == []


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    root = tmp_path / "plugins"
    left = root / ".incoming-0123" / "lib"
    left.mkdir(parents=True)
    (left / "a.py").write_text("half")
    left.chmod(0o555)
    (root / "last-good.json").write_text("{}")
    ContentStore(root)
    assert os.listdir(root) == ["last-good.json"]


def test_a_sweep_keeps_what_it_is_told_and_what_is_no_content(store: ContentStore, tmp_path: Path) -> None:
    one = store.add(folder(tmp_path / "a", x="1"))
    two = store.add(folder(tmp_path / "b", x="2"))
    (one.root.parent / "last-good.json").write_text("{}")
    assert store.sweep({one.digest}) == (two.digest,)
    assert store.get(two.digest) is None
    assert store.get(one.digest) == one
    assert sorted(os.listdir(one.root.parent)) == sorted([one.root.name, "last-good.json"])


def test_many_threads_adding_the_same_content_agree(store: ContentStore, tmp_path: Path) -> None:
    """dify-plugin-daemon#794: concurrent installs of one package."""
    source = folder(tmp_path / "orders", main="x" * 10_000)
    barrier = threading.Barrier(8)

    def add(_: int) -> Content:
        barrier.wait()
        return store.add(source)

    with ThreadPoolExecutor(8) as pool:
        assert len({each.digest for each in pool.map(add, range(8))}) == 1
    assert len(os.listdir(tmp_path / "data" / "plugins")) == 1


def test_a_plugin_that_changes_once_while_it_is_read_is_read_again(
    store: ContentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = module.capture, []

    def flaky(*arguments: object, **named: object) -> object:
        times.append(1)
        if len(times) == 1:
            raise UnsettledError("changed while it was read")
        return real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "capture", flaky)
    assert store.add(folder(tmp_path / "orders")).files


def test_a_plugin_that_never_stops_changing_is_unsettled(
    store: ContentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flaky(*_: object, **__: object) -> object:
        raise UnsettledError("changed while it was read")

    monkeypatch.setattr(module, "capture", flaky)
    with pytest.raises(UnsettledError):
        store.add(folder(tmp_path / "orders"))
