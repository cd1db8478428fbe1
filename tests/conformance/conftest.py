"""One daemon for the whole suite, and every test once for each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.kind import KINDS, Kind, Stage
from tests.harness import Home


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    made = Stage(Home())
    yield made
    made.close()


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    """The kind under test. `@pytest.mark.needs("aspect")` skips those that lack it, with the reason."""
    made: Kind = request.param
    for mark in request.node.iter_markers("needs"):
        if reason := made.lacks.get(mark.args[0]):
            pytest.skip(f"{made}: {reason}")
    return made
