"""Whatever a tool returns is JSON that strict readers take, or INVALID_RESULT that says where it is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.kind import Kind, Stage, is_json

GOOD: dict[str, Any] = {
    "bytes": "AP8=",
    "integer": 2**53 + 1,
    "long": 10**300,
    "order": {"z": 1, "a": 2},
    "dataclass": {"id": 7, "placed": "2030-01-31", "colour": "红"},
    "set": [1, 2, 3],
    "uuid": "00000000-0000-0000-0000-000000000005",
    "none": None,
    "text": "汉字 \u2028 😀 \x00",
}
#: kind → what the message says.
BAD = {
    "nan": "nan",
    "infinity": "/1/x",
    "surrogate": "/a",
    "cycle": "itself",
    "deep": "deep",
    "object": "object",
    "generator": "list",
}


@pytest.mark.promise("CNF-6")
@pytest.mark.parametrize("value", GOOD)
def test_what_has_a_json_form_arrives_in_it(stage: Stage, kind: Kind, value: str) -> None:
    result = stage.call(kind, "return_value", kind=value)
    assert (result.code, result.data) == ("OK", GOOD[value])
    assert is_json(result.response.result.data_json)
    if value == "order":
        assert list(result.data) == ["z", "a"]


@pytest.mark.promise("CNF-6")
@pytest.mark.parametrize("value", BAD)
def test_what_has_none_is_refused_and_says_where(stage: Stage, kind: Kind, value: str) -> None:
    result = stage.call(kind, "return_value", kind=value)
    assert (result.code, result.data) == ("INVALID_RESULT", None)
    assert BAD[value] in f"{result.message} {json.dumps(result.detail)}"
    assert result.detail["remedy"]


@pytest.mark.promise("CNF-6")
def test_ten_megabytes_are_answered_or_kept_and_more_than_fits_is_refused(stage: Stage, kind: Kind) -> None:
    size = 10 * 1024 * 1024
    result = stage.call(kind, "return_size", size=size, timeout_s=30)
    assert result.code == "OK", result.message
    assert result.truncated or len(result.data) == size
    refused = stage.call(kind, "return_size", size=40 * 1024 * 1024, timeout_s=30)
    assert refused.code == "INVALID_RESULT"
    assert refused.detail["reason"]
    assert stage.call(kind, "act_read", outcome="ok").ok
