"""Another attempt where it can do no harm, a circuit where it would do no good, and rates that hold."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.conformance.kind import Kind, Stage


@pytest.mark.promise("CNF-14")
@pytest.mark.parametrize(("failures", "attempts", "code"), [(0, 1, "OK"), (2, 3, "OK"), (9, 3, "")])
def test_what_reads_is_attempted_again(
    stage: Stage, kind: Kind, tmp_path: Path, failures: int, attempts: int, code: str
) -> None:
    note = tmp_path / "lines"
    result = stage.call(kind, "reach_service", path=str(note), failures=failures)
    assert (result.attempts, result.effect) == (attempts, "none")
    assert len(note.read_text().splitlines()) == attempts
    assert result.ok == (code == "OK")
    assert result.ok or result.detail["remedy"]


@pytest.mark.promise("CNF-14")
def test_what_may_have_written_is_never_sent_twice(stage: Stage, kind: Kind, tmp_path: Path) -> None:
    note = tmp_path / "lines"
    result = stage.call(kind, "send_once", path=str(note))
    assert not result.ok
    assert (result.attempts, result.effect) == (1, "unknown")
    assert note.read_text() == "attempt\n"


@pytest.mark.promise("CNF-14")
def test_a_circuit_opens_says_when_to_come_back_and_closes(stage: Stage, kind: Kind, tmp_path: Path) -> None:
    there = tmp_path / "there"
    for _ in range(3):
        failed = stage.call(kind, "ask_far", path=str(there))
        assert failed.code not in ("OK", "CIRCUIT_OPEN")
    held = stage.call(kind, "ask_far", path=str(there))
    assert (held.code, held.effect, held.attempts) == ("CIRCUIT_OPEN", "none", 0)
    assert 0 < held.detail["retry_after_ms"] <= 400
    assert held.detail["remedy"]
    tool = stage.client.get_tool(f"{kind.plugin}.ask_far").tool
    assert (tool.state, bool(tool.reason)) == ("degraded", True)
    assert stage.call(kind, "act_none", outcome="ok").ok, "the plugin's other tools do not suffer"
    there.touch()
    time.sleep(held.detail["retry_after_ms"] / 1000 + 0.05)
    assert stage.call(kind, "ask_far", path=str(there)).data == "reached"
    assert stage.client.get_tool(f"{kind.plugin}.ask_far").tool.state == "ready"


@pytest.mark.promise("CNF-14")
def test_a_fallback_answers_while_the_circuit_is_open(stage: Stage, kind: Kind) -> None:
    results = [stage.call(kind, "ask_with_fallback") for _ in range(3)]
    assert (results[-1].code, results[-1].data) == ("OK", {"from": "fallback"})
    assert results[-1].detail["degraded"] is True


@pytest.mark.promise("CNF-14")
def test_a_rate_refuses_at_once_and_says_when_to_come_back(stage: Stage, kind: Kind) -> None:
    results = [stage.call(kind, "take_rate") for _ in range(3)]
    assert [each.code for each in results] == ["OK", "OK", "RATE_LIMITED"]
    refused = results[-1]
    assert (refused.effect, refused.attempts) == ("none", 0)
    assert 0 < refused.detail["retry_after_ms"] <= 60_000
    assert refused.detail["remedy"]
