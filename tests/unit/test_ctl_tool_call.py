"""`ctl tools call`: data on stdout, everything else on stderr, the exit status says what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermesd.api.v1 import output_pb2, tool_pb2
from tests.unit.ctl_double import Double, serving


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Double]:
    with serving(tmp_path) as double:
        yield double


def answer(
    code: str = "OK", *, data: str = "null", detail: Any = None, **more: Any
) -> tool_pb2.CallToolResponse:
    status = "ok" if code == "OK" else "error"
    more = {"request_id": "r-1", "effect": "none"} | more
    return tool_pb2.CallToolResponse(
        result=tool_pb2.Result(
            status=status, code=code, data_json=data, detail_json=json.dumps(detail or {}), **more
        )
    )


def test_the_data_alone_is_on_stdout(daemon: Double) -> None:
    daemon.answers["CallTool"] = answer(data='{"n":9007199254740993,"订单":"好"}')
    ran = daemon.run("tools", "call", "orders.query_status", "order_id=7", "deep:=[1, null]")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == '{"n":9007199254740993,"订单":"好"}\n'
    assert json.loads(daemon.last.arguments_json) == {"order_id": "7", "deep": [1, None]}


def test_options_reach_the_daemon(daemon: Double) -> None:
    daemon.answers["CallTool"] = answer()
    daemon.run(
        "tools",
        "call",
        "a.b",
        "--session",
        "s",
        "--timeout-ms",
        "250",
        "--idempotency-key",
        "k",
        "--confirm",
        "t",
        "--args",
        '{"a": 1e2}',
    )
    assert daemon.last == tool_pb2.CallToolRequest(
        name="a.b",
        arguments_json='{"a": 1e2}',
        session_id="s",
        timeout_ms=250,
        idempotency_key="k",
        confirmation_token="t",
    )


@pytest.mark.promise("CLI-5")
def test_data_cannot_move_the_cursor(daemon: Double) -> None:
    daemon.answers["CallTool"] = answer(data='"a\u202eb\x9b"')
    ran = daemon.run("tools", "call", "a.b")
    assert ran.out == '"a\\u202eb\\u009b"\n'
    assert ran.json == "a\u202eb\x9b"


@pytest.mark.parametrize(
    ("code", "status"),
    [("TOOL_ERROR", 1), ("TIMEOUT", 1), ("PERMISSION_DENIED", 4), ("CONFIRMATION_REQUIRED", 5)],
)
@pytest.mark.promise("CLI-2")
def test_the_exit_status_tells_scripts_what_came_of_it(daemon: Double, code: str, status: int) -> None:
    daemon.answers["CallTool"] = answer(code, message="no")
    ran = daemon.run("tools", "call", "a.b")
    assert (ran.status, ran.out) == (status, "")
    assert f"{code}: no" in ran.err
    ran = daemon.run("tools", "call", "a.b", "--json")
    assert ran.status == status
    assert ran.json["result"]["code"] == code
    assert ran.err == ""


def test_the_code_that_a_tool_gives_its_error_is_shown(daemon: Double) -> None:
    daemon.answers["CallTool"] = answer("TOOL_ERROR", message="no order 7", detail={"code": "NOT_FOUND"})
    assert daemon.run("tools", "call", "a.b").err.startswith("TOOL_ERROR (NOT_FOUND): no order 7\n")


def test_every_fault_of_the_arguments_is_shown_with_its_path_and_the_remedy(daemon: Double) -> None:
    detail = {
        "faults": [
            {"path": "/order_id", "problem": "is required", "expected": "a value", "got": None},
            {"path": "/数量", "problem": "is no integer", "got": "x\x1b[31m"},
        ],
        "remedy": "see ctl tools show orders.query_status",
    }
    daemon.answers["CallTool"] = answer("INVALID_ARGUMENT", message="2 faults", detail=detail)
    ran = daemon.run("tools", "call", "a.b")
    assert "  /order_id: is required\n" in ran.err
    assert "  /数量: is no integer (got " in ran.err
    assert "\x1b" not in ran.err
    assert "  remedy: see ctl tools show orders.query_status\n" in ran.err


def test_a_person_is_told_to_ask_and_reads_nothing_twice(daemon: Double) -> None:
    faults = [
        {"path": "/id", "problem": "is required", "ask_user": True, "hint": "on the invoice"},
        {"path": "/n", "problem": '"x" is not of type "integer"', "got": "x"},
    ]
    daemon.answers["CallTool"] = answer("INVALID_ARGUMENT", message="2 faults", detail={"faults": faults})
    err = daemon.run("tools", "call", "a.b").err
    assert "  /id: is required\n      do not make it up: ask the user\n      on the invoice\n" in err
    assert '  /n: "x" is not of type "integer"\n' in err


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ({"replayed": True, "replayed_from": "r-0"}, "nothing ran: this is the answer of the call r-0"),
        (
            {"degraded": True, "fallback": "last_good", "reason": "connection"},
            "not the tool's own answer, its fallback (last_good): connection",
        ),
    ],
)
def test_an_answer_that_is_not_the_tools_own_says_so_on_stderr(
    daemon: Double, detail: dict[str, Any], said: str
) -> None:
    daemon.answers["CallTool"] = answer(data="-1", detail=detail)
    ran = daemon.run("tools", "call", "a.b")
    assert (ran.status, ran.out) == (0, "-1\n")
    assert said in ran.err


def test_a_result_of_which_the_rest_is_lost_says_why(daemon: Double) -> None:
    detail = {"output": {"lost": "the disk is full"}}
    daemon.answers["CallTool"] = answer(data='"…"', detail=detail, truncated=True)
    assert "the rest is lost: the disk is full" in daemon.run("tools", "call", "a.b").err


def test_attempts_and_the_way_to_confirm_are_shown(daemon: Double) -> None:
    daemon.answers["CallTool"] = answer("TOOL_ERROR", attempts=3)
    assert "  attempts: 3\n" in daemon.run("tools", "call", "a.b").err
    daemon.answers["CallTool"] = answer("CONFIRMATION_REQUIRED", detail={"confirmation_token": "t.1"})
    assert "--confirm" in daemon.run("tools", "call", "a.b").err


def test_a_stream_under_json_holds_the_whole_of_what_was_cut_when_asked_to(daemon: Double) -> None:
    cut = tool_pb2.Result(status="ok", code="OK", data_json="[1]", truncated=True, request_id="r-1")
    daemon.answers["StreamCallTool"] = [tool_pb2.StreamCallToolResponse(seq=1, result=cut)]
    daemon.answers["ReadCallOutput"] = output_pb2.ReadCallOutputResponse(
        data="[1, 2]", next_offset=6, total=6
    )
    line = daemon.run("--json", "tools", "call", "a.b", "--stream", "--full").json
    assert (line["result"]["data_json"], line["result"]["truncated"]) == ("[1, 2]", False)


def test_an_unknown_tool_names_the_nearest(daemon: Double) -> None:
    daemon.answers["CallTool"] = answer(
        "UNKNOWN_TOOL", message="no tool", detail={"nearest": ["a.bc", "a.bd"]}
    )
    assert "did you mean a.bc, a.bd?" in daemon.run("tools", "call", "a.b").err


@pytest.mark.parametrize("effect", ["unknown", "done"])
def test_an_effect_that_may_have_happened_is_said(daemon: Double, effect: str) -> None:
    daemon.answers["CallTool"] = answer("TIMEOUT", message="late", effect=effect)
    assert f"effect: {effect}" in daemon.run("tools", "call", "a.b").err


def stream_events() -> list[tool_pb2.StreamCallToolResponse]:
    events = [tool_pb2.StreamCallToolResponse(seq=n) for n in range(1, 5)]
    events[0].started.request_id = "r-1"
    events[1].progress.done = 1
    events[1].progress.total = 2
    events[2].log.level = "info"
    events[2].log.message = "half\x1b[2J way"
    events[3].result.CopyFrom(answer(data="[1]").result)
    return events


def test_a_stream_shows_log_lines_on_stderr_and_the_data_on_stdout(daemon: Double) -> None:
    daemon.answers["StreamCallTool"] = stream_events()
    ran = daemon.run("tools", "call", "a.b", "--stream", "x=1")
    assert (ran.status, ran.out, ran.err) == (0, "[1]\n", "info: half way\n")
    assert daemon.last.call.arguments_json == '{"x": "1"}'


def test_a_stream_under_json_is_one_message_a_line(daemon: Double) -> None:
    daemon.answers["StreamCallTool"] = stream_events()
    lines = [
        json.loads(each) for each in daemon.run("tools", "call", "a.b", "--stream", "--json").out.splitlines()
    ]
    assert [each["seq"] for each in lines] == [1, 2, 3, 4]
    assert lines[1]["progress"] == {"done": 1.0, "total": 2.0, "message": ""}
    assert lines[3]["result"]["data_json"] == "[1]"


def test_arguments_that_are_no_object_are_a_usage_error_and_nothing_is_sent(daemon: Double) -> None:
    for words in (("--args", "[1]"), ("--args", "{"), ("--args", "@/nowhere"), ("x",), ("a=1", "a=2")):
        ran = daemon.run("tools", "call", "a.b", *words)
        assert ran.status == 2, ran
    assert daemon.requests == []
