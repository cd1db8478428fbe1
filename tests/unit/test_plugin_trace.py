"""W3C trace context: taken as the standard says, passed on, and never a reason to refuse a call."""

from __future__ import annotations

import pytest

from hermesd.plugin.testing import Recorder
from hermesd.plugin.trace import MAX_STATE, given, passed_on, span_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
REQUEST = "0193a5f2-7c1e-7000-8000-3f2a1b4c5d6e"


@pytest.mark.promise("REC-3")
@pytest.mark.parametrize(
    "broken",
    ["", "00", PARENT.upper(), PARENT + "-x", PARENT.replace("00-", "ff-", 1), PARENT[:-1], " " + PARENT,
     "00-" + "0" * 32 + "-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
     PARENT + "\n", "你好"],
)  # fmt: skip
def test_a_broken_context_is_ignored(broken: str) -> None:
    assert given(broken, "a=1") == ("", "")


def test_a_good_context_is_kept_and_one_of_a_later_version_as_far_as_it_is_known() -> None:
    assert given(PARENT, "a=1,b=2") == (PARENT, "a=1,b=2")
    assert given(PARENT.replace("00-", "01-", 1) + "-more") == (PARENT, "")
    assert given(PARENT, "x" * (MAX_STATE + 1)) == (PARENT, "")
    assert given(PARENT, "a=\x00") == (PARENT, "")


@pytest.mark.promise("REC-3")
def test_what_is_passed_on_stays_in_the_trace_and_names_this_call_as_the_parent() -> None:
    span = span_of(REQUEST, PARENT)
    assert (span.trace_id, span.parent_id) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    onward = span_of("r-2", passed_on(REQUEST, PARENT))
    assert (onward.trace_id, onward.parent_id, onward.flags) == (span.trace_id, span.span_id, "01")


def test_a_call_without_a_context_begins_a_trace_of_its_own() -> None:
    for request_id in (REQUEST, "r-1", "请求", "0" * 32, "\ud800"):
        span = span_of(request_id)
        assert given(passed_on(request_id))[0] == f"00-{span.trace_id}-{span.span_id}-00"
        assert span == span_of(request_id)
    assert span_of(REQUEST).trace_id == REQUEST.replace("-", "")


def test_a_tool_sees_the_header_to_send() -> None:
    context = Recorder(request_id="r-1", traceparent=PARENT, tracestate="a=1").context(
        "a.b", asynchronous=False
    )
    assert context.traceparent == passed_on("r-1", PARENT)
    assert context.tracestate == "a=1"
