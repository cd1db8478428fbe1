"""What may be a plugin's content, and that it is read whole or not at all."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesd.errors import PluginError, StoreError
from hermesd.store import capture as module
from hermesd.store.capture import ContentFile, UnsettledError, capture


class Taken(dict[str, bytes]):
    def take(self, path: str, executable: bool, chunks: Iterator[bytes]) -> None:
        self[path] = b"".join(chunks)


def read(path: Path, *, max_files: int = 100, max_bytes: int = 10_000) -> Taken:
    taken = Taken()
    files = capture(path, taken.take, max_files=max_files, max_bytes=max_bytes)
    assert [each.path for each in files] == sorted(taken)
    return taken


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "plugin.yaml").write_text("name: orders\n")
    return folder


def refusal(path: Path, **limits: int) -> str:
    with pytest.raises(PluginError) as caught:
        read(path, **limits)
    (rejection,) = caught.value.rejections
    assert rejection.remedy
    assert rejection.file
    return str(rejection)


def test_files_keep_their_relative_paths_bytes_and_executable_bit(plugin: Path) -> None:
    (plugin / "数据" / "表").mkdir(parents=True)
    (plugin / "数据" / "表" / "城市.txt").write_text("北京\n", encoding="utf-8")
    (plugin / "run.sh").write_bytes(b"#!/bin/sh\n")
    (plugin / "run.sh").chmod(0o755)

    files = capture(plugin, Taken().take, max_files=100, max_bytes=10_000)

    assert [(each.path, each.size, each.executable) for each in files] == [
        ("plugin.yaml", 13, False),
        ("run.sh", 10, True),
        ("数据/表/城市.txt", 7, False),
    ]
    assert read(plugin)["数据/表/城市.txt"] == "北京\n".encode()


def test_a_single_file_is_a_folder_of_one(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("x = 1\n")
    (tmp_path / "other.py").write_text("y = 1\n")
    assert read(tmp_path / "hello.py") == {"hello.py": b"x = 1\n"}


def test_hidden_compiled_and_editor_files_are_no_content(plugin: Path) -> None:
    for name in (".git", "__pycache__", ".hg"):
        (plugin / name).mkdir()
        (plugin / name / "x.py").write_text("")
    for name in ("a.pyc", "a.py~", ".a.py.swp", "#a.py#", ".#a.py", "4913", "a.tmp", ".env"):
        (plugin / name).write_text("x")
    assert set(read(plugin)) == {"plugin.yaml"}


def test_a_kubernetes_volume_is_read_through_its_data_link(tmp_path: Path) -> None:
    """spf13/viper#284, jimmidyson/configmap-reload#190: files are links into a hidden, swapped folder."""
    folder = tmp_path / "orders"
    (folder / "..2026_1").mkdir(parents=True)
    (folder / "..2026_1" / "plugin.yaml").write_text("name: orders\n")
    (folder / "..2026_1" / "lib").mkdir()
    (folder / "..2026_1" / "lib" / "a.py").write_text("a = 1\n")
    (folder / "..data").symlink_to("..2026_1")
    (folder / "plugin.yaml").symlink_to("..data/plugin.yaml")
    (folder / "lib").symlink_to("..data/lib")
    assert read(folder) == {"plugin.yaml": b"name: orders\n", "lib/a.py": b"a = 1\n"}


def test_a_single_file_may_be_a_link_as_in_a_mounted_volume(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "hello.py").write_text("x = 1\n")
    (tmp_path / "hello.py").symlink_to("..data/hello.py")
    assert read(tmp_path / "hello.py") == {"hello.py": b"x = 1\n"}


def test_an_absolute_link_to_the_inside_is_followed(plugin: Path) -> None:
    (plugin / "again.yaml").symlink_to(plugin / "plugin.yaml")
    assert read(plugin)["again.yaml"] == b"name: orders\n"


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "sub/../../secret", "up/secret"])
def test_no_link_leaves_the_folder(plugin: Path, target: str) -> None:
    (plugin.parent / "secret").write_text("key")
    (plugin / "sub").mkdir()
    (plugin / "up").symlink_to("..")
    (plugin / "data").symlink_to(target)
    assert "leaves the plugin's folder" in refusal(plugin)


def test_a_folder_whose_name_begins_like_the_plugins_is_outside(plugin: Path) -> None:
    (plugin.parent / "orders-secret").mkdir()
    (plugin.parent / "orders-secret" / "key").write_text("key")
    (plugin / "data").symlink_to(plugin.parent / "orders-secret" / "key")
    assert "leaves the plugin's folder" in refusal(plugin)


@pytest.mark.parametrize("target", ["loop", "."])
def test_a_link_loop_is_refused(plugin: Path, target: str) -> None:
    (plugin / "loop").symlink_to(target)
    assert "link" in refusal(plugin)


def test_links_that_lead_to_each_other_are_refused(plugin: Path) -> None:
    (plugin / "a").symlink_to("b")
    (plugin / "b").symlink_to("a")
    assert "leads back to itself" in refusal(plugin)


def test_links_cannot_multiply_a_folder_without_bound(plugin: Path) -> None:
    for level in range(12):
        (plugin / f"level{level}").mkdir()
        for way in ("a", "b"):
            (plugin / f"level{level}" / way).symlink_to(f"../level{level + 1}")
    (plugin / "level12").mkdir()
    assert "more than 100 folders" in refusal(plugin)


