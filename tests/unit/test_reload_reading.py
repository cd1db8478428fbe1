"""A plan depends on the configuration, what the sources hold, and the data dir, and on nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesd.errors import ConfigError
from hermesd.reload.goal import Plan
from tests.reading_doubles import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def seen(plan: Plan) -> dict[str, str]:
    return {name: goal.run.spec.digest if goal.run else "" for name, goal in plan.goals.items()}


def test_an_unchanged_plugin_is_not_looked_at_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        site.plugin(name)
    site.read()
    added: list[str] = []
    real = site.contents.add

    def add(path: Path) -> object:
        added.append(path.name)
        return real(path)

    monkeypatch.setattr(site.contents, "add", add)
    site.read()
    assert added == []
    site.plugin("b", "2")
    site.read()
    assert added == ["b"]


def test_an_edit_of_the_same_size_in_the_same_second_is_noticed(site: Site) -> None:
    """cpython#120932."""
    folder = site.plugin("a", "1")
    first = site.digest("a")
    status = (folder / "main.py").stat()
    site.plugin("a", "2")
    os.utime(folder / "main.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert site.digest("a") != first


def test_an_edit_of_a_helper_alone_is_noticed(site: Site) -> None:
    """canvas-plugins#1546."""
    site.plugin("a", helpers="X = 1\n")
    first = site.digest("a")
    site.plugin("a", helpers="X = 2\n")
    assert site.digest("a") != first


def test_equal_content_is_an_equal_plan(site: Site) -> None:
    site.plugin("a", "1")
    site.follow("a")
    first = site.read()
    site.plugin("a", "2")
    site.read()
    site.plugin("a", "1")
    again = site.read()
    assert (again.revision, seen(again)) == (first.revision, seen(first))


def test_who_had_the_name_first_keeps_it(site: Site) -> None:
    site.plugin("orders", "1", folder="b")
    site.read()
    site.plugin("orders", "2", folder="a")
    for _ in range(2):
        plan = site.read()
        assert Path(plan.goals["orders"].path).name == "b"
        (collision,) = plan.rejections
        assert str(site.plugins / "a") in collision.reason
        assert str(site.plugins / "b") in collision.reason


def test_at_the_start_the_first_in_name_order_has_the_name(site: Site) -> None:
    site.plugin("orders", "1", folder="b")
    site.plugin("orders", "2", folder="a")
    assert Path(site.goal("orders").path).name == "a"


def test_a_name_that_is_given_up_is_taken_by_who_asked_for_it(site: Site) -> None:
    site.plugin("orders", "1", folder="b")
    site.read()
    site.plugin("orders", "2", folder="a")
    site.read()
    site.plugin("stock", "1", folder="b")
    plan = site.read()
    assert {name: Path(goal.path).name for name, goal in plan.goals.items()} == {"orders": "a", "stock": "b"}
    assert plan.rejections == ()


def test_a_broken_configuration_changes_nothing_and_is_told_with_its_place(site: Site) -> None:
    site.plugin("a")
    site.follow("a")
    good = site.read()
    site.config.write_text("plugins:\n  dirz: []\n")
    plan = site.read()
    assert (seen(plan), plan.configuration) == (seen(good), good.configuration)
    (rejection,) = plan.rejections
    assert (rejection.file, rejection.line) == (str(site.config), 2)


def test_without_any_good_configuration_there_is_no_plan(site: Site) -> None:
    site.config.write_text("plugins: [\n")
    with pytest.raises(ConfigError):
        site.read()


def test_what_is_being_written_stays_as_it_was_and_is_named(site: Site) -> None:
    folder = site.plugin("a", "1")
    site.follow("a")
    before = seen(site.read())
    site.plugin("a", "2")
    site.unsettled = frozenset({str(folder)})
    plan = site.read()
    assert seen(plan) == before
    assert [each.file for each in plan.notices if "being written" in each.reason] == [str(folder)]
    site.unsettled = frozenset()
    assert seen(site.read()) != before


def test_what_is_being_written_for_the_first_time_is_not_read(site: Site) -> None:
    folder = site.plugin("a", "1")
    site.unsettled = frozenset({str(folder)})
    assert site.read().goals == {}


def test_a_configuration_that_is_being_written_is_not_read(site: Site) -> None:
    site.plugin("a")
    site.follow("a")
    before = site.read()
    site.config.write_text("plugins: [\n")
    site.unsettled = frozenset({str(site.config)})
    plan = site.read()
    assert (seen(plan), plan.rejections) == (seen(before), ())


def test_a_plugin_directory_that_cannot_be_listed_removes_nothing(site: Site) -> None:
    site.plugin("a")
    site.follow("a")
    before = seen(site.read())
    moved = site.plugins.rename(site.path / "aside")
    site.plugins.write_text("no directory")
    plan = site.read()
    assert seen(plan) == before
    assert plan.rejections
    site.plugins.unlink()
    moved.rename(site.plugins)
    assert seen(site.read()) == before


def test_a_removed_plugin_is_gone(site: Site) -> None:
    folder = site.plugin("a")
    site.read()
    for each in sorted(folder.iterdir()):
        each.unlink()
    folder.rmdir()
    assert site.read().goals == {}


def test_a_fault_of_one_manifest_is_its_own(site: Site) -> None:
    """FRR#10453: bad YAML in one of ten."""
    for number in range(10):
        site.plugin(f"p{number}")
    site.follow(*(f"p{number}" for number in range(10)))
    site.read()
    site.write(site.plugins / "p3" / "plugin.yaml", "name: p3\nversion: [\n")
    plan = site.read()
    assert len(plan.goals) == 10
    (rejection,) = plan.goals["p3"].rejections
    assert rejection.file == str(site.plugins / "p3" / "plugin.yaml")
    assert rejection.line
    assert not any(goal.rejections for name, goal in plan.goals.items() if name != "p3")


def test_a_name_in_the_configuration_that_nothing_holds_is_noticed(site: Site) -> None:
    site.configure(trusted={"ordres": {"follow": True}}, untrusted={"b": {}}, settings={"c": {}})
    notices = [each for each in site.read().notices if "no source holds" in each.reason]
    assert {each.name for each in notices} == {"ordres", "b", "c"}
    assert all(each.file == str(site.config) and each.line for each in notices)


async def test_recording_keeps_what_is_needed_and_lets_go_of_the_rest(site: Site) -> None:
    site.plugin("a", "0")
    site.configure(trusted={"a": {"follow": True}}, kept_contents=2)
    digests = []
    for number in range(5):
        site.plugin("a", str(number))
        run = site.goal("a").run
        assert run is not None
        digests.append(run.spec.digest)
        await site.reading.record([run], {digests[0]})
    kept = [digest for digest in digests if site.contents.get(digest) is not None]
    assert kept == [digests[0], *digests[-2:]]
    last = site.served.last_good("a")
    assert last is not None
    assert last.digest == digests[-1]


def test_a_store_that_was_full_is_tried_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.plugin("a")
    real = site.contents.add
    monkeypatch.setattr(site.contents, "add", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    assert "No space left" in site.goal("a").rejections[0].reason
    monkeypatch.setattr(site.contents, "add", real)
    assert site.goal("a").rejections == ()


@pytest.mark.parametrize("content", ["", "\t- x\n", "a: 1\na: 2\n", "[]", "\x00\x01"])
def test_a_manifest_that_is_none_is_told(site: Site, content: str) -> None:
    folder = site.plugin("a")
    site.write(folder / "plugin.yaml", content)
    assert site.goal("a").rejections


def test_an_entry_that_is_not_there_is_told(site: Site) -> None:
    folder = site.plugin("a")
    (folder / "main.py").unlink()
    assert "main.py" in site.goal("a").rejections[0].reason
