"""Plugin logs: bounded, rotated, never in the way of a call."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesd.errors import ExhaustedError, FellBehindError
from hermesd.telemetry.plugin_log import PluginLog, PluginLogLine

Make = Callable[..., PluginLog]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[PluginLog] = []

    def begin(**options: object) -> PluginLog:
        made.append(PluginLog(tmp_path / "logs", **options))  # type: ignore[arg-type]
        return made[-1]

    yield begin
    for each in made:
        each.close()


async def test_a_line_keeps_the_call_that_it_belongs_to(make: Make) -> None:
    log = make()
    log.write(
        plugin="orders",
        tool="orders.query_status",
        request_id="r1",
        session_id="s1",
        attempt=2,
        level="warning",
        message="慢 query\x1b[2J\nsecond line",
        fields={"ms": 12, "who": "a\u202eb"},
    )
    (line,) = await log.tail("orders", 10)
    assert (line.plugin, line.tool, line.request_id, line.session_id, line.attempt, line.level) == (
        "orders",
        "orders.query_status",
        "r1",
        "s1",
        2,
        "warning",
    )
    assert line.message == "慢 query\nsecond line"
    assert line.fields == {"ms": 12, "who": "ab"}
    assert line.at.tzinfo is not None


async def test_tail_answers_what_was_just_written_in_order(make: Make) -> None:
    log = make()
    for number in range(1000):
        log.write(plugin="orders", message=str(number))
        log.write(plugin="other", message="x")
    assert [each.message for each in await log.tail("orders", 3)] == ["997", "998", "999"]
    assert await log.tail("orders", 0) == []
    assert await log.tail("nobody", 5) == []
    assert await log.tail("../etc/passwd", 5) == []


async def test_files_are_private_rotated_and_bounded_and_tail_spans_them(make: Make, tmp_path: Path) -> None:
    log = make(max_bytes=2000, keep=2)
    for number in range(100):
        log.write(plugin="orders", message=f"{number:03} {'x' * 100}")
    lines = await log.tail("orders", 1000)
    numbers = [int(each.message[:3]) for each in lines]
    assert numbers == list(range(numbers[0], 100))
    files = sorted(each.name for each in (tmp_path / "logs").iterdir())
    assert files == ["orders.jsonl", "orders.jsonl.1", "orders.jsonl.2"]
    assert all((tmp_path / "logs" / each).stat().st_size <= 2000 for each in files)
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "logs" / "orders.jsonl").stat().st_mode & 0o777 == 0o600
    assert [int(each.message[:3]) for each in await log.tail("orders", 9)] == list(range(91, 100))


async def test_follow_begins_with_the_last_lines_and_loses_and_repeats_none(make: Make) -> None:
    log = make()
    for number in range(5):
        log.write(plugin="orders", message=str(number))
    got: list[str] = []
    writer = threading.Thread(
        target=lambda: [log.write(plugin="orders", message=str(each)) for each in range(5, 505)]
    )
    writer.start()
    follow = log.follow("orders", lines=1000)
    async for line in follow:
        got.append(line.message)
        if len(got) == 505:
            break
    await follow.aclose()  # type: ignore[attr-defined]
    writer.join()
    assert got == [str(each) for each in range(505)]


async def test_a_line_written_after_following_began_is_never_missed_however_busy_the_writer(
    make: Make,
) -> None:
    log = make()
    held = threading.Event()
    log._ask(lambda: [held.wait(20)][:0])  # both of the next two reach the thread in one batch
    log.write(plugin="orders", message="before")
    follow = log.follow("orders")
    waiting = asyncio.ensure_future(anext(follow))
    await asyncio.sleep(0)
    log.write(plugin="orders", message="after")
    held.set()
    assert (await asyncio.wait_for(waiting, 20)).message == "after"
    await follow.aclose()  # type: ignore[attr-defined]


async def test_follow_ends_when_the_log_is_closed(make: Make) -> None:
    log = make()
    follow = log.follow("orders")
    waiting = asyncio.ensure_future(anext(follow))
    log.write(plugin="other", message="not mine")
    await log.tail("other", 1)
    log.write(plugin="orders", message="last")
    assert (await waiting).message == "last"
    await asyncio.to_thread(log.close)
    with pytest.raises(StopAsyncIteration):
        await anext(follow)
    with pytest.raises(ExhaustedError, match="closed"):
        await log.tail("orders", 1)


async def test_a_reader_that_is_too_slow_is_told(make: Make) -> None:
    log = make(capacity=4)
    follow = log.follow("orders")
    waiting = asyncio.ensure_future(anext(follow))
    await log.tail("orders", 1)
    log.write(plugin="orders", message="0")
    await waiting
    for number in range(1, 10):
        log.write(plugin="orders", message=str(number))
        await log.tail("orders", 1)
    with pytest.raises(FellBehindError):
        _ = [line async for line in follow]


@pytest.mark.promise("OPS-7")
async def test_a_full_queue_drops_and_counts_and_never_waits(make: Make, tmp_path: Path) -> None:
    dropped: list[int] = []
    log = make(capacity=10, dropped=dropped.append)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "stuck.jsonl").symlink_to(tmp_path / "nowhere")  # refused: links are not followed
    held = threading.Event()
    log._ask(lambda: [held.wait(20)][:0])  # the thread is busy now
    for number in range(30):
        log.write(plugin="orders", message=str(number))
    held.set()
    lines = await log.tail("orders", 100)
    assert len(lines) + sum(dropped) == 30
    assert sum(dropped) >= 10
    log.write(plugin="stuck", message="x")
    await log.tail("orders", 1)
    assert not (tmp_path / "nowhere").exists()


async def test_a_disk_that_refuses_is_reported_once_counted_and_tried_again(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dropped: list[int] = []
    (tmp_path / "logs").write_text("a file where the folder should be")
    log = make(dropped=dropped.append)
    for _ in range(3):
        log.write(plugin="orders", message="x")
        assert await log.tail("orders", 1) == []
    assert sum(dropped) == 3
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 1
    (tmp_path / "logs").unlink()
    log.write(plugin="orders", message="back")
    assert [each.message for each in await log.tail("orders", 5)] == ["back"]


def test_close_writes_what_is_queued_and_later_lines_count_as_dropped(make: Make, tmp_path: Path) -> None:
    dropped: list[int] = []
    log = make(dropped=dropped.append)
    for number in range(500):
        log.write(plugin="orders", message=str(number))
    log.close()
    log.close()
    log.write(plugin="orders", message="late")
    assert len((tmp_path / "logs" / "orders.jsonl").read_bytes().splitlines()) == 500
    assert dropped == [1]
    assert not [each for each in threading.enumerate() if each is log._thread]


async def test_a_line_cut_off_by_a_crash_is_left_out(make: Make, tmp_path: Path) -> None:
    log = make()
    log.write(plugin="orders", message="whole")
    await log.tail("orders", 1)
    with (tmp_path / "logs" / "orders.jsonl").open("ab") as file:
        file.write(b'{"at": "2026-11\n\xff\xfe\n[]\n' + b"[" * 100_000 + b"\n")
    assert [each.message for each in await log.tail("orders", 5)] == ["whole"]


def test_a_line_survives_json_and_back() -> None:
    line = PluginLogLine(
        datetime(2026, 11, 30, 1, 2, 3, 4, UTC), "p", "p.a_b", "r", "s", 1, "info", "消息", {"k": 1}
    )
    assert json.loads(line.to_json())["at"] == "2026-11-30T01:02:03.000004Z"
    assert PluginLogLine.from_json(line.to_json().encode()) == line


def test_a_name_that_is_no_plugins_never_becomes_a_path(make: Make) -> None:
    with pytest.raises(ValueError, match="no plugin name"):
        make().write(plugin="../../etc/cron.d/x", message="m")


async def test_huge_fields_are_replaced_by_their_size_and_an_unknown_level_is_info(make: Make) -> None:
    log = make()
    log.write(
        plugin="orders", level="shout", message="m" * 50_000, fields={str(n): "x" * 2000 for n in range(50)}
    )
    (line,) = await log.tail("orders", 1)
    assert line.level == "info"
    assert len(line.message) == 8000
    assert line.fields["truncated"] is True


def test_writing_is_cheap_enough_for_the_path_of_a_call(make: Make) -> None:
    log = make(capacity=100_000)
    began = time.process_time()
    for _ in range(2000):
        log.write(plugin="orders", message="hello", fields={"n": 1})
    assert time.process_time() - began < 5  # a write that waited for the disk each time would take longer
