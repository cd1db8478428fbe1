"""A call that needs somebody's agreement runs once, as it was agreed to, and not before."""

from __future__ import annotations

import pytest

from tests.conformance.kind import Kind, Stage


@pytest.mark.promise("CNF-12")
def test_what_is_destructive_runs_once_and_with_its_token_only(stage: Stage, kind: Kind) -> None:
    asked = stage.call(kind, "act_destructive", outcome="ok", confirm=False)
    assert (asked.code, asked.effect, asked.attempts) == ("CONFIRMATION_REQUIRED", "none", 0)
    assert f"{kind.plugin}.act_destructive" in asked.detail["summary"]
    assert asked.detail["expires_at"]
    assert asked.detail["remedy"]
    name, token = f"{kind.plugin}.act_destructive", asked.detail["confirmation_token"]
    other = stage.client.call_tool(name, {"outcome": "error"}, confirmation_token=token)
    assert (other.code, other.effect) == ("CONFIRMATION_REQUIRED", "none")
    agreed = stage.client.call_tool(name, {"outcome": "ok"}, confirmation_token=token)
    assert (agreed.code, agreed.data, agreed.effect) == ("OK", "ok", "done")
    again = stage.client.call_tool(name, {"outcome": "ok"}, confirmation_token=token)
    assert (again.code, again.effect) == ("CONFIRMATION_REQUIRED", "none")
    assert again.detail["reason"]


@pytest.mark.promise("CNF-12")
def test_what_writes_needs_no_agreement(stage: Stage, kind: Kind) -> None:
    assert stage.call(kind, "act_write", outcome="ok", confirm=False).ok
