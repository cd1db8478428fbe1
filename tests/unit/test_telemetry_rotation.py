"""A rotated file keeps within its bound and its number of older parts."""

from __future__ import annotations

from pathlib import Path

from hermesd.telemetry.rotation import RotatedFile


def lines(first: int, count: int) -> list[bytes]:
    return [b"%03d\n" % each for each in range(first, first + count)]


def test_no_line_is_split_or_lost_while_there_is_room_for_it(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "deep" / "x.jsonl", max_bytes=10, keep=2)
    file.append(lines(0, 5))
    assert [each.read_bytes() for each in file.parts() if each.exists()] == [
        b"004\n",
        b"002\n003\n",
        b"000\n001\n",
    ]
    file.append(lines(5, 2))
    assert [each.read_bytes() for each in file.parts()] == [b"006\n", b"004\n005\n", b"002\n003\n"]
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700


def test_fewer_parts_to_keep_removes_those_beyond(tmp_path: Path) -> None:
    RotatedFile(tmp_path / "x", max_bytes=4, keep=5).append(lines(0, 7))
    assert len(list(tmp_path.iterdir())) == 6
    RotatedFile(tmp_path / "x", max_bytes=4, keep=1).append(lines(7, 1))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x", "x.1"]
    RotatedFile(tmp_path / "x", max_bytes=4, keep=0).append(lines(8, 2))
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


def test_a_line_longer_than_the_bound_has_a_file_of_its_own(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "x", max_bytes=4, keep=2)
    file.append([b"a\n", b"long line\n", b"b\n"])
    assert [each.read_bytes() for each in file.parts()] == [b"b\n", b"long line\n", b"a\n"]
