"""The files plugin: what lies in the roots is served whole, and nothing outside of them is ever touched."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermesd.plugin import ToolError
from tests.bundled import Bundled, bundled

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


# availability


def test_without_roots_every_tool_is_unavailable_and_says_what_to_set() -> None:
    plugin = bundled("files")
    reason, remedy = plugin.module.hermesd_unavailable(plugin.context("files.read_file"))
    assert "no root" in reason
    assert "plugins.settings.files.roots" in remedy
    for verb, arguments in {
        "read_file": {"path": "a"},
        "list_dir": {},
        "search_text": {"query": "a"},
        "write_file": {"path": "a", "content": ""},
        "edit_file": {"path": "a", "old": "b", "new": "c"},
    }.items():
        error = plugin.refused(verb, **arguments)
        assert (error.code, error.effect) == ("UNAVAILABLE", "none")
        assert error.detail["remedy"] == remedy


def test_roots_that_are_no_folders_make_the_tools_unavailable(tmp_path: Path) -> None:
    plugin = bundled("files", roots=[str(tmp_path / "absent")])
    assert "absent" in plugin.module.hermesd_unavailable(plugin.context("files.read_file"))[0]
    assert plugin.refused("list_dir").code == "UNAVAILABLE"
    one_left = bundled("files", roots=[str(tmp_path / "absent"), str(tmp_path)])
    assert one_left.module.hermesd_unavailable(one_left.context("files.read_file")) is None


# no way out


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "/etc/passwd",
        "资料/../../secret.txt",
        "./././../secret.txt",
        "资料/../资料/../../data/../secret.txt",
        "{root}/../secret.txt",
        "{root}x/secret.txt",
        "{root}",
        "notes.md/../../secret.txt",
        "notes.md/",
        "notes.md\0",
        "",
        "a" * 5000,
        "nowhere/../../secret.txt",
        "/proc/self/root/etc/passwd",
    ],
)
def test_a_path_never_leaves_the_root(files: Bundled, root: Path, path: str) -> None:
    path = path.format(root=root)
    assert SECRET not in files.refused("read_file", path=path).message
    files.refused("write_file", path=path, content="x", mode="overwrite")
    files.refused("edit_file", path=path, old="secret", new="x")
    assert (root.parent / "secret.txt").read_text(encoding="utf-8") == SECRET


def links(root: Path) -> dict[str, str]:
    return {
        "absolute": str(root.parent / "secret.txt"),
        "relative": "../secret.txt",
        "twice": "absolute",
        "folder": str(root.parent),
        "up": "..",
        "loop": "loop",
        "circle-a": "circle-b",
        "circle-b": "circle-a",
        "proc": "/proc/self/root",
        "dangling": "../not-yet.txt",
    }


def test_a_link_that_leaves_the_root_is_refused_for_reading_and_writing(files: Bundled, root: Path) -> None:
    for name, target in links(root).items():
        (root / name).symlink_to(target)
    for name in links(root):
        for path in (name, f"{name}/secret.txt", f"{name}/etc/passwd", f"{name}/.."):
            files.refused("read_file", path=path)
            files.refused("write_file", path=path, content="x", mode="overwrite")
            files.refused("list_dir", path=path)
    assert (root.parent / "secret.txt").read_text(encoding="utf-8") == SECRET
    assert not (root.parent / "not-yet.txt").exists()
    hits = files.call("search_text", query="secret outside", include_hidden=True)
    assert hits["hits"] == []


def test_links_inside_the_root_are_followed_and_kept_when_written_through(files: Bundled, root: Path) -> None:
    (root / "here").symlink_to("资料/说明.txt")
    (root / "absolute").symlink_to(root / "资料")
    (root / "资料" / "back").symlink_to("../notes.md")
    assert files.call("read_file", path="here")["text"].startswith("第一行")
    assert files.call("read_file", path="absolute/back")["text"] == "one\ntwo\nthree\n"
    files.call("write_file", path="absolute/back", content="new\n", mode="overwrite")
    assert (root / "资料" / "back").is_symlink()
    assert (root / "notes.md").read_text(encoding="utf-8") == "new\n"


def test_a_root_behind_a_link_takes_both_of_its_names(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    plugin = bundled("files", roots=[str(tmp_path / "alias")])
    for name in (tmp_path / "alias", root):
        assert plugin.call("read_file", path=str(name / "notes.md"))["lines"] == 3


PARTS = st.sampled_from(
    ["..", ".", "", "资料", "notes.md", "out", "in", "up", "data", "secret.txt", "说明.txt", "etc"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    parts=st.lists(PARTS, min_size=1, max_size=10),
    absolute=st.booleans(),
    target=st.lists(PARTS, min_size=1, max_size=5),
)
def test_no_combination_of_parts_and_links_reaches_the_secret(
    files: Bundled, root: Path, parts: list[str], absolute: bool, target: list[str]
) -> None:
    """The kernel's own resolution is the oracle: what is answered lies where the real path is in the root."""
    (root / "out").unlink(missing_ok=True)
    (root / "out").symlink_to("/".join(target) or ".")
    path = ("/" if absolute else "") + "/".join(parts)
    full = f"{root}/{path}"
    answer, refusal = attempt(files, "read_file", path=full)
    assert SECRET not in refusal
    if answer is None:
        return
    real = os.path.realpath(full)
    assert real.startswith(f"{root}/")
    assert SECRET not in (answer["text"] or "")


