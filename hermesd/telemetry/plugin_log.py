"""What plugins say: JSON lines per plugin, rotated, bounded, written by one thread.

Whoever logs never waits for the disk: a line is queued, or counted as dropped when the queue is full or
the disk refuses it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import cast

from hermesd.clock import Clock, SystemClock
from hermesd.errors import ExhaustedError, FellBehindError
from hermesd.model.name import PLUGIN_NAME
from hermesd.model.text import clean, clean_value
from hermesd.telemetry.rotation import RotatedFile

MESSAGE_LIMIT = 8000
FIELDS_LIMIT = 16_000
LEVELS = frozenset({"debug", "info", "warning", "error"})
_MAX_COMMANDS = 64
_TAIL_CHUNK = 64 * 1024
_log = logging.getLogger("hermesd.plugin_log")


@dataclass(frozen=True, slots=True)
class PluginLogLine:
    """One line of a plugin. `at` is UTC; `tool` and what follows are empty outside a call; text is clean."""

    at: datetime
    plugin: str
    tool: str
    request_id: str
    session_id: str
    attempt: int
    level: str
    message: str
    fields: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line of JSON, without the newline."""
        values = asdict(self)
        values["at"] = self.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
        return json.dumps(values, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: bytes) -> PluginLogLine | None:
        """The line as it was written; None when it is damaged (cut off by a crash, edited by hand)."""
        try:
            values = json.loads(text)
            return cls(**{**values, "at": datetime.fromisoformat(values["at"])})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


@dataclass(eq=False, slots=True)
class _Follower:
    """One reader of a plugin's new lines; touched by the loop's thread only, through `push`."""

    plugin: str
    loop: asyncio.AbstractEventLoop
    wake: asyncio.Event
    waiting: deque[PluginLogLine]
    capacity: int
    lost: bool = False

    def push(self, line: PluginLogLine) -> None:
        if len(self.waiting) >= self.capacity:
            self.lost = True
        else:
            self.waiting.append(line)
        self.wake.set()


