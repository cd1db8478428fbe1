"""Where a plugin's own log records go: to the plugin's log, with the call that they belong to.

In-process plugins use `logging` as any library does. While one of their calls runs, `current_call` names it
(runtimes set it around the tool), and its records are routed by that name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from hermesd.telemetry.plugin_log import PluginLog


@dataclass(frozen=True, slots=True)
class CallScope:
    """The call on whose behalf code runs; `tool` and what follows are empty in a plugin's hooks."""

    plugin: str
    tool: str = ""
    request_id: str = ""
    session_id: str = ""
    attempt: int = 0


#: Set it where the plugin's code runs: a thread pool needs `contextvars.copy_context().run`.
current_call: ContextVar[CallScope | None] = ContextVar("hermesd_current_call", default=None)


class call_scope:  # noqa: N801 - used as a function: `with call_scope(scope):`
    """`scope` is the current call within the block."""

    __slots__ = ("_scope", "_token")

    def __init__(self, scope: CallScope) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        self._token = current_call.set(self._scope)

    def __exit__(self, *_: object) -> None:
        current_call.reset(self._token)


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
        self._plugin_log.write(
            plugin=scope.plugin,
            tool=scope.tool,
            request_id=scope.request_id,
            session_id=scope.session_id,
            attempt=scope.attempt,
            level="error" if record.levelno >= logging.ERROR else record.levelname.lower(),
            message=message,
            fields={"logger": record.name},
        )


def is_foreign(record: logging.LogRecord) -> bool:
    """Whether the record comes from code that is not the daemon's own."""
    return record.name != "hermesd" and not record.name.startswith("hermesd.")


@contextmanager
def routed(plugin_log: PluginLog) -> Iterator[None]:
    """Within the block plugin records go to `plugin_log`, and no longer to the handlers of the root logger.

    Records of a plugin's own threads, which carry no call, stay in the daemon's log.
    """
    root = logging.getLogger()
    others = root.handlers[:]
    handler = PluginLogHandler(plugin_log)
    for other in others:
        other.addFilter(_not_routed)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for other in others:
            other.removeFilter(_not_routed)


def _not_routed(record: logging.LogRecord) -> bool:
    return current_call.get() is None or not is_foreign(record)
