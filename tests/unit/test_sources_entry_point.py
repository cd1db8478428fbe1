"""Installed packages run only when the operator named their distribution."""

from __future__ import annotations

from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

from hermesd.sources.entry_point import EntryPointSource, normalised
from hermesd.sources.source import Origin


def installed(tmp_path: Path, name: str, version: str = "1.0", point: str = "acme") -> EntryPoint:
    info = tmp_path / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[hermesd]\n{point} = acme.tools:plugin\n")
    (found,) = Distribution.at(info).entry_points
    return found


def test_only_named_distributions_are_enabled_and_others_are_listed(tmp_path: Path) -> None:
    points = [installed(tmp_path, "Acme.Tools"), installed(tmp_path, "other")]
    taken = EntryPointSource(("acme_tools",), installed=lambda: points).scan()
    assert [(each.distribution, each.enabled) for each in taken.found] == [
        ("acme-tools", True),
        ("other", False),
    ]
    acme, other = taken.found
    assert (acme.origin, acme.version, acme.entry_point, acme.reference) == (
        Origin.ENTRY_POINT,
        "1.0",
        "acme",
        "acme.tools:plugin",
    )
    assert acme.unit == "entry_point:acme-tools:acme"
    assert "plugins.entry_points" in other.remedy
    assert taken.faults == ()


def test_true_enables_all(tmp_path: Path) -> None:
    points = [installed(tmp_path, "a"), installed(tmp_path, "b")]
    assert all(each.enabled for each in EntryPointSource(True, installed=lambda: points).scan().found)


def test_a_named_distribution_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    """hermes-agent#33924, #53667: one wrong name, and the list of tools was empty."""
    taken = EntryPointSource(("acme",), installed=list).scan()
    assert "'acme'" in taken.faults[0].reason
    assert "install acme" in taken.faults[0].remedy


def test_a_new_version_is_another_fingerprint(tmp_path: Path) -> None:
    old, new = installed(tmp_path, "a", "1.0"), installed(tmp_path, "a", "1.1")
    (one,) = EntryPointSource(True, installed=lambda: [old]).scan().found
    (two,) = EntryPointSource(True, installed=lambda: [new]).scan().found
    assert one.unit == two.unit
    assert one.fingerprint != two.fingerprint


def test_an_entry_point_of_no_distribution_cannot_be_named_and_is_left_out() -> None:
    assert EntryPointSource(True, installed=lambda: [EntryPoint("x", "y:z", "hermesd")]).scan().found == ()


def test_broken_metadata_is_a_fault_not_a_crash() -> None:
    def broken() -> list[EntryPoint]:
        raise OSError("unreadable")

    assert "unreadable" in EntryPointSource((), installed=broken).scan().faults[0].reason


def test_the_real_environment_can_be_looked_at() -> None:
    EntryPointSource(()).scan()


def test_names_are_compared_as_package_indexes_do() -> None:
    assert normalised("Acme__Tools.-x") == "acme-tools-x"
