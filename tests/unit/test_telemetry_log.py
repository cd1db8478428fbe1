"""The daemon's log lines: structured, clean, one record a line."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Literal

import pytest

from hermesd.clock import SystemClock
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.log import LEVELS, configure, is_journal

Start = Callable[[Literal["text", "json"], str], io.StringIO]


@pytest.fixture
def start() -> Iterator[Start]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def begin(format: Literal["text", "json"], level: str = "info") -> io.StringIO:
        stream = io.StringIO()
        configure(format, level, stream)
        return stream

    yield begin
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


log = logging.getLogger("hermesd.test")


def test_a_json_line_holds_the_fields_and_none_hides_what_is_fixed(start: Start) -> None:
    stream = start("json", "info")
    log.warning("查询 %s", "订单", extra={"fields": {"plugin": "orders", "level": "x", "n": 1}, "more": [1]})
    line = json.loads(stream.getvalue())
    at = line.pop("at")
    assert at.endswith("Z")
    assert len(at) == len("2026-11-30T18:38:07.123456Z")
    assert line == {
        "level": "warning",
        "logger": "hermesd.test",
        "message": "查询 订单",
        "plugin": "orders",
        "level_": "x",
        "n": 1,
        "more": [1],
    }


def test_a_text_line_reads_like_a_log_and_quotes_what_needs_it(start: Start) -> None:
    stream = start("text", "info")
    log.info("plugin ready", extra={"fields": {"plugin": "orders", "why": "two words", "n": 3, "empty": ""}})
    time, rest = stream.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'INFO    hermesd.test: plugin ready plugin=orders why="two words" n=3 empty=""\n'


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.promise("OPS-6")
def test_a_line_from_outside_can_neither_forge_another_nor_move_the_cursor(
    start: Start, format: Literal["text", "json"]
) -> None:
    stream = start(format, "info")
    hostile = "x\n2026-11-30 ERROR forged\x1b[2J\u202e"
    log.info("%s", hostile, extra={"fields": {hostile: hostile, "deep": [{"a": hostile}]}})
    assert stream.getvalue().count("\n") == 1
    assert not set(stream.getvalue()) & set("\x1b\u202e")


def test_a_traceback_is_kept_and_clean(start: Start) -> None:
    text, as_json = start("text", "info"), None
    try:
        raise ValueError("bad\x1b[31m 值")
    except ValueError:
        log.exception("failed")
        as_json = start("json", "info")
        log.exception("failed")
    assert "ValueError: bad 值" in text.getvalue()
    assert "ValueError: bad 值" in json.loads(as_json.getvalue())["traceback"]


def test_the_level_decides_and_an_unknown_one_is_refused_with_the_known_ones(start: Start) -> None:
    stream = start("text", "WARNING")
    log.info("quiet")
    log.warning("loud")
    assert stream.getvalue().count("\n") == 1
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        start("text", "verbose")
    assert LEVELS == ("debug", "info", "warning", "error")


def test_configuring_again_replaces_the_handler(start: Start) -> None:
    first, second = start("text", "info"), start("text", "info")
    log.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_in_the_journal_each_line_carries_its_priority(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    del start  # for its clean-up
    reading, writing = os.pipe()
    found = os.fstat(writing)
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
    with os.fdopen(writing, "w") as stream, os.fdopen(reading) as reader:
        configure("text", "debug", stream)
        log.error("broken")
        log.debug("detail")
        try:
            raise ValueError("x")
        except ValueError:
            log.warning("two", exc_info=True)
        stream.close()
        lines = reader.read().splitlines()
    assert lines[:2] == ["<3>hermesd.test: broken", "<7>hermesd.test: detail"]
    assert len(lines) > 3
    assert all(each.startswith("<4>") for each in lines[2:])


def test_a_stream_that_is_not_the_journal_is_told_apart() -> None:
    assert not is_journal(sys.__stderr__ or sys.stderr, "")
    assert not is_journal(io.StringIO(), "1:2")
    with open(os.devnull, "w") as stream:
        assert not is_journal(stream, "0:0")


@pytest.mark.promise("DOC-1")
def test_an_event_is_told_once_on_a_text_line_and_whole_in_json(start: Start) -> None:
    events = EventLog(SystemClock())
    stream = start("text", "info")
    digest = "sha256:" + "ab" * 32
    events.emit("plugin_ready", "orders", "1.0.0 serves 2 tools", digest=digest, tools=2)
    events.emit("plugin_unavailable", "orders", "not trusted", remedy="trust it", files=["a"])
    events.emit("plugin_trusted", "orders", digest=digest, by="operator", notes=[])
    events.emit("daemon_stopped", "")
    lines = [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        "INFO    plugin_ready orders: 1.0.0 serves 2 tools",
        "WARNING plugin_unavailable orders: not trusted (trust it)",
        "INFO    plugin_trusted orders: digest=abababababab by=operator",
        "INFO    daemon_stopped",
    ]
    stream = start("json", "info")
    events.emit("plugin_ready", "orders", "1.0.0 serves 2 tools", digest=digest, tools=2)
    line = json.loads(stream.getvalue())
    assert line["message"] == "plugin_ready orders: 1.0.0 serves 2 tools"
    told = (line["event"], line["subject"], line["seq"], line["digest"], line["tools"])
    assert told == ("plugin_ready", "orders", 5, digest, 2)
