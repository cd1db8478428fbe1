"""Each call has one record, with what it was and how it went, and without what must not be written down."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.kind import TOKEN, Kind, Stage
from tests.harness import eventually


def record(stage: Stage, request_id: str) -> Any:
    def found() -> Any:
        calls = stage.client.list_calls(page_size=200).calls
        return next((each for each in calls if each.request_id == request_id and each.state == "ended"), None)

    return eventually(found, what=f"the record of {request_id}")


@pytest.mark.promise("CNF-16")
@pytest.mark.parametrize(
    ("outcome", "code"), [("ok", "OK"), ("error", "TOOL_ERROR"), ("no", "INVALID_ARGUMENT")]
)
def test_a_record_says_what_the_answer_said(stage: Stage, kind: Kind, outcome: str, code: str) -> None:
    result = stage.call(kind, "act_write", outcome=outcome, session_id="rec")
    kept = record(stage, result.request_id)
    assert (kept.code, kept.effect, kept.attempts) == (code, result.effect, result.attempts)
    assert (kept.tool, kept.plugin, kept.session_id) == (f"{kind.plugin}.act_write", kind.plugin, "rec")
    assert (kept.version, kept.generation) == (result.version, result.generation)
    assert kept.duration_ms == pytest.approx(result.duration_ms, abs=1)
    assert kept.fingerprint


@pytest.mark.promise("CNF-16")
def test_no_secret_is_written_down(stage: Stage, kind: Kind) -> None:
    bearer = "Bearer abcdefghijklmnopqrstuvwxyz0123456789"
    result = stage.call(kind, "echo_arguments", text=bearer)
    kept = record(stage, result.request_id)
    assert "abcdefghijklmnopqrstuvwxyz" not in f"{kept.arguments}{kept.result}"
    assert TOKEN not in str(kept)