def test_a_link_to_nothing_is_refused(plugin: Path) -> None:
    (plugin / "data").symlink_to("missing")
    assert "link to nothing" in refusal(plugin)


def test_a_fifo_is_refused_without_being_opened(plugin: Path) -> None:
    os.mkfifo(plugin / "pipe")
    assert "a FIFO" in refusal(plugin)


def test_a_link_to_a_fifo_is_refused_without_being_opened(plugin: Path) -> None:
    os.mkfifo(plugin / ".pipe")
    (plugin / "data").symlink_to(".pipe")
    assert "a FIFO" in refusal(plugin)


def test_a_socket_is_refused(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plugin)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert "a socket" in refusal(plugin)


def test_a_name_that_is_no_text_is_refused(plugin: Path) -> None:
    (Path(os.fsdecode(os.fsencode(plugin) + b"/\xff\xfe.py"))).write_text("")
    assert "no UTF-8" in refusal(plugin)


def test_too_many_files_and_too_many_bytes_are_refused(plugin: Path) -> None:
    for number in range(5):
        (plugin / f"f{number}").write_bytes(b"x" * 100)
    assert "more than 5 files" in refusal(plugin, max_files=5)
    assert "is larger than" in refusal(plugin, max_bytes=400)
    assert len(read(plugin, max_files=6)) == 6


def test_folders_nest_only_so_deep(plugin: Path) -> None:
    (plugin / "/".join(["d"] * 40)).mkdir(parents=True)
    assert "nests deeper" in refusal(plugin)


def test_a_folder_without_files_is_no_content(tmp_path: Path) -> None:
    (tmp_path / "empty" / "sub").mkdir(parents=True)
    assert "holds no files" in refusal(tmp_path / "empty")


def test_a_missing_plugin_is_unsettled_not_empty(tmp_path: Path) -> None:
    with pytest.raises(UnsettledError):
        read(tmp_path / "missing")


@pytest.mark.parametrize("data", [b"longer than before", b"", b"name: Orders\n"])
def test_a_file_that_changes_while_it_is_read_is_unsettled(plugin: Path, data: bytes) -> None:
    """samuelcolvin/watchfiles#345: a writer that has not finished."""

    def take(path: str, executable: bool, chunks: Iterator[bytes]) -> None:
        (plugin / "plugin.yaml").write_bytes(data)
        os.utime(plugin / "plugin.yaml", ns=(1, 1))
        list(chunks)

    with pytest.raises(UnsettledError):
        capture(plugin, take, max_files=10, max_bytes=1000)


def test_a_folder_that_changes_while_it_is_read_is_unsettled(plugin: Path) -> None:
    def take(path: str, executable: bool, chunks: Iterator[bytes]) -> None:
        list(chunks)
        (plugin / "new.py").write_text("x")
        os.utime(plugin, ns=(1, 1))

    with pytest.raises(UnsettledError):
        capture(plugin, take, max_files=10, max_bytes=1000)


def test_a_file_exchanged_for_a_link_meanwhile_is_not_followed(plugin: Path) -> None:
    (plugin.parent / "secret").write_text("key")
    (plugin / "z.py").write_text("z = 1\n")

    def take(path: str, executable: bool, chunks: Iterator[bytes]) -> None:
        list(chunks)
        if path == "plugin.yaml":
            # z.py is looked at after this; the exchange must be noticed whenever it happens.
            (plugin / "z.py").unlink()
            (plugin / "z.py").symlink_to("../secret")

    with pytest.raises((UnsettledError, PluginError)):
        capture(plugin, take, max_files=10, max_bytes=1000)


def test_a_link_swap_between_the_look_and_the_opening_is_not_followed(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plugin.parent / "secret").write_text("key")
    real_open = os.open

    def swapping(path: object, flags: int, *rest: object, **named: object) -> int:
        if path == "plugin.yaml":
            (plugin / "plugin.yaml").unlink()
            (plugin / "plugin.yaml").symlink_to("../secret")
        return real_open(path, flags, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module.os, "open", swapping)
    with pytest.raises(UnsettledError):
        read(plugin)


def test_an_unreadable_file_names_itself_and_the_remedy(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def refusing(path: object, flags: int, *rest: object, **named: object) -> int:
        if path == "plugin.yaml":
            raise PermissionError(13, "Permission denied")
        return real_open(path, flags, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module.os, "open", refusing)
    text = refusal(plugin)
    assert str(plugin / "plugin.yaml") in text
    assert "let the daemon's user read it" in text


def test_no_descriptor_left_is_the_daemons_fault_not_the_plugins(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object, **__: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(module.os, "open", refusing)
    with pytest.raises(StoreError, match="Too many open files"):
        read(plugin)


def test_every_descriptor_is_closed_again(plugin: Path) -> None:
    (plugin / "a").mkdir()
    (plugin / "a" / "x").symlink_to("../plugin.yaml")
    (plugin / "bad").symlink_to("missing")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        refusal(plugin)
    (plugin / "bad").unlink()
    read(plugin)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_content_file_says_what_was_hashed(plugin: Path) -> None:
    (only,) = capture(plugin, Taken().take, max_files=1, max_bytes=100)
    assert only == ContentFile("plugin.yaml", 13, hashlib.sha256(b"name: orders\n").hexdigest())
