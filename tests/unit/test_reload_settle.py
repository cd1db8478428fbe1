"""A change is reported when it is complete, once, and never later than its bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.reload.settle import ScanState, Settling, Step, scan_state
from hermesd.sources.source import Found, Origin, Root, RootState, Scan

ROOT = "/p"
UNIT = "/p/orders"
MANIFEST = f"{UNIT}/plugin.yaml"


def state(
    version: int = 1, size: int = 10, *, root: tuple[int, ...] = (1, 2, 0, 0), **others: int
) -> ScanState:
    """The unit with its manifest, and others by name with a version each."""
    units: dict[str, tuple[object, ...]] = {UNIT: (("plugin.yaml", 1, version, size, version, version),)}
    units |= {f"{ROOT}/{name}": (("x.py", 1, 9, 9, other, other),) for name, other in others.items()}
    return ScanState(units, {ROOT: root})


def gone(root: tuple[int, ...] = (1, 2, 0, 0), **others: int) -> ScanState:
    kept = state(**others)
    return ScanState({unit: marks for unit, marks in kept.units.items() if unit != UNIT}, {ROOT: root})


def machine(reported: ScanState | None = None) -> Settling:
    return Settling(reported=state() if reported is None else reported)


def settled_at(settling: Settling, seen: ScanState, start: float = 0.0, until: float = 30.0) -> float:
    """When the machine reports `seen`, scanned as it asks for; inf when it never does."""
    now = start
    while now < until:
        step = settling.observe(seen, now)
        if step.settled:
            return now
        if step.again_at is None:
            return float("inf")
        assert step.again_at > now
        now = step.again_at
    return float("inf")


def test_nothing_changed_nothing_is_said() -> None:
    assert machine().observe(state(), 0.0) == Step(frozenset(), frozenset(), False, None)


def test_two_equal_scans_settle_a_change_once() -> None:
    settling = machine()
    first = settling.observe(state(2), 1.0)
    assert (first.settled, first.unsettled, first.found) == (frozenset(), {UNIT}, True)
    assert first.again_at == pytest.approx(1.075)
    second = settling.observe(state(2), 1.075)
    assert (second.settled, second.unsettled, second.again_at) == ({UNIT}, frozenset(), None)
    assert settling.observe(state(2), 2.0) == Step(frozenset(), frozenset(), False, None)


def test_two_equal_scans_too_close_settle_nothing() -> None:
    settling = machine()
    settling.observe(state(2), 0.0)
    assert not settling.observe(state(2), 0.05).settled


def test_a_difference_between_scans_starts_the_wait_again() -> None:
    settling = machine()
    settling.observe(state(2), 0.0)
    settling.observe(state(3), 0.07)
    assert not settling.observe(state(3), 0.1).settled
    assert settling.observe(state(3), 0.15).settled == {UNIT}


def test_a_change_that_is_taken_back_was_none() -> None:
    settling = machine()
    settling.observe(state(2), 0.0)
    assert settling.observe(state(1), 0.03) == Step(frozenset(), frozenset(), False, None)
    assert settling.observe(state(1), 1.0).settled == frozenset()


def test_without_a_report_everything_found_is_a_change() -> None:
    assert settled_at(machine(ScanState()), state()) == pytest.approx(0.075)


def test_a_new_and_a_removed_plugin_settle_like_a_change() -> None:
    settling = machine()
    settling.observe(gone(new=1), 0.0)
    assert settling.observe(gone(new=1), 0.08).settled == {UNIT, f"{ROOT}/new"}


def test_many_files_changed_together_are_named_together() -> None:
    """ViSiON-3/vision-3-bbs#320: a debounce that keeps the last file only."""
    names = {f"p{number}": 1 for number in range(11)}
    settling = machine()
    settling.observe(state(1, **names), 0.0)
    assert settling.observe(state(1, **names), 0.08).settled == {f"{ROOT}/{name}" for name in names}


