"""What every error of ours holds to."""

from __future__ import annotations

import pytest

from hermesd.errors import MAX_REJECTIONS, MAX_TEXT, PluginError, Rejection


@pytest.mark.promise("HOS-2")
def test_a_rejection_is_bounded_whatever_a_plugin_raised():
    rejection = Rejection("orders", "x" * 10_000_000, "y" * 10_000_000, "z" * 10_000_000, 1)
    assert len(str(rejection)) < 4 * MAX_TEXT
    assert rejection.reason.endswith("…")
    assert Rejection("orders", "short").reason == "short"


@pytest.mark.promise("HOS-2")
def test_of_very_many_rejections_the_first_ones_are_told_and_the_rest_counted():
    error = PluginError([Rejection("orders", f"fault {each}") for each in range(10_000)])
    assert len(error.rejections) == MAX_REJECTIONS + 1
    assert error.rejections[-1].reason == "and 9900 more"
    assert len(error.message) < 100_000
