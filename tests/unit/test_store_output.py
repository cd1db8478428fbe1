"""What calls leave behind on the disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hermesd.errors import StoreError
from hermesd.store.output import MIB, OutputStore
from tests.core_doubles import SetClock

pytestmark = pytest.mark.promise("OUT-4")


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def store(tmp_path: Path, clock: SetClock) -> OutputStore:
    made = OutputStore(tmp_path / "output", clock, max_bytes=MIB, keep_s=60)
    made.open()
    return made


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "output").iterdir())


def reopened(tmp_path: Path, clock: SetClock) -> OutputStore:
    store = OutputStore(tmp_path / "output", clock, max_bytes=MIB, keep_s=60)
    store.open()
    return store


def test_a_text_is_read_back_in_pieces_by_another_daemon(tmp_path: Path, store: OutputStore, clock: SetClock):
    store.write("output", "agent:a", "r/../1", data='"数据"', content="[]", about={"tool": "a.b"})
    again = reopened(tmp_path, clock)
    kept = again.find("output", "agent:a", "r/../1")
    assert kept is not None
    assert kept.sizes == (8, 2)
    assert again.read(kept, "data", 0, 100).decode() == '"数据"'
    assert again.read(kept, "data", 1, 3).decode() == "数"
    assert again.read(kept, "data", 8, 3) == b""
    assert again.read(kept, "content", 0, 100) == b"[]"


def test_nobody_but_the_daemon_may_read_the_files(tmp_path: Path, store: OutputStore):
    store.write("output", "agent:a", "r", data="1")
    assert stat.S_IMODE(os.stat(tmp_path / "output").st_mode) == 0o700
    assert [stat.S_IMODE(each.stat().st_mode) for each in files(tmp_path)] == [0o600]


def test_one_id_of_two_owners_is_two_outputs(store: OutputStore):
    store.write("output", "agent:a", "r", data="1")
    store.write("output", "agent:b", "r", data="22")
    store.write("call", "agent:b", "r", data="333")
    found = [store.find(*each) for each in (("output", "agent:a", "r"), ("output", "agent:b", "r"))]
    assert [each.sizes[0] for each in found if each] == [1, 2]
    assert store.find("output", "agent:c", "r") is None
    assert {each.owner for each in store.owners("output", "r")} == {"agent:a", "agent:b"}


def test_it_expires_and_is_swept(tmp_path: Path, store: OutputStore, clock: SetClock):
    store.write("output", "agent:a", "r", data="1")
    clock.at += 59
    assert store.find("output", "agent:a", "r") is not None
    clock.at += 2
    assert store.find("output", "agent:a", "r") is None
    assert store.owners("output", "r") == []
    assert store.sweep() == 1
    assert files(tmp_path) == []
    assert store.size == 0


def test_what_expired_while_no_daemon_ran_is_gone(tmp_path: Path, store: OutputStore, clock: SetClock):
    store.write("output", "agent:a", "r", data="1")
    clock.at += 61
    assert reopened(tmp_path, clock).find("output", "agent:a", "r") is None
    assert files(tmp_path) == []


def test_a_lasting_one_does_not_expire_until_it_is_written_anew(
    tmp_path: Path, store: OutputStore, clock: SetClock
):
    store.write("call", "agent:a", "r", lasting=True)
    clock.at += 10_000
    again = OutputStore(tmp_path / "output", clock, keep_s=60)
    assert [each.request_id for each in again.open()] == ["r"]
    again.write("call", "agent:a", "r", data="1")
    clock.at += 61
    assert again.find("call", "agent:a", "r") is None


@pytest.mark.promise("OUT-6")
def test_the_oldest_make_room(tmp_path: Path, store: OutputStore, clock: SetClock):
    for each in range(5):
        clock.at += 1
        store.write("output", "agent:a", f"r{each}", data="x" * (300 * 1024))
    left = [each for each in range(5) if store.find("output", "agent:a", f"r{each}")]
    assert left == [2, 3, 4]
    on_disk = sum(each.stat().st_size for each in files(tmp_path))
    assert on_disk == store.size <= MIB
    assert reopened(tmp_path, clock).size == on_disk


@pytest.mark.promise("OUT-6")
def test_one_that_is_larger_than_all_may_be_drops_nothing_else(store: OutputStore):
    store.write("output", "agent:a", "r", data="1")
    with pytest.raises(StoreError, match="more than all kept outputs"):
        store.write("output", "agent:a", "big", data="x" * (2 * MIB))
    assert store.find("output", "agent:a", "r") is not None


def test_writing_anew_counts_once(store: OutputStore):
    for size in (10, 1000, 100):
        kept = store.write("output", "agent:a", "r", data="x" * size)
        assert store.size == kept.total


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"\x00\xff\n", b'{"version":1}\n', b'{"version":9}\nabc', b"[]\n"]
)
def test_a_damaged_file_is_as_if_it_were_not_there(
    tmp_path: Path, store: OutputStore, clock: SetClock, damage: bytes
):
    store.write("output", "agent:a", "r", data="1")
    files(tmp_path)[0].write_bytes(damage)
    again = reopened(tmp_path, clock)
    assert again.find("output", "agent:a", "r") is None
    assert files(tmp_path) == []


def test_a_file_that_was_cut_or_swapped_is_not_read(tmp_path: Path, store: OutputStore, clock: SetClock):
    store.write("output", "agent:a", "r", data="123456")
    store.write("output", "agent:b", "r", data="123456")
    first, second = files(tmp_path)
    data = first.read_bytes()
    first.write_bytes(data[:-2])
    second.write_bytes(data)
    again = reopened(tmp_path, clock)
    assert again.owners("output", "r") == []


def test_what_a_killed_writer_left_is_swept(tmp_path: Path, store: OutputStore, clock: SetClock):
    (tmp_path / "output" / ".abc.tmp").write_bytes(b"half")
    reopened(tmp_path, clock)
    assert files(tmp_path) == []


def test_an_output_that_somebody_removed_is_told(tmp_path: Path, store: OutputStore):
    kept = store.write("output", "agent:a", "r", data="1")
    files(tmp_path)[0].unlink()
    with pytest.raises(StoreError):
        store.read(kept, "data", 0, 1)
    store.remove(kept)
    assert store.size == 0


@pytest.mark.promise("OUT-6")
@pytest.mark.parametrize("size", [2, 20_000])
def test_a_flood_of_outputs_drives_out_its_own_and_nobody_elses(store: OutputStore, size: int):
    """Small ones cost memory, large ones the disk."""
    store.max_files = 40
    for owner in ("operator:operator", "agent:quiet"):
        store.write("call", owner, "first", data="1")
        store.write("output", owner, "second", data="1")
    for number in range(200):
        store.write("call", "agent:loud", f"r{number}", data="x" * size)
        assert len(store._index) <= 40
        assert store.size <= MIB
    for owner in ("operator:operator", "agent:quiet"):
        assert store.find("call", owner, "first")
        assert store.find("output", owner, "second")
    assert store.find("call", "agent:loud", "r199")
    assert store.find("call", "agent:loud", "r0") is None


def test_what_is_counted_is_what_is_there(tmp_path: Path, store: OutputStore, clock: SetClock):
    store.max_files = 5
    for number in range(30):
        kept = store.write("call", f"agent:{number % 3}", f"r{number % 7}", data="x" * number)
        if number % 4 == 0:
            store.remove(kept)
    on_disk = sum(each.stat().st_size for each in files(tmp_path))
    assert (store.size, sum(held[0] for held in store._held.values())) == (on_disk, on_disk)
    assert sum(held[1] for held in store._held.values()) == len(files(tmp_path))
    again = reopened(tmp_path, clock)
    assert (again.size, again._held) == (on_disk, store._held)
