"""The files plugin: a change is whole or not at all, and is refused when it rests on other content."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.plugin import ToolError
from tests.bundled import Bundled, bundled

EDITING = bundled("files").part("editing")
SECRET = "the secret outside of the root"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a secret beside it, which no call may ever read or change."""
    (tmp_path / "secret.txt").write_text(SECRET, encoding="utf-8")
    root = tmp_path / "data"
    root.mkdir()
    (root / "notes.md").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (root / "资料").mkdir()
    (root / "资料" / "说明.txt").write_text("第一行\n热重载\n", encoding="utf-8")
    return root


@pytest.fixture
def files(root: Path) -> Bundled:
    return bundled("files", roots=[str(root)])


def attempt(files: Bundled, verb: str, **arguments: Any) -> tuple[Any, str]:
    """The answer and "", or None and the refusal; anything but a refusal is a failure."""
    try:
        return files.call(verb, **arguments), ""
    except ToolError as error:
        return None, error.message


# writing


def test_create_refuses_what_exists_and_overwrite_and_append_do_not(files: Bundled, root: Path) -> None:
    assert files.call("write_file", path="新.txt", content="一\n")["created"]
    assert "exists already" in files.refused("write_file", path="新.txt", content="二\n").message
    answer = files.call("write_file", path="新.txt", content="二\n", mode="append")
    assert (root / "新.txt").read_text(encoding="utf-8") == "一\n二\n"
    assert answer["sha256"] == hashlib.sha256("一\n二\n".encode()).hexdigest()
    assert not files.call("write_file", path="新.txt", content="三", mode="overwrite")["created"]
    assert "does not exist" in files.refused("write_file", path="a/b/c.txt", content="").message
    files.call("write_file", path="a/b/c.txt", content="", make_folders=True)
    assert (root / "a/b/c.txt").read_bytes() == b""
    files.call("write_file", path="raw", content=base64.b64encode(b"\0\xff").decode(), content_form="base64")
    assert (root / "raw").read_bytes() == b"\0\xff"
    assert (
        files.refused("write_file", path="raw2", content="@@", content_form="base64").code
        == "INVALID_ARGUMENT"
    )


def test_a_change_based_on_other_content_is_refused(files: Bundled, root: Path) -> None:
    digest = files.call("read_file", path="notes.md")["sha256"]
    (root / "notes.md").write_text("changed\n", encoding="utf-8")
    for verb, arguments in (
        ("write_file", {"content": "x", "mode": "overwrite"}),
        ("edit_file", {"old": "c", "new": "d"}),
    ):
        error = files.refused(verb, path="notes.md", expected_sha256=digest, **arguments)
        assert "read it again" in error.message
        assert error.effect == "none"
    fresh = files.call("read_file", path="notes.md")["sha256"]
    files.call("write_file", path="notes.md", content="mine", mode="overwrite", expected_sha256=fresh)
    assert (
        "does not exist"
        in files.refused(
            "write_file", path="absent", content="", mode="overwrite", expected_sha256=fresh
        ).message
    )


def test_a_write_keeps_the_mode_and_respects_write_protection(files: Bundled, root: Path) -> None:
    (root / "run.sh").write_text("echo 1\n", encoding="utf-8")
    (root / "run.sh").chmod(0o751)
    files.call("edit_file", path="run.sh", old="1", new="2")
    assert (root / "run.sh").stat().st_mode & 0o7777 == 0o751
    (root / "run.sh").chmod(0o444)
    assert files.refused("edit_file", path="run.sh", old="2", new="3").code == "PERMISSION_DENIED"
    (root / "run.sh").chmod(0o644)
    os.link(root / "run.sh", root / "other-name")
    assert "hard links" in files.refused("edit_file", path="run.sh", old="2", new="3").message


def test_read_only_refuses_every_change(root: Path) -> None:
    plugin = bundled("files", roots=[str(root)], read_only=True)
    assert plugin.refused("write_file", path="x", content="").code == "PERMISSION_DENIED"
    assert plugin.refused("edit_file", path="notes.md", old="one", new="1").code == "PERMISSION_DENIED"
    assert plugin.call("read_file", path="notes.md")["lines"] == 3


def test_a_content_beyond_the_bound_is_refused(root: Path) -> None:
    plugin = bundled("files", roots=[str(root)], max_bytes=1024)
    assert "at most 1024" in plugin.refused("write_file", path="x", content="汉" * 400).message


