"""Nothing that anybody sends, writes or returns breaks what is promised of it."""

from __future__ import annotations

import pytest

from tests.fuzz.runner import SECONDS, Target, run_corpus, run_for
from tests.fuzz.target import TARGETS


@pytest.mark.promise("FUZ-1")
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_what_was_found_once_and_the_fixed_seeds_hold(target: Target) -> None:
    run_corpus(target)


@pytest.mark.fault
@pytest.mark.promise("FUZ-1")
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_chance_finds_nothing(target: Target) -> None:
    assert run_for(target, SECONDS) > 0