def test_a_folder_swapped_for_a_link_during_the_walk_never_leads_out(files: Bundled, root: Path) -> None:
    """The classic race of check and use: one thread swaps, the other reads and writes."""
    (root / "inner").mkdir()
    (root / "inner" / "secret.txt").write_text("inside", encoding="utf-8")
    (root / "spare").symlink_to(root.parent)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for old, new in (("inner", "held"), ("spare", "inner"), ("inner", "spare"), ("held", "inner")):
                os.rename(root / old, root / new)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for _ in range(400):
            answer, _ = attempt(files, "read_file", path="inner/secret.txt")
            seen.add(answer["text"] if answer else None)
            attempt(files, "write_file", path="inner/new.txt", content="x", mode="overwrite")
    finally:
        done.set()
        thread.join()
    assert "inside" in seen
    assert seen <= {"inside", None}
    assert not (root.parent / "new.txt").exists()


def test_a_file_swapped_for_a_link_while_it_is_opened_is_refused(files: Bundled, root: Path) -> None:
    tools = files.part("content")
    root_fd = os.open(root, os.O_RDONLY)
    try:
        (root / "notes.md").unlink()
        (root / "notes.md").symlink_to("../secret.txt")
        with pytest.raises(files.part("fault").FileFault, match="replaced by a link"):
            tools.open_regular(root_fd, "notes.md", "notes.md")
    finally:
        os.close(root_fd)


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_what_is_no_regular_file_is_refused_and_never_waited_for(
    files: Bundled, root: Path, kind: str
) -> None:
    path = root / "odd"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif os.geteuid() == 0:
        try:
            os.mknod(path, 0o20666, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("this machine lets nobody make devices")
    else:
        pytest.skip("only root makes devices")
    assert "no regular file" in files.refused("read_file", path="odd").message
    assert "no regular file" in files.refused("write_file", path="odd", content="x", mode="overwrite").message
    assert "no regular file" in files.refused("edit_file", path="odd", old="a", new="b").message
    assert files.call("search_text", query="x")["hits"] == []
    assert [each["kind"] for each in files.call("list_dir", pattern="odd")["entries"]] == ["other"]


def test_a_relative_path_needs_a_single_root_and_the_roots_can_be_listed(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "另一个"
    other.mkdir()
    plugin = bundled("files", roots=[str(root), str(other)])
    assert "several roots" in plugin.refused("read_file", path="notes.md").message
    assert [each["path"] for each in plugin.call("list_dir")["entries"]] == [str(root), str(other)]
    assert plugin.call("read_file", path=f"{root}/notes.md")["lines"] == 3


# reading


def test_lines_are_read_in_parts_that_join_to_the_whole(files: Bundled, root: Path) -> None:
    (root / "long.txt").write_text("".join(f"行 {i}\n" for i in range(1, 101)), encoding="utf-8")
    text, line = "", 1
    while line is not None:
        part = files.call("read_file", path="long.txt", first_line=line, max_lines=30)
        text, line = text + part["text"], part["next_line"]
    assert text == (root / "long.txt").read_text(encoding="utf-8")
    assert part["sha256"] == hashlib.sha256((root / "long.txt").read_bytes()).hexdigest()
    assert files.call("read_file", path="long.txt", first_line=500)["lines"] == 0


@pytest.mark.parametrize(
    ("codec", "mark", "told"),
    [
        ("utf-8", b"", "utf-8"),
        ("utf-8", b"\xef\xbb\xbf", "utf-8-bom"),
        ("gb18030", b"", "gb18030"),
        ("utf-16-le", b"\xff\xfe", "utf-16-le-bom"),
        ("utf-16-be", b"\xfe\xff", "utf-16-be-bom"),
        ("utf-32-le", b"\xff\xfe\0\0", "utf-32-le-bom"),
    ],
)
def test_encodings_are_recognised_and_kept_by_an_edit(
    files: Bundled, root: Path, codec: str, mark: bytes, told: str
) -> None:
    text = "工具守护进程\r\n支持热重载,不丢失任何调用。\r\n"
    (root / "编码.txt").write_bytes(mark + text.encode(codec))
    answer = files.call("read_file", path="编码.txt")
    assert (answer["text"], answer["encoding"], answer["newline"]) == (text, told, "crlf")
    files.call("edit_file", path="编码.txt", old="热重载", new="更新\n重载")
    assert (root / "编码.txt").read_bytes() == mark + text.replace("热重载", "更新\r\n重载").encode(codec)
    files.call("write_file", path="编码.txt", content="尾\n", mode="append")
    assert (root / "编码.txt").read_bytes().endswith("尾\n".encode(codec))


def test_a_character_cut_by_the_sample_does_not_change_the_encoding(files: Bundled, root: Path) -> None:
    (root / "big.txt").write_bytes(b"x" + "汉".encode() * 40_000)
    assert files.call("read_file", path="big.txt")["encoding"] == "utf-8"
    (root / "big.txt").write_bytes(b"x" + "汉".encode("gb18030") * 40_000)
    assert files.call("read_file", path="big.txt")["encoding"] == "gb18030"


def test_bytes_that_are_no_text_come_as_base64_in_parts(root: Path) -> None:
    plugin = bundled("files", roots=[str(root)], max_bytes=1024)
    data = bytes(range(256)) * 10
    (root / "blob").write_bytes(data)
    got, at = b"", 0
    while at is not None:
        part = plugin.call("read_file", path="blob", first_byte=at)
        assert part["kind"] == "binary"
        got, at = got + base64.b64decode(part["base64"]), part["next_byte"]
    assert got == data


def test_latin_text_is_not_taken_for_chinese(files: Bundled, root: Path) -> None:
    (root / "latin.txt").write_bytes("café à la crème, déjà vu\n".encode("latin-1"))
    assert files.call("read_file", path="latin.txt")["kind"] == "binary"
    assert files.call("read_file", path="latin.txt", encoding="latin-1")["text"].startswith("café")


def test_one_line_longer_than_the_bound_is_cut_and_says_so(root: Path) -> None:
    plugin = bundled("files", roots=[str(root)], max_bytes=1024)
    (root / "wide.txt").write_text("汉" * 5000 + "\nnext\n", encoding="utf-8")
    part = plugin.call("read_file", path="wide.txt")
    assert part["cut_line"]
    assert part["next_line"] == 2
    assert part["text"] == "汉" * 341
    assert plugin.call("read_file", path="wide.txt", first_line=2)["text"] == "next\n"


def test_a_huge_sparse_file_is_read_within_the_bounds(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 36)
    plugin = bundled("files", roots=[str(root)], max_file_bytes=1 << 20)
    answer = plugin.call("read_file", path="huge", first_byte=1 << 35)
    assert (answer["size"], answer["sha256"], answer["first_byte"]) == (1 << 36, None, 1 << 35)
    assert len(answer["base64"]) <= 1 << 20
    assert plugin.call("search_text", query="x")["skipped"]["too_large"] == 1
    assert "max_file_bytes" in plugin.refused("edit_file", path="huge", old="a", new="b").message
    assert "max_file_bytes" in plugin.refused("write_file", path="huge", content="a", mode="append").message


def test_an_unreadable_file_is_named_and_the_rest_still_served(files: Bundled, root: Path) -> None:
    """Run as an ordinary user, because root may read everything."""
    (root / "shut.txt").write_text("热重载", encoding="utf-8")
    (root / "shut.txt").chmod(0)
    if os.geteuid() != 0:
        assert files.refused("read_file", path="shut.txt").code == "PERMISSION_DENIED"
        assert files.call("search_text", query="热重载")["skipped"]["unreadable"] == 1
        return
    fault = files.part("fault").fault_of(PermissionError(13, "denied"), "shut.txt")
    assert fault.code == "PERMISSION_DENIED"


# listing and searching


def test_a_listing_is_sorted_bounded_and_does_not_follow_links(files: Bundled, root: Path) -> None:
    (root / ".hidden").write_text("", encoding="utf-8")
    (root / "资料" / "loop").symlink_to("..")
    plain = files.call("list_dir", depth=5)
    assert [(each["path"].removeprefix(f"{root}/"), each["kind"]) for each in plain["entries"]] == [
        ("notes.md", "file"),
        ("资料", "folder"),
        ("资料/loop", "link"),
        ("资料/说明.txt", "file"),
    ]
    assert files.call("list_dir", include_hidden=True)["entries"][0]["path"].endswith(".hidden")
    cut = files.call("list_dir", depth=5, max_entries=2)
    assert (len(cut["entries"]), cut["truncated"]) == (2, "entries")
    assert len(files.call("list_dir", depth=5, pattern="资料/*.txt")["entries"]) == 1
    assert "no folder" in files.refused("list_dir", path="notes.md").message
    assert "does not exist" in files.refused("list_dir", path="absent").message


def test_names_that_are_no_utf_8_are_shown_and_break_nothing(files: Bundled, root: Path) -> None:
    with open(os.path.join(os.fsencode(root), b"bad\xff.txt"), "wb") as file:
        file.write(b"two\n")
    entry = files.call("list_dir", pattern="bad*")["entries"][0]
    assert entry["path"].endswith(r"bad\xff.txt")
    assert entry["odd_name"]
    found = files.call("search_text", query="two")
    assert len(found["hits"]) == 1
    assert found["skipped"]["odd_name"] == 1


def test_deep_folders_are_walked_to_a_bound_and_paths_beyond_it_refused(files: Bundled, root: Path) -> None:
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    assert len(files.call("list_dir", path="d", depth=64)["entries"]) == 64
    assert "deeper than 128" in files.refused("list_dir", path="d/" * 200).message


def test_descriptors_are_given_back_whatever_happens(files: Bundled, root: Path) -> None:
    (root / "loop").symlink_to("loop")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        files.call("list_dir", depth=9, max_entries=1)
        files.call("search_text", query="o", max_hits=1)
        for path in ("loop", "资料/../../secret.txt", "notes.md/x", "absent/x"):
            files.refused("read_file", path=path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_search_tells_line_column_and_context_and_its_bounds(files: Bundled, root: Path) -> None:
    (root / "wide.txt").write_text("长" * 1000 + "NEEDLE" + "长" * 1000 + "\n", encoding="utf-8")
    hit = files.call("search_text", query="two", context=1)["hits"]
    assert hit == [
        {
            "path": f"{root}/notes.md",
            "line": 2,
            "column": 1,
            "text": "two",
            "before": ["one"],
            "after": ["three"],
        }
    ]
    found = files.call("search_text", query="needle", ignore_case=True)["hits"][0]
    assert found["column"] == 1001
    assert "NEEDLE" in found["text"]
    assert len(found["text"]) <= 302
    assert files.call("search_text", query="热重载", pattern="*.txt")["hits"][0]["path"].endswith("说明.txt")
    assert files.call("search_text", query="o", max_hits=1)["truncated"] == "hits"
    assert files.call("search_text", query="two", path="notes.md")["hits"][0]["line"] == 2
    assert "line break" in files.refused("search_text", query="a\nb").message


def test_a_search_is_literal(files: Bundled, root: Path) -> None:
    (root / "re.txt").write_text("a.*b\n", encoding="utf-8")
    assert len(files.call("search_text", query=".*")["hits"]) == 1


def test_a_walk_whose_time_is_nearly_over_answers_what_it_has(files: Bundled, root: Path) -> None:
    walking, limits = files.part("walking"), files.part("root").Limits.of(files.settings)
    walk = walking.Walk(9, False, lambda: None, lambda: True)
    with files.part("root").reach(limits, ".") as place:
        assert walking.list_folder(place, walk, "*", 10).truncated == "time"


def test_a_cancelled_walk_stops(files: Bundled) -> None:
    files.cancelled.set()
    assert "cancelled" in files.refused("search_text", query="x").message
