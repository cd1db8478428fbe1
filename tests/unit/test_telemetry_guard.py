"""The daemon's own log in a process that it shares with plugins."""

from __future__ import annotations

import logging
import logging.config
from collections.abc import Callable, Iterator

import pytest

from hermesd.telemetry.guard import LogGuard


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What the root's handler hears, on a logging that is as it was afterwards."""
    lines: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    ear = Ear()
    root.handlers[:] = [ear]
    root.setLevel(logging.INFO)
    yield lines
    root.handlers[:] = before
    root.setLevel(level)
    logging.disable(logging.NOTSET)


def own_loggers(change: Callable[[logging.Logger], object]) -> None:
    for name in ("hermesd", "hermesd.event"):
        change(logging.getLogger(name))


def silence_all() -> None:
    own_loggers(lambda each: setattr(each, "disabled", True))
    own_loggers(lambda each: setattr(each, "propagate", False))
    own_loggers(lambda each: each.setLevel(logging.CRITICAL))


@pytest.mark.promise("HOS-7")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda: logging.disable(logging.CRITICAL),
        lambda: logging.basicConfig(force=True),
        lambda: logging.config.dictConfig({"version": 1}),
        lambda: logging.getLogger().setLevel(logging.CRITICAL),
        lambda: logging.getLogger().handlers[0].addFilter(lambda _: False),
        lambda: logging.getLogger().handlers[0].setLevel(logging.CRITICAL),
        silence_all,
    ],
    ids=["disable", "force", "dictConfig", "level", "filter", "handler", "loggers"],
)
def test_the_daemons_log_survives_what_a_plugin_does_to_logging(
    heard: list[str], spoil: Callable[[], object]
):
    event = logging.getLogger("hermesd.event")
    guard = LogGuard()
    assert guard.restore() == []
    spoil()
    event.info("lost")
    assert guard.restore() != []
    event.info("heard")
    assert heard == ["heard"]
    assert guard.restore() == []
