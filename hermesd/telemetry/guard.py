"""Keeps the daemon's own log alive in a process that it shares with plugins.

`logging` is global: `logging.disable`, `basicConfig(force=True)` or a `dictConfig`, which disables every
logger that it does not name, are one line in a plugin and would silence the daemon. `restore` puts back
what such a line took away, and says what that was.
"""

from __future__ import annotations

import logging


class LogGuard:
    """Remembers how logging stands when it is made. Call `restore` from time to time; it is cheap."""

    def __init__(self) -> None:
        root = logging.getLogger()
        self._handlers = tuple((handler, tuple(handler.filters)) for handler in root.handlers)
        self._level = root.level

    def restore(self) -> list[str]:
        """Put everything back. Returns what had been changed, in words; empty: nothing."""
        changed = [*self._restore_root(), *_restore_own()]
        if logging.root.manager.disable:
            logging.disable(logging.NOTSET)
            changed.append("logging.disable")
        return changed

    def _restore_root(self) -> list[str]:
        root = logging.getLogger()
        changed = []
        lost = [handler for handler, _ in self._handlers if handler not in root.handlers]
        if lost:
            for handler in lost:
                root.addHandler(handler)
            changed.append("the root logger's handlers")
        for handler, filters in self._handlers:
            if handler.level or tuple(handler.filters) != filters:
                handler.setLevel(logging.NOTSET)
                handler.filters[:] = filters
                changed.append("a handler's filters or level")
        if root.level != self._level:
            root.setLevel(self._level)
            changed.append("the root logger's level")
        return changed


def _restore_own() -> list[str]:
    """The daemon's loggers: each enabled, without a level or handlers of its own, heard by the root."""
    changed = []
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if not isinstance(logger, logging.Logger) or not (name == "hermesd" or name.startswith("hermesd.")):
            continue
        if logger.disabled or not logger.propagate or logger.level or logger.filters:
            logger.disabled, logger.propagate = False, True
            logger.setLevel(logging.NOTSET)
            logger.filters.clear()
            changed.append(f"the logger {name}")
    return changed
