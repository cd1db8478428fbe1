"""The daemon's own deadline."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.rpc.deadline import RESERVE_S, own_deadline


def sent(real: float) -> float:
    """What gRPC's C core makes of a deadline: three digits, rounded up."""
    step = next((step for below, step in ((1, 0.001), (10, 0.01), (100, 0.1), (1000, 1)) if real < below), 10)
    return math.ceil(real / step - 1e-9) * step


@given(st.floats(0.05, 9000))
def test_the_answer_is_ready_20_ms_before_the_callers_real_deadline(real: float):
    own = own_deadline(sent(real), 0.0)
    assert own is not None
    assert own <= real - RESERVE_S + 1e-6
    assert own >= real * 0.98 - RESERVE_S - 0.002


@pytest.mark.parametrize("remaining", [None, 1e10])
def test_a_caller_that_waits_for_ever_sets_no_deadline(remaining: float | None):
    assert own_deadline(remaining, 5.0) is None
