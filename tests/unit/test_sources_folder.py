"""What a plugin directory holds: nothing is silently absent, and a failed look removes nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermesd.sources import folder as module
from hermesd.sources.folder import FolderSource
from hermesd.sources.source import Origin, RootState, Scan


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "plugins"
    root.mkdir()
    return root


def drop(root: Path, name: str, **files: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "plugin.yaml").write_text(f"name: {name}\n")
    for file, text in files.items():
        (folder / f"{file}.py").write_text(text)
    return folder


def scan(*roots: Path) -> Scan:
    return FolderSource(roots).scan()


def labels(taken: Scan) -> list[str]:
    return [each.label for each in taken.found]


def test_folders_and_files_are_found_in_name_order(root: Path) -> None:
    drop(root, "text", main="")
    drop(root, "订单")
    (root / "hello.py").write_text("")
    (root / "README.md").write_text("")
    taken = scan(root)
    assert [(each.label, each.origin) for each in taken.found] == [
        ("hello.py", Origin.FILE),
        ("text", Origin.FOLDER),
        ("订单", Origin.FOLDER),
    ]
    assert {each.unit for each in taken.found} == {str(root / name) for name in ("hello.py", "text", "订单")}
    assert taken.faults == ()
    assert taken.roots[0].state is RootState.PRESENT


def test_declarative_files_are_found_with_the_reason_why_they_do_not_serve(root: Path) -> None:
    (root / "weather.yaml").write_text("tools: []")
    (found,) = scan(root).found
    assert "not in this build" in found.unsupported
    assert found.remedy


def test_editor_hidden_and_private_names_are_no_plugins(root: Path) -> None:
    for name in (
        "4913",
        ".hello.py.swp",
        "hello.py~",
        ".#hello.py",
        "#hello.py#",
        "x.tmp",
        "_wip.py",
        ".x.py",
    ):
        (root / name).write_text("")
    for name in (".git", "__pycache__", "lost+found", "_drafts"):
        (root / name).mkdir()
    taken = scan(root)
    assert (taken.found, taken.faults) == ((), ())


def test_a_folder_without_a_manifest_is_a_fault_with_a_remedy(root: Path) -> None:
    (root / "orders").mkdir()
    taken = scan(root)
    (fault,) = taken.faults
    assert (fault.name, fault.file) == ("orders", str(root / "orders"))
    assert "plugin.yaml" in fault.remedy
    (root / "orders" / "plugin.yml").write_text("")
    assert scan(root).faults[0].remedy == "rename plugin.yml to plugin.yaml"


def test_a_folder_that_lost_its_manifest_is_held_not_removed(root: Path) -> None:
    """FRR#10453: an empty read taken for a removal."""
    orders = drop(root, "orders")
    (orders / "plugin.yaml").unlink()
    taken = scan(root)
    assert taken.is_uncertain(str(orders))
    assert str(orders) in taken.held


def test_a_missing_root_is_no_fault_and_is_told_from_an_empty_one(root: Path, tmp_path: Path) -> None:
    """traefik#7240: a watched directory that is made only later."""
    taken = scan(root, tmp_path / "later")
    assert [each.state for each in taken.roots] == [RootState.PRESENT, RootState.ABSENT]
    assert taken.faults == ()
    (tmp_path / "later").mkdir()
    drop(tmp_path / "later", "orders")
    assert labels(scan(root, tmp_path / "later")) == ["orders"]


def test_a_root_that_is_no_directory_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "plugins").write_text("")
    taken = scan(tmp_path / "plugins")
    assert taken.roots[0].state is RootState.UNREADABLE
    assert taken.faults[0].file == str(tmp_path / "plugins")
    assert taken.is_uncertain(str(tmp_path / "plugins" / "orders"))


@contextmanager
def nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("needs root to become nobody")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared_root() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="plugins-"))
    base.chmod(0o755)
    yield base
    shutil.rmtree(base)


def test_an_unreadable_entry_is_its_own_fault_and_no_removal(shared_root: Path) -> None:
    """vault#30329: one bad plugin that ends the whole pass."""
    bad = drop(shared_root, "bad")
    drop(shared_root, "good").chmod(0o755)
    bad.chmod(0o700)
    with nobody():
        taken = scan(shared_root)
    assert labels(taken) == ["good"]
    assert taken.is_uncertain(str(bad))
    assert [fault.name for fault in taken.faults] == ["bad"]
    assert taken.faults[0].remedy


def test_an_unreadable_root_says_nothing_about_what_it_holds(shared_root: Path) -> None:
    orders = drop(shared_root, "orders")
    shared_root.chmod(0o700)
    with nobody():
        taken = scan(shared_root)
    assert taken.roots[0].state is RootState.UNREADABLE
    assert taken.is_uncertain(str(orders))
    assert taken.faults


def test_links_to_nothing_and_to_themselves_are_faults_of_their_own(root: Path) -> None:
    drop(root, "good")
    (root / "gone").symlink_to("missing")
    (root / "loop").symlink_to("loop")
    taken = scan(root)
    assert labels(taken) == ["good"]
    assert [fault.name for fault in taken.faults] == ["gone", "loop"]


def test_a_fifo_named_like_a_plugin_is_a_fault_and_is_not_opened(root: Path) -> None:
    os.mkfifo(root / "pipe.py")
    assert "no regular file" in scan(root).faults[0].reason


def test_a_linked_folder_is_a_plugin(root: Path, tmp_path: Path) -> None:
    drop(tmp_path, "orders")
    (root / "orders").symlink_to(tmp_path / "orders")
    assert labels(scan(root)) == ["orders"]


def test_the_data_dir_is_never_taken_for_a_plugin(root: Path) -> None:
    drop(root, "orders")
    (root / "data").mkdir()
    taken = FolderSource([root], excluded=[root / "data"]).scan()
    assert (labels(taken), taken.faults) == (["orders"], ())


def test_a_root_named_twice_is_looked_at_once(root: Path) -> None:
    drop(root, "orders")
    assert labels(scan(root, root)) == ["orders"]


def test_a_root_exchanged_while_it_is_looked_at_is_looked_at_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        drop(root, f"old{number}")
    real = module.folder_fingerprint

    def swapping(path: Path, **named: int) -> object:
        if path.name == "old1":
            root.rename(root.with_name("away"))
            root.mkdir()
            drop(root, "new")
        return real(path, **named)

    monkeypatch.setattr(module, "folder_fingerprint", swapping)
    assert labels(scan(root)) == ["new"]


def test_a_root_that_vanishes_while_it_is_looked_at_is_absent_not_empty(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(root, "orders")

    def vanishing(path: Path, **_: int) -> object:
        shutil.rmtree(root)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(module, "folder_fingerprint", vanishing)
    taken = scan(root)
    assert [each.state for each in taken.roots] == [RootState.ABSENT]


def test_a_root_that_never_rests_is_unreadable_not_half(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop(root, "orders")
    real = module.folder_fingerprint

    def swapping(path: Path, **named: int) -> object:
        marks = real(path, **named)
        copy = root.with_name("copy")
        shutil.copytree(root, copy)
        shutil.rmtree(root)
        copy.rename(root)
        return marks

    monkeypatch.setattr(module, "folder_fingerprint", swapping)
    taken = scan(root)
    assert taken.roots[0].state is RootState.UNREADABLE
    assert taken.found == ()
