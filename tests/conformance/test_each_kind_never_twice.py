"""An idempotency key brings the recorded answer and runs nothing, whatever runs the tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kind import Kind, Stage
from tests.harness import eventually


@pytest.mark.promise("CNF-13")
@pytest.mark.parametrize("then", ["ok", "error", "error_done", "nothing"])
def test_a_repetition_brings_the_recorded_answer(stage: Stage, kind: Kind, tmp_path: Path, then: str) -> None:
    arguments: dict[str, Any] = {"path": str(tmp_path / "lines"), "then": then}
    key = f"{kind.plugin}-{tmp_path}"
    first = stage.call(kind, "append_line", idempotency_key=key, **arguments)
    second = stage.call(kind, "append_line", idempotency_key=key, **arguments)
    assert (second.code, second.data, second.effect) == (first.code, first.data, first.effect)
    assert second.detail["replayed"] is True
    assert "replayed" not in first.detail
    assert second.request_id != first.request_id
    assert (tmp_path / "lines").read_text() == "x\n"
    refused = stage.call(kind, "append_line", idempotency_key=key, path=str(tmp_path / "other"))
    assert (refused.code, refused.effect) == ("INVALID_ARGUMENT", "none")
    assert not (tmp_path / "other").exists()


@pytest.mark.promise("CNF-13")
def test_duplicates_that_come_at_once_wait_for_the_one(stage: Stage, kind: Kind, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"path": str(tmp_path / "lines"), "seconds": 0.3}
    key = f"{kind.plugin}-{tmp_path}"
    with (
        stage.calling(kind, "append_line", idempotency_key=key, **arguments) as one,
        stage.calling(kind, "append_line", idempotency_key=key, **arguments) as two,
        stage.calling(kind, "append_line", idempotency_key=key, **arguments) as three,
    ):
        pass
    assert [each[0].data for each in (one, two, three)] == [1, 1, 1]
    assert sum(bool(each[0].detail.get("replayed")) for each in (one, two, three)) == 2
    assert (tmp_path / "lines").read_text() == "x\n"


@pytest.mark.promise("CNF-13")
@pytest.mark.needs("crash")
def test_a_key_whose_call_ended_with_its_process_keeps_the_doubt(
    stage: Stage, kind: Kind, tmp_path: Path
) -> None:
    arguments = {"path": str(tmp_path / "lines")}
    key = f"{kind.plugin}-{tmp_path}"
    first = stage.call(kind, "append_and_end", idempotency_key=key, **arguments)
    assert first.effect == "unknown"
    second = stage.call(kind, "append_and_end", idempotency_key=key, **arguments)
    assert (second.code, second.effect) == (first.code, "unknown")
    assert (tmp_path / "lines").read_text() == "x\n"
    eventually(lambda: stage.call(kind, "act_read", outcome="ok").ok)