class PluginLog:
    """The log files of all plugins, `DIRECTORY/PLUGIN.jsonl` and its older parts `.1`, `.2`, ….

    A file holds at most `max_bytes`, `keep` older ones are kept, at most `capacity` lines wait to be
    written. `dropped(n)` is told of lost lines, from any thread. Files are 0600 in a folder of 0700.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock | None = None,
        max_bytes: int = 4 * 1024 * 1024,
        keep: int = 3,
        capacity: int = 10_000,
        dropped: Callable[[int], None] | None = None,
    ) -> None:
        self._directory = directory
        self._clock = clock if clock is not None else SystemClock()
        self._max_bytes = max_bytes
        self._keep = keep
        self._capacity = capacity
        self._dropped = dropped
        self._condition = threading.Condition()
        # One queue for both, so that a reader gets what was written before it asked and follows from there.
        self._queue: deque[PluginLogLine | Callable[[], None]] = deque()
        self._waiting_lines = 0
        self._waiting_commands = 0
        self._followers: set[_Follower] = set()
        self._closed = False
        self._disk_refused = False
        self._thread = threading.Thread(target=self._run, name="hermesd-plugin-log", daemon=True)
        self._thread.start()

    def write(
        self,
        *,
        plugin: str,
        tool: str = "",
        request_id: str = "",
        session_id: str = "",
        attempt: int = 0,
        level: str = "info",
        message: str = "",
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Queue one line; never waits and never fails for its content. An unknown level counts as info.

        Raises ValueError for a `plugin` that is no plugin's name: the name becomes a file's.
        """
        if PLUGIN_NAME.match(plugin) is None:
            raise ValueError(f"{plugin!r} is no plugin name")
        line = PluginLogLine(
            at=self._clock.now(),
            plugin=plugin,
            tool=clean(tool, 200),
            request_id=clean(request_id, 200),
            session_id=clean(session_id, 200),
            attempt=attempt,
            level=level if level in LEVELS else "info",
            message=clean(message, MESSAGE_LIMIT, multiline=True),
            fields=_bounded(fields or {}),
        )
        with self._condition:
            full = self._closed or self._waiting_lines >= self._capacity
            if not full:
                self._queue.append(line)
                self._waiting_lines += 1
                self._condition.notify()
        if full:
            self._drop(1)

    async def tail(self, plugin: str, count: int) -> list[PluginLogLine]:
        """The last `count` lines, oldest first, those just written included; [] when there are none.

        Raises ExhaustedError when too many readers wait, or the log is closed.
        """
        return await asyncio.wrap_future(self._ask(lambda: self._read_tail(plugin, count)))

    async def follow(self, plugin: str, lines: int = 0) -> AsyncIterator[PluginLogLine]:
        """The last `lines` lines, then each new one as it is written: no gap and no line twice.

        Ends when the log is closed, or by cancellation. Raises FellBehindError for a reader that is too
        slow, and ExhaustedError as `tail` does. New means written after the iterator was first asked.
        """
        follower = _Follower(
            plugin, asyncio.get_running_loop(), asyncio.Event(), deque(), capacity=self._capacity
        )

        def begin() -> list[PluginLogLine]:
            with self._condition:
                self._followers.add(follower)
            return self._read_tail(plugin, lines)

        try:
            for line in await asyncio.wrap_future(self._ask(begin)):
                yield line
            while True:
                while follower.waiting:
                    yield follower.waiting.popleft()
                if follower.lost:
                    raise FellBehindError(
                        f"the log of {plugin} grew faster than it was read", remedy="read it again"
                    )
                if self._closed:
                    return
                follower.wake.clear()
                await follower.wake.wait()
        finally:
            self._forget(follower)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is queued and end the thread, within `timeout_s`; lines after this are dropped."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning("the plugin log's disk does not answer: its last lines may be lost")

    def _ask(self, work: Callable[[], list[PluginLogLine]]) -> Future[list[PluginLogLine]]:
        """Have the writing thread do `work` between the lines queued before and those queued after."""
        future: Future[list[PluginLogLine]] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - whoever asked gets it; the thread must go on
                future.set_exception(error)

        with self._condition:
            if self._closed or self._waiting_commands >= _MAX_COMMANDS:
                reason = "the plugin log is closed" if self._closed else "too many readers of plugin logs"
                raise ExhaustedError(reason, remedy="try again later")
            self._queue.append(run)
            self._waiting_commands += 1
            self._condition.notify()
        return future

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._queue or self._closed)
                batch = list(self._queue)
                self._queue.clear()
                self._waiting_lines = self._waiting_commands = 0
                closed = self._closed
            lines: list[PluginLogLine] = []
            for item in batch:
                if isinstance(item, PluginLogLine):
                    lines.append(item)
                else:
                    self._write_batch(lines)
                    lines = []
                    item()
            self._write_batch(lines)
            # `closed` was read together with the queue: nothing can have been queued since.
            if closed:
                break
        with self._condition:
            followers = list(self._followers)
        for follower in followers:
            self._tell(follower, follower.wake.set)

    def _write_batch(self, lines: list[PluginLogLine]) -> None:
        by_plugin: dict[str, list[PluginLogLine]] = {}
        for line in lines:
            by_plugin.setdefault(line.plugin, []).append(line)
        for plugin, batch in by_plugin.items():
            try:
                self._append(plugin, batch)
                self._disk_refused = False
            except OSError as error:
                self._drop(len(batch))
                if not self._disk_refused:
                    _log.error("the log of plugin %s cannot be written: %s", plugin, error)
                self._disk_refused = True
        with self._condition:
            followers = list(self._followers)
        for follower in followers:
            for line in by_plugin.get(follower.plugin, ()):
                self._tell(follower, partial(follower.push, line))

    def _append(self, plugin: str, batch: list[PluginLogLine]) -> None:
        """Append the batch, rotating whenever the file would grow beyond its bound."""
        self._file(plugin).append(line.to_json().encode("utf-8") + b"\n" for line in batch)

    def _read_tail(self, plugin: str, count: int) -> list[PluginLogLine]:
        if PLUGIN_NAME.match(plugin) is None:
            return []
        lines: list[PluginLogLine] = []
        for path in self._file(plugin).parts():
            if len(lines) >= count:
                break
            if path.exists():
                lines = _last_lines(path, count - len(lines)) + lines
        return lines

    def _file(self, plugin: str) -> RotatedFile:
        path = self._directory / f"{plugin}.jsonl"
        return RotatedFile(path, max_bytes=self._max_bytes, keep=self._keep)

    def _tell(self, follower: _Follower, action: Callable[[], object]) -> None:
        try:
            follower.loop.call_soon_threadsafe(action)
        except RuntimeError:  # its loop was closed without closing the iterator: nobody reads any more
            self._forget(follower)

    def _forget(self, follower: _Follower) -> None:
        with self._condition:
            self._followers.discard(follower)

    def _drop(self, count: int) -> None:
        if self._dropped is not None:
            self._dropped(count)


def _last_lines(path: Path, count: int) -> list[PluginLogLine]:
    """The last whole lines of a file, read from its end; damaged ones are left out."""
    found: list[bytes] = []
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        rest = b""
        while position > 0 and len(found) <= count:
            step = min(_TAIL_CHUNK, position)
            position -= step
            file.seek(position)
            rest, *whole = (file.read(step) + rest).split(b"\n")
            found = whole + found
        found = [rest, *found]
    read = (PluginLogLine.from_json(each) for each in found if each)
    lines = [line for line in read if line is not None]
    return lines[-count:] if count > 0 else []


def _bounded(fields: Mapping[str, object]) -> Mapping[str, object]:
    cleaned = cast("dict[str, object]", clean_value(fields))
    size = len(json.dumps(cleaned, ensure_ascii=False))
    return cleaned if size <= FIELDS_LIMIT else {"truncated": True, "characters": size}