def test_a_file_that_is_still_open_is_waited_for() -> None:
    """samuelcolvin/watchfiles#345: the event before the writer closed."""
    settling = machine()
    settling.modified(MANIFEST, 0.0)
    settling.observe(state(2), 0.0)
    for now in (0.1, 0.5, 3.0, 5.0):
        assert settling.observe(state(2), now).unsettled == {UNIT}
    settling.closed(MANIFEST)
    assert settling.observe(state(2), 5.1).settled == {UNIT}


def test_an_open_file_is_not_waited_for_without_end() -> None:
    settling = machine()
    settling.modified(MANIFEST, 0.0)
    assert settled_at(settling, state(2)) == pytest.approx(10.0, abs=0.01)


def test_an_open_file_holds_only_its_own_plugin() -> None:
    settling = machine()
    settling.modified(MANIFEST, 0.0)
    settling.observe(state(2, other=1), 0.0)
    step = settling.observe(state(2, other=1), 0.1)
    assert (step.settled, step.unsettled) == ({f"{ROOT}/other"}, {UNIT})


def test_what_was_deleted_or_replaced_is_open_no_more() -> None:
    settling = machine()
    settling.modified(f"{UNIT}/lib/a.py", 0.0)
    settling.gone(f"{UNIT}/lib")
    settling.modified(MANIFEST, 0.0)
    settling.gone(MANIFEST)
    assert settled_at(settling, state(2)) == pytest.approx(0.075)


def test_a_file_that_had_content_and_is_empty_is_waited_for() -> None:
    """xremap#896: an empty read, then garbage; the old must serve meanwhile."""
    settling = machine()
    for now in (0.0, 0.2, 5.0):
        assert settling.observe(state(2, size=0), now).unsettled == {UNIT}
    assert not settling.observe(state(3, size=7), 5.1).settled
    assert settling.observe(state(3, size=7), 5.2).settled == {UNIT}


def test_an_emptied_file_is_reported_after_its_bound() -> None:
    assert settled_at(machine(), state(2, size=0)) == pytest.approx(10.0, abs=0.01)


def test_a_file_that_was_always_empty_holds_nothing() -> None:
    settling = machine(state(1, size=0))
    assert settled_at(settling, state(2, size=0)) == pytest.approx(0.075)


def test_a_plugin_that_lost_all_its_files_is_waited_for() -> None:
    empty = ScanState({UNIT: (("/", 1, 1, 0o755, 0, 0),)}, state().roots)
    assert settled_at(machine(), empty) == pytest.approx(10.0, abs=0.01)


def test_a_created_file_is_waited_for_until_it_has_content_but_shortly() -> None:
    settling = machine(gone())
    settling.created(MANIFEST, 0.0)
    assert settled_at(settling, state(2, size=0)) == pytest.approx(1.0, abs=0.26)
    settling = machine(gone())
    settling.created(MANIFEST, 0.0)
    assert settled_at(settling, state(2, size=5)) == pytest.approx(0.075)


def test_a_removed_plugin_is_gone_at_once_while_its_root_stands() -> None:
    assert settled_at(machine(), gone()) == pytest.approx(0.075)


@pytest.mark.parametrize("root", [(), (1, 3, 0, 0)])
def test_plugins_that_went_with_their_root_are_waited_for(root: tuple[int, ...]) -> None:
    """A swapped or unmounted directory: empty for a moment, or absent."""
    settling = machine()
    assert settling.observe(gone(root), 0.0).unsettled == {UNIT}
    assert settling.observe(gone(root), 1.0).unsettled == {UNIT}
    assert settling.observe(state(), 2.0) == Step(frozenset(), frozenset(), False, None)
    assert settled_at(settling, gone(root), 3.0) == pytest.approx(13.0, abs=0.01)


def test_a_swapped_root_with_other_plugins_settles_at_once() -> None:
    assert settled_at(machine(), gone((1, 3, 0, 0), other=1)) == pytest.approx(0.075)