def test_writers_of_one_file_take_turns_and_lose_nothing(files: Bundled, root: Path) -> None:
    (root / "log").write_bytes(b"")
    rows = [f"{writer}-{row}\n" for writer in range(4) for row in range(25)]

    def write(mine: list[str]) -> None:
        for row in mine:
            files.call("write_file", path="log", content=row, mode="append")

    threads = [threading.Thread(target=write, args=(rows[at::4],)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((root / "log").read_text(encoding="utf-8").splitlines(keepends=True)) == sorted(rows)
    assert [name for name in os.listdir(root) if name.endswith(".tmp")] == []


def test_of_several_creators_exactly_one_succeeds(files: Bundled, root: Path) -> None:
    made: list[int] = []

    def create(number: int) -> None:
        answer, refusal = attempt(files, "write_file", path="one.txt", content=str(number))
        assert answer or "exists already" in refusal
        if answer:
            made.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(root / "one.txt").read_text(encoding="utf-8")] == [str(each) for each in made]


SCRIPT = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
from hermesd.plugin import ToolError
from tests.bundled import bundled
files = bundled("files", roots=[sys.argv[2]])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
error = files.refused("write_file", path="notes.md", content="x" * 100_000, mode="overwrite")
created = files.refused("write_file", path="new.txt", content="x" * 100_000)
print(json.dumps([error.message, error.effect, created.effect]))
"""


@pytest.mark.fault
def test_a_write_that_finds_no_room_leaves_the_old_content_and_nothing_else(root: Path) -> None:
    """RLIMIT_FSIZE stands for the full disk: the write fails in the middle of the data."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    here = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, here, str(root)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    message, *effects = json.loads(done.stdout)
    assert "not written" in message
    assert effects == ["none", "none"]
    assert (root / "notes.md").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    assert sorted(os.listdir(root)) == ["notes.md", "资料"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, where this machine lets tests mount one."""
    mount = tmp_path / "disk"
    mount.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", mount], capture_output=True, check=False
    ).returncode:
        pytest.skip("this machine lets nobody mount")
    yield mount
    subprocess.run(["umount", mount], check=True)


@pytest.mark.fault
def test_a_full_disk_is_told_and_the_old_content_stays(tiny_disk: Path) -> None:
    (tiny_disk / "a.txt").write_text("old\n", encoding="utf-8")
    plugin = bundled("files", roots=[str(tiny_disk)])
    error = plugin.refused("write_file", path="a.txt", content="x" * 200_000, mode="overwrite")
    assert "disk is full" in error.message
    assert error.effect == "none"
    assert os.listdir(tiny_disk) == ["a.txt"]
    assert (tiny_disk / "a.txt").read_text(encoding="utf-8") == "old\n"


# editing


def test_an_edit_must_fit_once_and_answers_the_diff(files: Bundled, root: Path) -> None:
    answer = files.call("edit_file", path="notes.md", old="two", new="2\n二")
    assert answer["diff"] == (
        f"--- {root}/notes.md\n+++ {root}/notes.md\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+二\n three\n"
    )
    (root / "twice").write_text("a\nb\na\n", encoding="utf-8")
    assert "2 times" in files.refused("edit_file", path="twice", old="a", new="x").message
    assert files.call("edit_file", path="twice", old="a", new="x", replace_all=True)["replacements"] == 2
    assert "aa" not in files.refused("edit_file", path="twice", old="X", new="y").message


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        ("one two", "other blanks"),
        ("ONE", "letter case"),
        ("absent", "does not stand"),
        ("", "empty"),
        ("one", "the same"),
    ],
)
def test_an_edit_that_does_not_fit_says_why(files: Bundled, old: str, reason: str) -> None:
    assert reason in files.refused("edit_file", path="notes.md", old=old, new="one").message


def test_an_overlapping_place_is_not_unique() -> None:
    with pytest.raises(bundled("files").part("fault").FileFault, match="2 times"):
        EDITING.replace_exactly("aaa", "aa", "b", replace_all=False, shown="f")


TEXTS = st.text("ab\n汉", min_size=0, max_size=40)


@given(text=TEXTS, old=st.text("ab\n汉", min_size=1, max_size=4), new=st.text("ab\n汉", max_size=4))
def test_the_diff_of_an_edit_rebuilds_the_file(text: str, old: str, new: str) -> None:
    """`str.replace` is the oracle for the text, applying the hunks the one for the diff."""
    if old == new or old not in text:
        return
    edit = EDITING.replace_exactly(text, old, new, replace_all=True, shown="f")
    assert edit.text == text.replace(old, new)
    assert applied(text, edit.diff) == edit.text


def applied(text: str, diff: str) -> str:
    old = [line + "\n" for line in text.split("\n")]
    old[-1] = old[-1][:-1]
    old = old if old[-1] else old[:-1]
    out: list[str] = []
    at, last = 0, ""
    for line in diff.split("\n")[2:-1]:
        if line.startswith("@@"):
            begin, size = line.split(" ")[1][1:].split(",")
            start = int(begin) - (1 if int(size) else 0)
            out += old[at:start]
            at = start
        elif line.startswith("\\"):
            if last in "+ ":
                out[-1] = out[-1].removesuffix("\n")
        else:
            if line[0] != "+":
                assert old[at].removesuffix("\n") == line[1:]
                at += 1
            if line[0] != "-":
                out.append(line[1:] + "\n")
        last = line[0]
    return "".join(out + old[at:])


def test_a_text_that_the_files_encoding_lacks_is_refused(files: Bundled, root: Path) -> None:
    (root / "l.txt").write_bytes("工具守护进程".encode("gb18030"))
    error: Any = files.refused("edit_file", path="l.txt", old="工具", new="\ud800")
    assert error.code == "INVALID_ARGUMENT"
    assert (root / "l.txt").read_bytes() == "工具守护进程".encode("gb18030")
