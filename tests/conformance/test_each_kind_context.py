"""What a tool is given beside its arguments, and what it says beside its result."""

from __future__ import annotations

import json

import pytest

from tests.conformance.kind import TOKEN, Kind, Stage


@pytest.mark.promise("CNF-8")
def test_the_context_is_that_of_the_call(stage: Stage, kind: Kind) -> None:
    result = stage.call(kind, "tell_context", session_id="sess", request_id=f"ctx-{kind.plugin}")
    data = result.data
    assert (data["request_id"], data["session_id"], data["attempt"]) == (f"ctx-{kind.plugin}", "sess", 1)
    assert (data["cancelled"], data["tool"]) == (False, f"{kind.plugin}.tell_context")
    if "grants" not in kind.lacks:
        assert data["greeting"] == "你好"


@pytest.mark.promise("CNF-8")
def test_a_stream_begins_with_started_and_ends_with_the_result(stage: Stage, kind: Kind) -> None:
    events = stage.stream(kind, "tell_progress", times=5)
    kinds = [each.WhichOneof("event") for each in events]
    assert (kinds[0], kinds[-1], kinds.count("result")) == ("started", "result", 1)
    assert [each.seq for each in events] == sorted({each.seq for each in events})
    steps = [each.progress for each in events if each.HasField("progress")]
    assert (steps[-1].done, steps[-1].total, steps[-1].message) == (5, 5, "step 5")
    logs = [each.log for each in events if each.HasField("log")]
    assert ("warning", "看", {"order": 7}) in [
        (each.level, each.message, json.loads(each.fields_json)) for each in logs
    ]
    request_id = events[0].started.request_id
    assert events[-1].result.request_id == request_id
    assert stage.log_line(kind, request_id, "看").level == "warning"


@pytest.mark.promise("CNF-8")
def test_calls_at_once_keep_their_contexts_apart(stage: Stage, kind: Kind) -> None:
    with (
        stage.calling(kind, "tell_progress", times=30, request_id=f"one-{kind.plugin}") as one,
        stage.calling(kind, "tell_context", request_id=f"two-{kind.plugin}", session_id="b") as two,
    ):
        pass
    assert one[0].request_id == f"one-{kind.plugin}"
    assert (two[0].data["request_id"], two[0].data["session_id"]) == (f"two-{kind.plugin}", "b")


@pytest.mark.promise("CNF-9")
@pytest.mark.needs("grants")
@pytest.mark.parametrize("how", ["result", "error", "exception"])
def test_a_granted_secret_never_leaves(stage: Stage, kind: Kind, how: str) -> None:
    if kind.comes == "bundled":
        pytest.skip("bundled plugins are granted nothing")
    result = stage.call(kind, "tell_secret", how=how)
    line = stage.log_line(kind, result.request_id, "logged")
    assert TOKEN not in f"{result.response} {line}"
    assert "***" in f"{result.data} {result.message}"
    assert "***" in line.message


@pytest.mark.promise("CNF-10")
@pytest.mark.needs("grants")
def test_a_tool_calls_what_it_was_granted_and_nothing_else(stage: Stage, kind: Kind) -> None:
    if kind.comes == "bundled":
        pytest.skip("bundled plugins are granted nothing")
    own = kind.plugin
    good = stage.call(kind, "call_other", name=f"{own}.echo_arguments", arguments={"text": "a", "count": "4"})
    assert good.data["count"] == 4, "a nested call goes through the whole pipeline"
    hidden = stage.call(kind, "call_other", name=f"{own}.return_value", arguments={"kind": "none"})
    assert (hidden.code, hidden.detail["reason"]) == ("DEPENDENCY_FAILED", "UNKNOWN_TOOL")
    wrong = stage.call(kind, "call_other", name=f"{own}.echo_arguments", arguments={"count": "x"})
    assert (wrong.code, wrong.detail["reason"]) == ("DEPENDENCY_FAILED", "INVALID_ARGUMENT")
    confirmed = stage.call(kind, "call_other", name=f"{own}.act_destructive", arguments={"outcome": "ok"})
    assert (confirmed.code, confirmed.detail["reason"]) == ("DEPENDENCY_FAILED", "PERMISSION_DENIED")
    late = stage.call(kind, "call_other", name=f"{own}.sleep_over")
    assert (late.code, late.detail["reason"]) == ("DEPENDENCY_FAILED", "TIMEOUT")
    bounded = stage.call(
        kind, "call_other", name=f"{own}.act_none", arguments={"outcome": "sleep"}, timeout_ms=300
    )
    assert bounded.code in ("TIMEOUT", "DEPENDENCY_FAILED")
    assert bounded.duration_ms < 1000, "a parent's deadline holds for what it calls"


@pytest.mark.promise("CNF-10")
@pytest.mark.needs("grants")
def test_tools_that_call_each_other_without_end_are_stopped(stage: Stage, kind: Kind) -> None:
    if kind.comes == "bundled":
        pytest.skip("bundled plugins are granted nothing")
    name = f"{kind.plugin}.call_other"
    arguments: dict[str, object] = {"name": f"{kind.plugin}.echo_arguments", "arguments": {"text": "end"}}
    for _ in range(3):
        arguments = {"name": name, "arguments": arguments}
    assert stage.call(kind, "call_other", **arguments).data["text"] == "end"
    for _ in range(12):
        arguments = {"name": name, "arguments": arguments}
    result = stage.call(kind, "call_other", **arguments)
    assert result.code == "DEPENDENCY_FAILED"
    assert "deep" in result.message
