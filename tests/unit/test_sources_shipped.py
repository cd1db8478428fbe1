"""Shipped files are found from a wheel and from a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

import hermesd
from hermesd.errors import NotFoundError
from hermesd.sources.bundled import BundledSource
from hermesd.sources.shipped import shipped
from hermesd.sources.source import Origin


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "site" / "hermesd"
    package.mkdir(parents=True)
    monkeypatch.setattr(hermesd, "__file__", str(package / "__init__.py"))
    return package


def test_a_wheel_has_them_inside_the_package(installation: Path) -> None:
    (installation / "_shipped" / "systemd").mkdir(parents=True)
    assert shipped("systemd") == installation / "_shipped" / "systemd"


def test_a_checkout_has_them_beside_the_package(installation: Path) -> None:
    (installation.parent / "plugins").mkdir()
    (installation.parent / "pyproject.toml").write_text("")
    assert shipped("plugins") == installation.parent / "plugins"


def test_a_folder_that_only_happens_to_lie_there_is_not_ours(installation: Path) -> None:
    (installation.parent / "plugins").mkdir()
    with pytest.raises(NotFoundError, match="missing"):
        shipped("plugins")


def test_only_what_is_shipped_can_be_asked_for() -> None:
    with pytest.raises(NotFoundError):
        shipped("../etc")


def test_an_incomplete_installation_is_a_fault_never_an_empty_set(installation: Path) -> None:
    (fault,) = BundledSource().scan().faults
    assert "install hermesd again" in fault.remedy


def test_bundled_plugins_have_their_own_origin(tmp_path: Path) -> None:
    (tmp_path / "time").mkdir()
    (tmp_path / "time" / "plugin.yaml").write_text("name: time\n")
    (found,) = BundledSource(tmp_path).scan().found
    assert (found.origin, found.label) == (Origin.BUNDLED, "time")
