"""Results that are more than data, more than fits a model, other than promised, or come later."""

from __future__ import annotations

import json

import pytest

from tests.conformance.kind import Kind, Stage, is_json


@pytest.mark.promise("CNF-15")
def test_what_breaks_its_own_promise_is_refused_and_says_where(stage: Stage, kind: Kind) -> None:
    assert stage.call(kind, "break_word", keep=True).data == {"n": 1}
    broken = stage.call(kind, "break_word", keep=False)
    assert (broken.code, broken.data) == ("INVALID_RESULT", None)
    assert broken.detail["faults"][0]["path"] == "/n"
    assert broken.detail["remedy"]


@pytest.mark.promise("CNF-15")
def test_content_travels_beside_the_data(stage: Stage, kind: Kind) -> None:
    result = stage.call(kind, "show_content")
    assert result.data == {"rows": 3}
    told = str(result.response.result.content)
    assert all(each in told for each in ("three", "image/png", "file:///a/b.csv"))


@pytest.mark.promise("CNF-15")
def test_what_is_too_long_is_cut_and_the_whole_can_be_read(stage: Stage, kind: Kind) -> None:
    result = stage.call(kind, "return_size", size=200_000)
    assert (result.code, result.truncated) == ("OK", True)
    assert len(result.response.result.data_json) < 20_000
    assert is_json(result.response.result.data_json)
    assert json.loads(stage.client.call_output(result.request_id)) == "x" * 200_000


@pytest.mark.promise("CNF-15")
def test_a_detached_call_goes_on_and_is_read_later(stage: Stage, kind: Kind) -> None:
    begun = stage.client.call_tool(f"{kind.plugin}.tell_progress", {"times": 5}, detach=True)
    assert (begun.code, begun.detail["detached"]) == ("OK", True)
    events = list(stage.client.watch_call(begun.request_id))
    assert events[-1].result.code == "OK"
    assert json.loads(events[-1].result.data_json) == "done"
