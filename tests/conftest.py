"""Fixtures of all tiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.harness import Daemon, Home


@pytest.fixture
def home() -> Iterator[Home]:
    """A folder for one test's daemons."""
    made = Home()
    yield made
    made.remove()


@pytest.fixture
def serve(home: Home) -> Iterator[Callable[..., Daemon]]:
    """Start a daemon on `home` and wait until it is ready; it is stopped when the test ends."""
    started: list[Daemon] = []

    def start(*options: str, **more: object) -> Daemon:
        daemon = Daemon(home, *options, **more)  # type: ignore[arg-type] # env alone
        started.append(daemon)
        return daemon.wait_ready()

    yield start
    for daemon in started:
        if daemon.process.poll() is None:
            daemon.stop()
