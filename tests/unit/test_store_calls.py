"""The file of records: asked by filter, paged while it grows, bounded by age and size."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermesd.errors import StoreError
from hermesd.model.call import Owner
from hermesd.model.record import CallFilter
from hermesd.store import calls as module
from hermesd.store.calls import CallStore, cutoff
from tests.rpc_doubles import SINCE, call_record

EVERYTHING = CallFilter()
FAR = 1 << 40


class Opened:
    def __init__(self, path: Path) -> None:
        self.lost = 0
        self.aside: list[tuple[Path, str]] = []
        self.path = path
        self.store = CallStore(path, lost=self.lose, moved_aside=lambda *told: self.aside.append(told))

    def lose(self, count: int) -> None:
        self.lost += count

    async def ids(self, asked: CallFilter = EVERYTHING, limit: int = 1000) -> list[str]:
        return [each.request_id for _, each in await self.store.page(asked, limit)]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made = Opened(tmp_path / "calls.duckdb")
    yield made
    made.store.close(5)


@pytest.mark.promise("REC-6")
async def test_a_record_comes_back_as_it_was_also_after_the_file_was_closed(tmp_path: Path) -> None:
    record = call_record(
        "请求", message="坏了 \x00", arguments='{"文":"💥"}', metadata_json='{"a":"b"}', code="TOOL_ERROR",
        at=datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), arguments_whole=False, degraded=True,
    )  # fmt: skip
    first = Opened(tmp_path / "calls.duckdb")
    first.store.record([record])
    await first.store.settled()
    assert await first.store.find("请求") == record
    first.store.close(5)
    second = Opened(tmp_path / "calls.duckdb")
    second.store.record([call_record("r-2")])
    await second.store.settled()
    assert await second.store.page(EVERYTHING, 10) == [(2, call_record("r-2")), (1, record)]
    assert await second.store.find("r-3") is None
    second.store.close(5)
    assert (first.lost, second.lost) == (0, 0)


async def test_pages_show_each_record_once_while_others_come(opened: Opened) -> None:
    opened.store.record([call_record(f"r-{number}") for number in range(120)])
    await opened.store.settled()
    seen: list[str] = []
    before = None
    while page := await opened.store.page(EVERYTHING, 50, before):
        seen += [each.request_id for _, each in page]
        before = page[-1][0]
        opened.store.record([call_record("late")])
        await opened.store.settled()
    assert seen == [f"r-{number}" for number in reversed(range(120))]


async def test_of_several_calls_with_one_id_the_last_is_found(opened: Opened) -> None:
    opened.store.record([call_record("r-1", code="TIMEOUT"), call_record("r-1", code="OK")])
    await opened.store.settled()
    found = await opened.store.find("r-1")
    assert found is not None
    assert found.code == "OK"


ROW = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(["a.x", "a.y", "b.x", "b.x.y"]),
        "agent": st.sampled_from(["ann", "bob"]),
        "agent_kind": st.sampled_from(["agent", "operator"]),
        "caller": st.sampled_from(["", "text"]),
        "source": st.sampled_from(["", "python"]),
        "code": st.sampled_from(["OK", "TIMEOUT"]),
        "session_id": st.sampled_from(["", "s"]),
        "at": st.integers(0, 5).map(lambda each: SINCE + timedelta(seconds=each)),
    }
)
ASKED = st.builds(
    CallFilter,
    tool=st.sampled_from(["", "a.*", "*.x", "b.x", "?.y"]),
    agent=st.sampled_from(["", "ann", "bob"]),
    session_id=st.sampled_from(["", "s"]),
    since=st.none() | st.integers(0, 5).map(lambda each: SINCE + timedelta(seconds=each)),
    until=st.none() | st.integers(0, 5).map(lambda each: SINCE + timedelta(seconds=each)),
    owner=st.none()
    | st.builds(Owner, st.sampled_from(["agent", "operator"]), st.sampled_from(["ann", "bob"])),
)


@pytest.mark.promise("REC-8")
@given(st.lists(ROW, max_size=12), st.lists(ASKED, min_size=1, max_size=5))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_filter_means_in_the_file_what_it_means_for_calls_in_flight(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict], asked: list[CallFilter]
) -> None:
    from hermesd.daemon.recording import _is_meant  # noqa: PLC0415 - the other half of the comparison

    async def compare() -> None:
        opened = Opened(tmp_path_factory.mktemp("calls") / "calls.duckdb")
        records = [call_record(f"r-{number}", **row) for number, row in enumerate(rows)]
        opened.store.record(records)
        await opened.store.settled()
        for each in asked:
            meant = [record for record in reversed(records) if _is_meant(record, each)]
            assert [record for _, record in await opened.store.page(each, 100)] == meant
            assert (await opened.store.stats(each, ())).calls == len(meant)
        opened.store.close(5)

    asyncio.run(compare())


async def test_codes_are_asked_of_calls_that_ended(opened: Opened) -> None:
    opened.store.record([call_record("r-1"), call_record("r-2", code="TIMEOUT")])
    await opened.store.settled()
    assert await opened.ids(CallFilter(code="OK")) == ["r-1"]
    assert await opened.ids(CallFilter(failed=True)) == ["r-2"]


@pytest.mark.promise("REC-4")
async def test_stats_of_nothing_are_empty_and_of_many_are_percentiles_by_tool(opened: Opened) -> None:
    nothing = await opened.store.stats(EVERYTHING, ["a.x", "b.y"])
    assert (nothing.calls, nothing.unused, nothing.first) == (0, ("a.x", "b.y"), None)
    opened.store.record(
        [call_record(f"r-{each}", tool="a.x", duration_ms=float(each)) for each in range(1, 101)]
    )
    wrong = {"tool": "a.x", "code": "INVALID_ARGUMENT"}
    opened.store.record([call_record("w", reason="/n: missing", **wrong)] * 3)
    opened.store.record([call_record("w", message="odd", **wrong)])
    opened.store.record([call_record("u", tool="a.z", code="UNKNOWN_TOOL", source="", message="no a.z")])
    await opened.store.settled()
    stats = await opened.store.stats(EVERYTHING, ["a.x", "b.y"])
    assert (stats.calls, stats.unused) == (105, ("b.y",))
    assert dict(stats.codes) == {"INVALID_ARGUMENT": 4, "OK": 100, "UNKNOWN_TOOL": 1}
    [tool] = stats.tools
    assert (tool.calls, dict(tool.codes)) == (104, {"INVALID_ARGUMENT": 4, "OK": 100})
    assert 48 <= tool.p50_ms <= 52
    assert 94 <= tool.p95_ms <= 96
    assert 98 <= tool.p99_ms <= 100
    assert [(each.tool, each.count, each.calls, each.example) for each in stats.miscalled] == [
        ("a.x", 4, 104, "/n: missing"), ("a.z", 1, 1, "no a.z"),
    ]  # fmt: skip


@pytest.mark.promise("REC-9")
async def test_what_is_too_old_goes(opened: Opened) -> None:
    days = [call_record(f"day-{each}", at=SINCE - timedelta(days=each)) for each in (40, 31, 29, 0)]
    opened.store.record(days)
    await opened.store.settled()
    opened.store.sweep(cutoff(SINCE, 30), FAR)
    await opened.store.settled()
    assert await opened.ids() == ["day-0", "day-29"]
    opened.store.sweep(cutoff(SINCE, 0), FAR)
    await opened.store.settled()
    assert await opened.ids() == ["day-0", "day-29"]
    assert opened.lost == 0


@pytest.mark.promise("REC-9")
async def test_beyond_the_size_the_oldest_go(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_used_bytes", lambda connection: 200)
    opened.store.record([call_record(f"r-{each}") for each in range(100)])
    await opened.store.settled()
    opened.store.sweep(cutoff(SINCE, 30), 100)
    await opened.store.settled()
    left = await opened.ids()
    assert left == [f"r-{each}" for each in reversed(range(100 - len(left), 100))]
    assert 40 <= len(left) <= 50


async def test_the_size_of_a_file_grows_with_what_is_in_it(opened: Opened) -> None:
    opened.store.record([call_record(f"r-{each}", arguments="x" * 2000 + str(each)) for each in range(3000)])
    await opened.store.settled()
    await asyncio.wrap_future(opened.store._writer.submit(Checkpoint()))
    [size] = [await asyncio.wrap_future(opened.store._writer.submit(Size()))]
    assert size > 500_000
    opened.store.sweep(cutoff(SINCE, 30), 250_000)
    await opened.store.settled()
    assert len(await opened.ids(limit=5000)) < 3000


class Checkpoint(module.Job):
    def apply(self, connection: object) -> object:
        connection.commit()  # type: ignore[attr-defined]
        connection.execute("CHECKPOINT")  # type: ignore[attr-defined]
        connection.begin()  # type: ignore[attr-defined]
        return None


class Size(module.Job):
    def apply(self, connection: object) -> object:
        return module._used_bytes(connection)  # type: ignore[arg-type]


@pytest.mark.promise("REC-7")
async def test_a_file_that_cannot_be_opened_loses_records_with_a_count(tmp_path: Path) -> None:
    (tmp_path / "calls.duckdb").mkdir()
    opened = Opened(tmp_path / "calls.duckdb")
    opened.store.record([call_record(f"r-{each}") for each in range(120)])
    with pytest.raises(StoreError):
        await opened.store.settled()
    assert opened.lost == 120
    with pytest.raises(StoreError):
        await opened.ids()
    assert opened.store.failure is not None
    opened.store.close(5)
    opened.store.record([call_record("late")])
    assert opened.lost == 121


@pytest.mark.promise("REC-7")
async def test_a_damaged_file_is_put_aside_and_records_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "calls.duckdb"
    path.write_bytes(b"no database at all" * 1000)
    opened = Opened(path)
    opened.store.record([call_record("r-1")])
    await opened.store.settled()
    assert await opened.ids() == ["r-1"]
    [(aside, reason)] = opened.aside
    assert aside.exists()
    assert reason
    opened.store.close(5)


async def test_sweeping_opens_no_file_that_is_not_there(opened: Opened) -> None:
    opened.store.sweep(cutoff(SINCE, 30), 100)
    await asyncio.sleep(0)
    assert not opened.path.exists()
