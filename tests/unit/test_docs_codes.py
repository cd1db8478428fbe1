"""docs/codes.md says of each code and status what the code of hermesd does."""

from __future__ import annotations

import re
from pathlib import Path

import grpc
import pytest

from hermesd.client.error import _KINDS
from hermesd.model.call import Code
from hermesd.rpc.fault import CODES

PAGE = (Path(__file__).parents[2] / "docs" / "codes.md").read_text(encoding="utf-8")
RESULTS, _, STATUSES = PAGE.partition("## gRPC statuses")


def row(text: str, name: str) -> str:
    rows = [line for line in text.splitlines() if re.match(rf"\| [^|]*`{name}`[^|]*\|", line)]
    assert len(rows) == 1, f"{name} has {len(rows)} rows"
    return rows[0]


@pytest.mark.parametrize("code", list(Code))
def test_each_code_of_a_result_has_one_row(code: Code) -> None:
    assert row(RESULTS, code.value)


@pytest.mark.parametrize("status", sorted({status.name for _, status in CODES} | _KINDS.keys()))
def test_each_status_has_one_row_that_names_the_clients_class(status: str) -> None:
    kind = _KINDS.get(status)
    assert kind is None or f"`{kind.__name__}`" in row(STATUSES, status)
    assert grpc.StatusCode[status]
    assert row(STATUSES, status)
