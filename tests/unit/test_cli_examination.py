"""What `hermesd doctor` says of a machine, each check with a machine of the test's making."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermesd.cli import examination as ex
from hermesd.cli.examination import Finding, Listener, PathFacts

HERE = Path("/srv/hermesd")
FOLDER = 0o040000


def state_of(finding: Finding) -> str:
    """The state; whatever is not ok must come with a remedy."""
    assert finding.state == "ok" or finding.remedy
    assert finding.message
    return finding.state


@pytest.mark.parametrize(
    ("version", "free_threaded", "state"),
    [
        ((3, 11), False, "ok"),
        ((3, 14), False, "ok"),
        ((3, 10), False, "fail"),
        ((3, 15), False, "fail"),
        ((3, 13), True, "fail"),
    ],
)
def test_only_usual_builds_of_supported_versions_pass(
    version: tuple[int, int], free_threaded: bool, state: str
) -> None:
    assert state_of(ex.check_python(version, free_threaded=free_threaded)) == state


@pytest.mark.parametrize(
    ("soft", "state"), [(-1, "ok"), (65536, "ok"), (1024, "warn"), (255, "fail"), (0, "fail")]
)
def test_too_few_open_files_are_named(soft: int, state: str) -> None:
    assert state_of(ex.check_open_files(soft)) == state


@pytest.mark.parametrize(
    ("watches", "instances", "state"),
    [(65536, 512, "ok"), (100, 512, "warn"), (65536, 2, "warn"), (None, None, "warn")],
)
def test_short_inotify_limits_are_a_warning(watches: int | None, instances: int | None, state: str) -> None:
    assert state_of(ex.check_inotify(watches, instances)) == state


def test_the_first_fault_of_the_configuration_is_shown_with_its_place() -> None:
    found = ex.check_config(HERE, ["hermesd.yaml:3:1: unknown key", "other"], [])
    assert state_of(found) == "fail"
    assert "hermesd.yaml:3:1" in found.message
    assert "1 more" in found.message
    assert state_of(ex.check_config(HERE, [], ["later feature"])) == "warn"
    assert state_of(ex.check_config(None, [], [])) == "ok"


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (PathFacts(HERE, FOLDER | 0o755, uid=1000), "ok"),
        (PathFacts(HERE, FOLDER | 0o755, uid=0), "ok"),
        (PathFacts(HERE, FOLDER | 0o775, uid=1000), "fail"),
        (PathFacts(HERE, FOLDER | 0o757, uid=1000), "fail"),
        (PathFacts(HERE, FOLDER | 0o1777, uid=0), "ok"),
        (PathFacts(HERE, FOLDER | 0o755, uid=1001), "fail"),
        (PathFacts(HERE, FOLDER | 0o700, uid=0, readable=False), "fail"),
        (PathFacts(HERE, None), "warn"),
    ],
)
def test_what_others_could_write_is_refused(facts: PathFacts, state: str) -> None:
    assert state_of(ex.check_not_writable_by_others("plugin folder", facts, 1000)) == state


@pytest.mark.parametrize(
    ("facts", "parent_writable", "state"),
    [
        (PathFacts(HERE, FOLDER | 0o700, uid=1000, writable=True), False, "ok"),
        (PathFacts(HERE, FOLDER | 0o755, uid=1000, writable=True), False, "warn"),
        (PathFacts(HERE, FOLDER | 0o700, uid=0, writable=True), False, "fail"),
        (PathFacts(HERE, FOLDER | 0o500, uid=1000, writable=False), False, "fail"),
        (PathFacts(HERE, None), True, "ok"),
        (PathFacts(HERE, None), False, "fail"),
    ],
)
def test_the_data_folder_is_ours_alone(facts: PathFacts, parent_writable: bool, state: str) -> None:
    parent = PathFacts(HERE.parent, FOLDER | 0o755, writable=parent_writable)
    assert state_of(ex.check_private("data folder", facts, 1000, parent=parent)) == state


@pytest.mark.parametrize(
    ("mib", "inodes", "state"),
    [(10_000, 10_000, "ok"), (10_000, -1, "ok"), (500, -1, "warn"), (50, -1, "fail"), (10_000, 5, "fail")],
)
def test_a_disk_that_fills_up_is_named_before_it_is_full(mib: int, inodes: int, state: str) -> None:
    assert state_of(ex.check_disk(HERE, mib * 1024**2, inodes)) == state


@pytest.mark.parametrize(
    ("now", "installed", "newest", "state"),
    [(1000, 900, 950, "ok"), (800, 900, 0, "fail"), (1000, 900, 2000, "warn")],
)
def test_a_clock_that_lags_is_found(now: float, installed: float, newest: float, state: str) -> None:
    assert state_of(ex.check_clock(now, installed, newest)) == state


@pytest.mark.parametrize(
    ("listener", "state"),
    [
        (Listener("127.0.0.1:7480"), "ok"),
        (Listener("127.0.0.1:7480", "nginx (pid 7)"), "fail"),
        (Listener("127.0.0.1:7480", "hermesd (pid 9)", ours=True), "ok"),
        (Listener("unix:/run/x.sock", fault="/run cannot be written"), "fail"),
    ],
)
def test_an_address_that_somebody_else_holds_is_named(listener: Listener, state: str) -> None:
    assert state_of(ex.check_listener(listener)) == state


def test_a_daemon_that_does_not_run_is_a_warning_only() -> None:
    assert state_of(ex.check_daemon(None, "nobody listens", "hermesd serve")) == "warn"
    assert state_of(ex.check_daemon({"version": "0.1.0", "state": "ready"}, "", "")) == "ok"
    assert state_of(ex.check_daemon({"version": "0.1.0", "state": "ready", "rejected": 2}, "", "")) == "warn"
