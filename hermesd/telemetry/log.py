"""The daemon's log: structured, one record a line, nothing raw on a terminal.

Fields travel as `extra={"fields": {...}}` (any names) or as plain `extra` keys. Lines are written where
they are logged, so that the last one before a crash is there.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
from datetime import UTC, datetime
from typing import IO, Literal, cast

from hermesd.model.text import clean, clean_value, pairs, word

Format = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")

MESSAGE_LIMIT = 4000
TRACEBACK_LIMIT = 20_000
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "fields", "taskName"}
# Priorities of syslog, which journald reads from a line's prefix.
_PRIORITY = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


def configure(format: Format, level: str, stream: IO[str]) -> logging.Handler:  # noqa: A002 - the option's name
    """Make the root logger write to `stream` and nowhere else; answers the handler.

    `level` is one of LEVELS, in any case. Under systemd, where `stream` is the journal itself, text lines
    carry the priority instead of time and level, which the journal keeps by itself. Raises ValueError.
    """
    name = level.lower()
    if name not in LEVELS:
        raise ValueError(f"log level {level!r} is none of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(stream)
    if format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter(journal=is_journal(stream, os.environ.get("JOURNAL_STREAM", ""))))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(name.upper())
    return handler


def is_journal(stream: IO[str], journal_stream: str) -> bool:
    """Whether `stream` is the very socket that JOURNAL_STREAM (`device:inode`) names."""
    device, _, inode = journal_stream.partition(":")
    if not (device.isdigit() and inode.isdigit()):
        return False
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or no file at all
        return False
    return (found.st_dev, found.st_ino) == (int(device), int(inode))


class TextFormatter(logging.Formatter):
    """`TIME LEVEL logger: message key=value …` for people; an event once, as what happened to what.

    The fields of an event that its message tells are left to JSON; the remedy follows the message.
    """

    def __init__(self, *, journal: bool = False) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        message = clean(record.getMessage(), MESSAGE_LIMIT)
        fields = fields_of(record)
        if "event" in fields:
            line = _event_line(message, fields)
        else:
            words = "".join(f" {key}={word(value)}" for key, value in fields.items())
            line = f"{clean(record.name, 200)}: {message}{words}"
        text = _traceback_of(record)
        whole = f"{line}\n{text}" if text else line
        if not self._journal:
            return f"{_time_of(record)} {record.levelname:<7} {whole}"
        priority = next((number for floor, number in _PRIORITY if record.levelno >= floor), 7)
        return "\n".join(f"<{priority}>{each}" for each in whole.split("\n"))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger, message, then the fields; `fields` never hide the former."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": _time_of(record),
            "level": record.levelname.lower(),
            "logger": clean(record.name, 200),
            "message": clean(record.getMessage(), MESSAGE_LIMIT, multiline=True),
        }
        for key, value in fields_of(record).items():
            line[key if key not in line else f"{key}_"] = value
        if text := _traceback_of(record):
            line["traceback"] = text
        return json.dumps(line, ensure_ascii=False)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The structured part of a record: its `fields`, then any other extra attribute; clean and bounded."""
    named = getattr(record, "fields", None)
    raw = dict(named) if isinstance(named, dict) else {}
    for key, value in record.__dict__.items():
        if key not in _STANDARD:
            raw.setdefault(key, value)
    return cast("dict[str, object]", clean_value(raw))


def _event_line(message: str, fields: dict[str, object]) -> str:
    """`kind subject: message`; without a message the fields tell it."""
    told = " ".join(str(fields[each]) for each in ("event", "subject") if fields.get(each))
    if message != told:
        remedy = fields.get("remedy")
        return f"{message} ({remedy})" if remedy else message
    more = pairs({key: value for key, value in fields.items() if key not in ("event", "subject", "seq")})
    return f"{told}: {more}" if more else told


def _time_of(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _traceback_of(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    text = "".join(traceback.format_exception(*record.exc_info))
    return clean(text.rstrip("\n"), TRACEBACK_LIMIT, multiline=True)