def test_a_writer_that_never_stops_is_reported_within_the_bound() -> None:
    settling, reports = machine(), []
    for tick in range(300):
        now = tick / 10
        settling.modified(MANIFEST, now)
        if settling.observe(state(tick + 2), now).settled:
            reports.append(now)
    assert reports == [10.0, 20.1]


def test_the_state_names_found_held_roots_and_files() -> None:
    scan = Scan(
        found=(Found("/p/a", "a", Origin.FOLDER, Path("/p/a"), (("x", 1, 2, 3, 4, 5),)),),
        held={"/p/b": ()},
        roots=(Root(Path("/p"), RootState.PRESENT, (1, 2, 3, 4)), Root(Path("/q"), RootState.ABSENT)),
    )
    taken = scan_state(scan, files={"/c/hermesd.yaml": (("hermesd.yaml", 1, 1, 1, 1, 1),), "/c/none": ()})
    assert set(taken.units) == {"/p", "/q", "/p/a", "/p/b", "/c/hermesd.yaml"}
    assert taken.roots == {"/p": (1, 2, 3, 4), "/q": ()}


actions = st.lists(
    st.tuples(
        st.sampled_from(
            ["modified", "closed", "created", "gone", "write", "empty", "remove", "root", "nothing"]
        ),
        st.floats(0.001, 3.0),
    ),
    max_size=25,
)


@given(actions)
def test_after_any_history_the_end_is_reported_exactly_and_within_the_bound(
    history: list[tuple[str, float]],
) -> None:
    """What was reported last equals what is there at the end, and the last report is no older."""
    settling, now, version, seen = machine(), 0.0, 1, state()
    reported: ScanState = state()
    for action, pause in history:
        version += 1
        if action in ("modified", "created"):
            getattr(settling, action)(MANIFEST, now)
        elif action in ("closed", "gone"):
            getattr(settling, action)(MANIFEST)
        elif action == "write":
            seen = state(version)
        elif action == "empty":
            seen = state(version, size=0)
        elif action == "remove":
            seen = gone()
        elif action == "root":
            seen = gone(())
        if settling.observe(seen, now).settled:
            reported = seen
        now += pause
    end = now
    while reported.units != seen.units:
        step = settling.observe(seen, now)
        if step.settled:
            reported = seen
            break
        if step.again_at is None:
            break
        now = step.again_at
    assert reported.units == seen.units
    assert now - end <= 10.001
    assert settling.observe(seen, now + 1) == Step(frozenset(), frozenset(), False, None)


def test_what_moves_on_after_it_settled_is_known_until_it_settles_again() -> None:
    settling = machine()
    settled_at(settling, state(2))
    assert settling.moved(state(2)) == frozenset()
    assert settling.moved(state(3)) == {UNIT}, "somebody writes again"
    assert settling.moved(gone()) == {UNIT}, "somebody renames: it is not gone yet"
    assert settling.moved(state(2, new=1)) == {f"{ROOT}/new"}
    settled_at(settling, state(3), 5.0)
    assert settling.moved(state(3)) == frozenset()


def test_what_lies_in_a_directory_that_is_not_watched_yet_has_not_moved() -> None:
    elsewhere = ScanState({**state().units, "/q/more": (("x.py", 1, 1, 1, 1, 1),)}, dict(state().roots))
    assert machine().moved(elsewhere) == frozenset()


def test_what_never_comes_to_rest_is_taken_as_it_is() -> None:
    settling = machine()
    now, version = 0.0, 2
    while True:
        step = settling.observe(state(version), now)
        if step.settled:
            break
        now, version = now + 0.05, version + 1
    assert settling.moved(state(version + 1)) == frozenset()
    settled_at(settling, state(version + 2), now + 1)
    assert settling.moved(state(version + 3)) == {UNIT}, "it has come to rest since"
