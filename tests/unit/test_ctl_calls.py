"""`ctl calls`: what people and scripts see of calls."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from hermesd.api.v1 import call_pb2, output_pb2, tool_pb2
from hermesd.rpc.call_service import record_message
from tests.rpc_doubles import SINCE, call_record
from tests.unit.ctl_double import Double, Refusal, serving


@pytest.fixture
def double(tmp_path: Path) -> Iterator[Double]:
    with serving(tmp_path) as double:
        yield double


def page(*ids: str, token: str = "") -> call_pb2.ListCallsResponse:
    calls = [record_message(call_record(each)) for each in ids]
    return call_pb2.ListCallsResponse(calls=calls, next_page_token=token)


def test_the_list_goes_through_as_many_pages_as_lines_are_asked_for(double: Double) -> None:
    pages = {"": page("r-3", "r-2", token="t"), "t": page("r-1", "r-0", token="u"), "u": page("r--")}
    double.answers["ListCalls"] = lambda request: pages[request.page_token]
    listed = double.run("--json", "calls", "list", "-n", "3").json
    assert [each["request_id"] for each in listed["calls"]] == ["r-3", "r-2", "r-1"]
    assert [each.page_size for each in double.requests] == [3, 1]
    shown = double.run("calls", "list")
    assert shown.out.splitlines()[0].split() == ["AT", "TOOL", "CODE", "EFFECT", "MS", "BY", "REQUEST"]
    assert shown.out.splitlines()[1].split()[0] == "2026-11-30T12:00:00Z"
    assert len(shown.out.splitlines()) == 6


def test_every_filter_reaches_the_daemon(double: Double) -> None:
    double.answers["ListCalls"] = page()
    words = "--tool a.* --agent ann --code timeout --session s --plugin p --parent r --trace t --failed"
    ran = double.run("calls", "list", *words.split(), "--since", "2h", "--until", "2030-01-31T12:00:00+01:00")
    assert (ran.status, ran.err) == (0, "no calls\n")
    asked = double.last
    assert (asked.tool, asked.agent, asked.code, asked.session_id) == ("a.*", "ann", "TIMEOUT", "s")
    assert (asked.plugin, asked.parent_request_id, asked.trace_id, asked.failed) == ("p", "r", "t", True)
    assert abs(asked.since.ToDatetime(UTC) - (datetime.now(UTC) - timedelta(hours=2))) < timedelta(minutes=5)
    assert asked.until.ToDatetime(UTC) == datetime(2030, 1, 31, 11, tzinfo=UTC)


def test_a_code_that_does_not_exist_is_a_usage_error(double: Double) -> None:
    ran = double.run("calls", "list", "--code", "LATE")
    assert (ran.status, double.requests) == (2, [])
    assert "TIMEOUT" in ran.err


def test_arguments_that_a_record_never_had_are_not_said_to_be_redacted(double: Double) -> None:
    lost = record_message(call_record("r-1"))
    lost.arguments, lost.arguments_bytes, lost.arguments_whole = "", 0, False
    lost.message, lost.reason = "it failed", "connection"
    double.answers["GetCall"] = call_pb2.GetCallResponse(call=lost)
    out = double.run("calls", "show", "r-1").out
    assert "arguments    not kept\n" in out
    assert "reason       connection\n" in out


def test_a_whole_result_of_many_pages_is_one_document_under_json(double: Double) -> None:
    pages = {
        0: output_pb2.ReadCallOutputResponse(data='{"订":', next_offset=7, total=9),
        7: output_pb2.ReadCallOutputResponse(data="1}", next_offset=9, total=9),
    }
    double.answers["ReadCallOutput"] = lambda request: pages[request.offset]
    document = double.run("--json", "calls", "output", "r-1").json
    assert (document["data"], int(document["next_offset"]), int(document["total"])) == ('{"订":1}', 9, 9)


@pytest.mark.parametrize("time", ["", "soon", "2030-13-01", "5y", "999999999w", "-1h"])
def test_what_is_no_time_is_a_usage_error(double: Double, time: str) -> None:
    ran = double.run("calls", "list", "--since", time)
    assert ran.status == 2
    assert "is no time" in ran.err


def test_one_call_is_shown_with_where_its_time_went_and_that_it_is_not_whole(double: Double) -> None:
    record = call_record(
        arguments='{"password":"[redacted]"}', arguments_whole=False, arguments_bytes=99, caller="shop",
        message="bad \x1b[31m", code="TOOL_ERROR", replayed=True, metadata_json='{"a":"b"}',
    )  # fmt: skip
    double.answers["GetCall"] = call_pb2.GetCallResponse(call=record_message(record))
    shown = double.run("calls", "show", "r-1").out
    assert double.last.request_id == "r-1"
    assert "12.5 ms: 0.5 queued, 10.0 running, 2.0 in other tools" in shown
    assert '{"password":"[redacted]"} (of 99 bytes, redacted or cut)' in shown
    assert "through the plugin shop" in shown
    assert "replayed" in shown
    assert "\x1b" not in shown
    document = double.run("--json", "calls", "show", "r-1").json["call"]
    assert (document["arguments_bytes"], document["metadata"]) == (99, {"a": "b"})
    double.answers["GetCall"] = Refusal(grpc.StatusCode.NOT_FOUND, "there is no record", "list them")
    assert double.run("calls", "show", "r-1").status == 1


def test_stats_show_success_failures_unused_and_miscalled_tools(double: Double) -> None:
    many = [
        call_pb2.ToolCallStats(tool=f"a.t{n:02}", calls=2, codes={"OK": 1, "TIMEOUT": 1}) for n in range(31)
    ]
    double.answers["GetCallStats"] = call_pb2.GetCallStatsResponse(
        calls=62, codes={"OK": 31, "TIMEOUT": 31}, p50_ms=1, p95_ms=2, p99_ms=3, tools=many,
        unused_tools=["b.x"], miscalled=[
            call_pb2.MiscalledTool(tool="a.t", code="UNKNOWN_TOOL", count=3, calls=3, example="no a.t")
        ], first=SINCE,
    )  # fmt: skip
    shown = double.run("calls", "stats", "--tool", "a.*", "--since", "1d").out
    assert double.last.tool == "a.*"
    assert "62 calls since 2026-11-30T12:00:00Z, 50.0% OK; TIMEOUT 31" in shown
    assert "p50 1.0 ms, p95 2.0 ms, p99 3.0 ms" in shown
    assert "a.t29" in shown
    assert "a.t30" not in shown
    assert "and 1 more" in shown
    assert "never called (1): b.x" in shown
    assert "3 of 3" in shown
    assert len(double.run("--json", "calls", "stats").json["tools"]) == 31
    double.answers["GetCallStats"] = call_pb2.GetCallStatsResponse()
    assert double.run("calls", "stats").out == "no calls\n"


def result(code: str, **more: Any) -> call_pb2.ReplayCallResponse:
    status = "ok" if code == "OK" else "error"
    return call_pb2.ReplayCallResponse(
        result=tool_pb2.Result(status=status, code=code, data_json='"好"', **more)
    )


@pytest.mark.promise("REC-5")
def test_a_replay_exits_5_until_it_is_confirmed(double: Double) -> None:
    detail = '{"summary": "would run again", "confirmation_token": "t-1"}'
    double.answers["ReplayCall"] = result("CONFIRMATION_REQUIRED", detail_json=detail)
    ran = double.run("calls", "replay", "r-1")
    assert (ran.status, ran.out) == (5, "")
    assert "confirmation_token: t-1" in ran.err
    assert double.last.arguments_json == ""
    double.answers["ReplayCall"] = result("OK")
    ran = double.run("calls", "replay", "r-1", "--confirm", "t-1", "--timeout-ms", "50", "n:=1")
    assert (ran.status, ran.out) == (0, '"好"\n')
    asked = double.last
    assert (asked.confirmation_token, asked.timeout_ms, asked.arguments_json) == ("t-1", 50, '{"n": 1}')
    assert double.run("--json", "calls", "replay", "r-1").json["result"]["code"] == "OK"
    double.answers["ReplayCall"] = result("TIMEOUT", effect="unknown")
    assert double.run("calls", "replay", "r-1").status == 1
