"""Where a plugin's own log records and prints go: to the plugin's log, with the call that they belong to.

In-process plugins use `logging` and `print` as any library does. While one of their calls runs,
`current_call` names it (runtimes set it around the tool), and what it says is routed by that name.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TextIO, cast

from hermesd.plugin.output import CallStream, Printer, current_printer
from hermesd.telemetry.plugin_log import PluginLog


@dataclass(frozen=True, slots=True)
class CallScope:
    """The call on whose behalf code runs; `tool` and what follows are empty in a plugin's hooks.

    `redact` takes the plugin's secrets out of a text.
    """

    plugin: str
    tool: str = ""
    request_id: str = ""
    session_id: str = ""
    attempt: int = 0
    redact: Callable[[str], str] = field(default=str, compare=False, repr=False)


#: Set it where the plugin's code runs: a thread pool needs `contextvars.copy_context().run`.
current_call: ContextVar[CallScope | None] = ContextVar("hermesd_current_call", default=None)


class call_scope:  # noqa: N801 - used as a function: `with call_scope(scope):`
    """`scope` is the current call within the block."""

    __slots__ = ("_call", "_printer", "_printing", "_scope")

    def __init__(self, scope: CallScope) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        self._call = current_call.set(self._scope)
        self._printer = Printer(partial(_printed, self._scope))
        self._printing = current_printer.set(self._printer)

    def __exit__(self, *_: object) -> None:
        self._printer.flush()
        current_printer.reset(self._printing)
        current_call.reset(self._call)


#: The plugin log while it is routed to. One a process, as `sys.stdout` is.
_routes: list[PluginLog] = []


def _printed(scope: CallScope, level: str, message: str, fields: dict[str, object]) -> None:
    for plugin_log in _routes:
        _write(plugin_log, scope, level, message, fields)


def _write(
    plugin_log: PluginLog, scope: CallScope, level: str, message: str, fields: dict[str, object]
) -> None:
    plugin_log.write(
        plugin=scope.plugin,
        tool=scope.tool,
        request_id=scope.request_id,
        session_id=scope.session_id,
        attempt=scope.attempt,
        level=level,
        message=scope.redact(message),
        fields=fields,
    )


class PluginLogHandler(logging.Handler):
    """Writes the records of plugin code to the plugin's log; leaves all others alone."""

    def __init__(self, plugin_log: PluginLog) -> None:
        super().__init__()
        self._plugin_log = plugin_log

    def emit(self, record: logging.LogRecord) -> None:
        scope = current_call.get()
        if scope is None or not is_foreign(record):
            return
        try:
            message = record.getMessage()
        except Exception as error:  # noqa: BLE001 - the arguments are the plugin's: any error may come of them
            message = f"{record.msg!r} cannot be formatted: {error!r}"
        if record.exc_info and record.exc_info[0] is not None:
            message = f"{message}\n{logging.Formatter().formatException(record.exc_info)}"
        level = "error" if record.levelno >= logging.ERROR else record.levelname.lower()
        _write(self._plugin_log, scope, level, message, {"logger": record.name})


def is_foreign(record: logging.LogRecord) -> bool:
    """Whether the record comes from code that is not the daemon's own."""
    return record.name != "hermesd" and not record.name.startswith("hermesd.")


class _Stray:
    """Stands below the streams: what is printed outside of any call becomes lines of the daemon's log.

    Raw text there would break a log of one JSON object a line, and could obey a terminal.
    """

    def __init__(self, name: str, below: TextIO) -> None:
        self._below = below
        self._printer = Printer(self._line)
        self._name = name
        self._lock = threading.RLock()
        self._telling = threading.local()

    def write(self, text: str) -> int:
        if getattr(self._telling, "now", False):
            return self._below.write(text)  # logging itself failed and says so
        with self._lock:
            self._telling.now = True
            try:
                self._printer.write(self._name, text)
            finally:
                self._telling.now = False
        return len(text)

    def _line(self, level: str, message: str, fields: dict[str, object]) -> None:
        if message:
            logging.getLogger("output").info(message, extra=fields)

    def __getattr__(self, name: str) -> object:
        return getattr(self._below, name)


@contextmanager
def routed(plugin_log: PluginLog) -> Iterator[None]:
    """Within the block what plugins log and print goes to `plugin_log`, and no longer to the daemon's log.

    What a plugin's own threads say, which carry no call, stays in the daemon's log, as lines of it.
    """
    root = logging.getLogger()
    others = root.handlers[:]
    handler = PluginLogHandler(plugin_log)
    for other in others:
        other.addFilter(_not_routed)
    root.addHandler(handler)
    _routes.append(plugin_log)
    streams = sys.stdout, sys.stderr
    sys.stdout = CallStream("stdout", cast("TextIO", _Stray("stdout", sys.stdout)))
    sys.stderr = CallStream("stderr", cast("TextIO", _Stray("stderr", sys.stderr)))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        _routes.remove(plugin_log)
        root.removeHandler(handler)
        for other in others:
            other.removeFilter(_not_routed)


def _not_routed(record: logging.LogRecord) -> bool:
    return current_call.get() is None or not is_foreign(record)
