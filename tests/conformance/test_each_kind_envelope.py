"""Every kind of tool answers the same envelope, with the code and the effect of the one table."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from hermesd.client import MissingError
from tests.conformance.kind import Kind, Stage
from tests.harness import eventually

EFFECTS = ("none", "read", "write", "destructive")
#: outcome → (code, effect of a write); where side effects are none or read it is none whatever happens.
TABLE = {
    "ok": ("OK", "done"),
    "error": ("TOOL_ERROR", "unknown"),
    "error_none": ("TOOL_ERROR", "none"),
    "error_done": ("TOOL_ERROR", "done"),
    "exception": ("TOOL_ERROR", "unknown"),
    "nothing": ("INVALID_RESULT", "done"),
    "sleep": ("TIMEOUT", "unknown"),
}


@pytest.mark.promise("CNF-1")
def test_an_answer_is_the_whole_envelope(stage: Stage, kind: Kind) -> None:
    began = time.monotonic()
    result = stage.call(kind, "echo_arguments", text="汉", request_id=f"env-{kind.plugin}", session_id="s-1")
    wall_ms = (time.monotonic() - began) * 1000
    assert (result.status, result.code, result.message, result.effect) == ("ok", "OK", "", "none")
    assert result.data == {"text": "汉", "count": 1, "day": "None", "flags": None}
    assert (result.request_id, result.session_id) == (f"env-{kind.plugin}", "s-1")
    assert (result.tool, result.version) == (f"{kind.plugin}.echo_arguments", "1.0.0")
    assert (result.attempts, result.truncated, result.retryable) == (1, False, False)
    assert result.generation >= 1
    assert 0 <= result.queued_ms <= result.duration_ms <= wall_ms
    assert result.detail == {}


@pytest.mark.promise("CNF-2")
@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("outcome", TABLE)
def test_effect_follows_the_table(stage: Stage, kind: Kind, outcome: str, effects: str) -> None:
    code, of_write = TABLE[outcome]
    timeout = {"timeout_ms": 250} if outcome == "sleep" else {}
    result = stage.call(kind, f"act_{effects}", outcome=outcome, **timeout)
    assert result.code == code, result.message
    assert result.effect == (of_write if effects in ("write", "destructive") else "none")
    if code != "OK":
        assert result.detail["remedy"]
        assert result.data is None
        assert result.message


@pytest.mark.promise("CNF-2")
@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("act_write", {"outcome": "what"}, "INVALID_ARGUMENT"),
        ("act_writ", {"outcome": "ok"}, "UNKNOWN_TOOL"),
        ("need_command", {}, "UNAVAILABLE"),
    ],
)
def test_what_is_refused_before_the_tool_has_no_effect(
    stage: Stage, kind: Kind, tool: str, arguments: dict[str, Any], code: str
) -> None:
    result = stage.call(kind, tool, **arguments)
    assert (result.code, result.effect, result.data) == (code, "none", None)
    assert result.attempts == 0
    assert result.detail["remedy"]
    if code == "UNKNOWN_TOOL":
        assert f"{kind.plugin}.act_write" in result.detail["nearest"]
    if code == "UNAVAILABLE":
        assert "no-such-command-anywhere" in result.detail["reason"]
        assert result.detail["remedy"] == "install it"


@pytest.mark.promise("CNF-2")
@pytest.mark.needs("crash")
def test_a_process_that_ends_during_a_write_leaves_its_effect_unknown(stage: Stage, kind: Kind) -> None:
    result = stage.call(kind, "end_process")
    assert (result.code, result.effect) == ("UNAVAILABLE", "unknown")
    assert result.detail["remedy"]
    again = eventually(lambda: (each := stage.call(kind, "act_read", outcome="ok")).ok and each)
    assert again.data == "ok"


@pytest.mark.promise("CNF-3")
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("exit", "TOOL_ERROR"),
        ("interrupt", "TOOL_ERROR"),
        ("recursion", "TOOL_ERROR"),
        ("told", "DEPENDENCY_FAILED"),
        ("large", "TOOL_ERROR"),
        ("untellable", "TOOL_ERROR"),
        ("group", "TOOL_ERROR"),
        ("assert", "TOOL_ERROR"),
        ("value", "TOOL_ERROR"),
    ],
)
def test_whatever_is_raised_is_an_answer_without_a_traceback(
    stage: Stage, kind: Kind, how: str, code: str
) -> None:
    result = stage.call(kind, "raise_error", kind=how)
    told = f"{result.message} {json.dumps(result.detail)}"
    assert result.code == code, told
    assert not [each for each in ("Traceback", 'File "', "second line", kind.plugin + ".py") if each in told]
    assert len(told) < 100_000
    assert result.detail["remedy"]
    if how == "told":
        assert (result.retryable, result.detail["order"], result.message) == (True, 7, "没有")
    if how == "value":
        assert result.message == "ValueError: bad order"
        line = stage.log_line(kind, result.request_id, "Traceback")
        assert "bad order" in line.fields_json
    assert stage.call(kind, "act_read", outcome="ok").ok, "and the next call is served"


@pytest.mark.promise("CNF-4")
def test_a_call_is_cancelled_by_its_id_and_the_tool_is_told(stage: Stage, kind: Kind, tmp_path: Path) -> None:
    note, request_id = tmp_path / "note", f"cancel-{kind.plugin}"
    name, arguments = f"{kind.plugin}.wait_long", {"path": str(note)}
    events = stage.client.stream_call_tool(name, arguments, request_id=request_id, timeout_s=20)
    assert next(each for each in events if each.HasField("progress")).progress.message == "begun"
    stage.client.cancel_call(request_id)
    result = list(events)[-1].result
    assert (result.code, result.effect) == ("CANCELLED", "unknown")
    assert eventually(lambda: note.exists() and note.read_text()) == "cancelled=True"
    with pytest.raises(MissingError):
        stage.client.cancel_call(request_id)


@pytest.mark.promise("CNF-4")
def test_a_caller_that_goes_away_ends_its_call(stage: Stage, kind: Kind, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with stage.daemon.client() as client:
        events = client.stream_call_tool(f"{kind.plugin}.wait_long", {"path": str(note)}, timeout_s=20)
        assert next(each for each in events if each.HasField("progress")).progress.message == "begun"
        events.close()
    assert eventually(lambda: note.exists() and note.read_text()) == "cancelled=True"


@pytest.mark.promise("CNF-2")
def test_what_leaves_goes_on_working_and_says_so(stage: Stage, kind: Kind) -> None:
    result = stage.call(kind, "do_formerly")
    assert (result.data, result.effect) == ("still here", "done")
    assert result.detail["deprecated"]["use"] == f"{kind.plugin}.act_write"
