"""Nobody but root and the daemon's user may be able to change a plugin."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermesd.access import strict_modes
from hermesd.access.strict_modes import UnsafeMode, unsafe_mode


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Whoever runs the tests: the groups here have other members.
    monkeypatch.setattr(strict_modes, "_is_private_group", lambda status: False)
    # Below /tmp itself, whose sticky mode is a part of what is tested.
    base = Path(tempfile.mkdtemp(prefix="strict-"))
    root = base / "plugins"
    (root / "orders" / "lib").mkdir(parents=True)
    for name in ("plugin.yaml", "orders.py", "lib/a.py"):
        (root / "orders" / name).write_text("x")
        (root / "orders" / name).chmod(0o644)
    for folder in (root, root / "orders", root / "orders" / "lib"):
        folder.chmod(0o755)
    yield root
    shutil.rmtree(base)


def fault(root: Path) -> UnsafeMode:
    found = unsafe_mode(root, root / "orders")
    assert found is not None
    return found


def test_a_tidy_plugin_below_a_sticky_tmp_is_safe(root: Path) -> None:
    assert unsafe_mode(root, root / "orders") is None
    (root / "hello.py").write_text("")
    (root / "hello.py").chmod(0o600)
    assert unsafe_mode(root, root / "hello.py") is None


@pytest.mark.parametrize("place", ["", "orders", "orders/lib", "orders/lib/a.py", "orders/plugin.yaml"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_place_that_others_can_write_is_named_with_the_command(root: Path, place: str, mode: int) -> None:
    bad = root / place
    bad.chmod((bad.stat().st_mode & 0o777) | mode)
    found = fault(root)
    assert found.path == bad
    assert found.remedy == f"chmod go-w {bad}"
    assert ("everybody" if mode == 0o002 else "its group") in found.reason


def test_the_remedy_can_be_pasted_whatever_the_name(root: Path) -> None:
    bad = root / "orders" / "a b'城.py"
    bad.write_text("")
    bad.chmod(0o666)
    assert fault(root).remedy == f"chmod go-w '{root}/orders/a b'\"'\"'城.py'"


def test_a_sticky_root_itself_is_not_safe(root: Path) -> None:
    root.chmod(0o1777)
    assert fault(root).path == root


def test_a_writable_folder_above_is_not_safe_unless_sticky(root: Path) -> None:
    root.parent.chmod(0o777)
    assert fault(root).path == root.parent
    root.parent.chmod(0o1777)
    assert unsafe_mode(root, root / "orders") is None


def test_another_users_file_is_not_safe(root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file away")
    os.chown(root / "orders" / "lib" / "a.py", 12345, -1)
    found = fault(root)
    assert "belongs to another user" in found.reason
    assert found.remedy.startswith("chown ")
    assert unsafe_mode(root, root / "orders", uid=12345) is None


def test_a_linked_plugin_is_judged_where_it_lies(root: Path) -> None:
    elsewhere = root.parent / "elsewhere"
    shutil.move(root / "orders", elsewhere)
    (root / "orders").symlink_to(elsewhere)
    assert unsafe_mode(root, root / "orders") is None
    (elsewhere / "orders.py").chmod(0o666)
    assert fault(root).path == elsewhere / "orders.py"


def test_a_link_into_a_hidden_folder_is_judged_by_its_target(root: Path) -> None:
    data = root / "orders" / "..2026"
    (data / "pkg").mkdir(parents=True, mode=0o755)
    (data / "pkg" / "b.py").write_text("")
    (data / "pkg" / "b.py").chmod(0o644)
    (root / "orders" / "..data").symlink_to("..2026")
    (root / "orders" / "pkg").symlink_to("..data/pkg")
    assert unsafe_mode(root, root / "orders") is None
    (data / "pkg" / "b.py").chmod(0o666)
    assert fault(root).path == data / "pkg" / "b.py"
    (data / "pkg" / "b.py").chmod(0o644)
    data.chmod(0o777)
    assert fault(root).path == data


def test_link_loops_end(root: Path) -> None:
    (root / "orders" / "loop").symlink_to(".")
    (root / "orders" / "lost").symlink_to("missing")
    (root / "orders" / "out").symlink_to("/tmp")
    assert unsafe_mode(root, root / "orders") is None


def test_what_is_no_content_is_not_judged(root: Path) -> None:
    (root / "orders" / "__pycache__").mkdir()
    (root / "orders" / "__pycache__").chmod(0o777)
    assert unsafe_mode(root, root / "orders") is None


def test_the_look_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_modes, "MAX_ENTRIES", 3)
    assert "more than 3 entries" in fault(root).reason


def test_a_vanished_plugin_is_an_error_not_safe(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        unsafe_mode(root, root / "missing")


def status(mode: int, *, uid: int = 1000, gid: int = 1000) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "uid", "name", "members", "acl", "safe"),
    [
        (0o40775, 1000, "ada", [], False, True),
        (0o40775, 1000, "ada", ["ada"], False, True),
        (0o40775, 1000, "staff", ["ada"], False, True),
        (0o40777, 1000, "ada", [], False, False),
        (0o40775, 1000, "staff", [], False, False),
        (0o40775, 1000, "ada", ["ada", "bob"], False, False),
        (0o40775, 1000, "ada", ["bob"], False, False),
        (0o40775, 1000, "ada", [], True, False),
        (0o40775, 0, "root", [], False, False),
    ],
)
def test_a_group_of_the_owner_alone_is_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
    *,
    mode: int,
    uid: int,
    name: str,
    members: list[str],
    acl: bool,
    safe: bool,
) -> None:
    monkeypatch.setattr(strict_modes.pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="ada"))
    monkeypatch.setattr(
        strict_modes.grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=name, gr_mem=members)
    )
    monkeypatch.setattr(strict_modes, "_has_acl", lambda path: acl)
    fault = strict_modes._fault(Path("/x"), status(mode, uid=uid), frozenset({0, 1000}))
    assert (fault is None) is safe


def test_a_group_that_nobody_knows_is_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> object:
        raise KeyError(number)

    monkeypatch.setattr(strict_modes.grp, "getgrgid", unknown)
    assert strict_modes._fault(Path("/x"), status(0o40775), frozenset({1000})) is not None


def test_a_file_without_an_access_control_list_has_none(root: Path) -> None:
    assert not strict_modes._has_acl(root)
    assert strict_modes._has_acl(root / "gone"), "what cannot be looked at may have one"
