"""Fuzzing: a target is a strategy and a check. First its corpus and fixed seeds, then chance for a while.

`FUZZ_SECONDS` says how long chance has for each target under `make fault`. A failure names the seed that
leads back to it; what was found once goes into `corpus/TARGET.jsonl`, one JSON value a line, and stays.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

CORPUS = Path(__file__).parent / "corpus"
SEEDS = range(8)
SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))
#: What one value may take: a hang is a failure too.
LONGEST_S = 5.0


@dataclass(frozen=True)
class Target:
    """`open` gives the check, which raises when a promise is broken; it is closed after each batch."""

    name: str
    values: st.SearchStrategy[Any]
    open: Callable[[], AbstractContextManager[Callable[[Any], None]]]
    #: Of one batch.
    examples: int = 40

    def __str__(self) -> str:
        return self.name


def simple(check: Callable[[Any], None]) -> Callable[[], AbstractContextManager[Callable[[Any], None]]]:
    """A check that needs nothing around it."""

    @contextmanager
    def opened() -> Iterator[Callable[[Any], None]]:
        yield check

    return opened


def corpus(target: Target) -> list[Any]:
    path = CORPUS / f"{target.name}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def run_corpus(target: Target) -> None:
    """Everything that was found once, then the fixed seeds."""
    with target.open() as check:
        for value in corpus(target):
            _timed(check, value)
    for number in SEEDS:
        run_batch(target, number)


def run_for(target: Target, seconds: float) -> int:
    """Batches of chance until the time is over; how many there were."""
    until, batches = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        run_batch(target, random.SystemRandom().getrandbits(48))
        batches += 1
    return batches


def run_batch(target: Target, number: int) -> None:
    with target.open() as check:

        @seed(number)
        @settings(
            max_examples=target.examples,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @given(target.values)
        def batch(value: Any) -> None:
            _timed(check, value)

        try:
            batch()
        except BaseException as error:
            error.add_note(
                f"fuzz target {target.name}, seed {number}: run_batch(TARGET, {number}) repeats it"
            )
            raise


def _timed(check: Callable[[Any], None], value: Any) -> None:
    began = time.monotonic()
    check(value)
    took = time.monotonic() - began
    assert took < LONGEST_S, f"took {took:.1f} s"
