"""Grants: what an operator decided survives, says who and when, and is never taken for empty."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesd.errors import AlreadyExistsError, InvalidRequestError, NotFoundError, StoreError
from hermesd.store import durable
from hermesd.store.grants import AUDIT_ENTRIES, AgentGrant, GrantStore

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64


class Noon:
    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grants.json"


@pytest.fixture
def store(path: Path) -> GrantStore:
    return GrantStore(path, Noon())


def test_every_decision_survives_a_restart(store: GrantStore, path: Path) -> None:
    store.trust("orders", DIGEST, isolation="process", by="operator")
    store.set_plugin("orders", enabled=False, by="operator")
    store.set_tool("orders.query_status", enabled=False, by="值班")
    store.grant("orders", {"network": ["api.example.com:443"], "calls": ["text.*"]}, by="operator")
    store.pin("orders", OTHER, by="operator")

    again = GrantStore(path, Noon())

    assert again.current == store.current
    assert again.audit == store.audit
    orders = again.current.plugin("orders")
    assert orders.trust is not None
    assert (orders.trust.digest, orders.trust.isolation, orders.trust.follow) == (DIGEST, "process", False)
    assert (orders.trust.by, orders.trust.at) == ("operator", "2026-11-30T12:00:00.000000+00:00")
    assert orders.permissions is not None
    assert orders.permissions.permissions["calls"] == ["text.*"]
    assert again.current.tool_enabled("orders.query_status") is False
    assert again.current.tool_enabled("orders.other") is None
    assert again.current.digests() == {DIGEST, OTHER}


def test_the_file_is_the_owners_alone(store: GrantStore, path: Path) -> None:
    store.trust("orders", DIGEST, by="operator")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_trusting_a_new_content_ends_a_rollback(store: GrantStore) -> None:
    store.pin("orders", OTHER, by="operator")
    store.trust("orders", DIGEST, by="operator")
    assert store.current.plugin("orders").pin is None


def test_taking_back_removes_only_that_decision(store: GrantStore) -> None:
    store.trust("orders", DIGEST, by="operator")
    store.grant("orders", {"calls": []}, by="operator")
    store.pin("orders", OTHER, by="operator")
    store.unpin("orders", by="operator")
    store.untrust("orders", by="operator")
    assert store.current.plugin("orders").trust is None
    assert store.current.plugin("orders").permissions is not None
    store.revoke("orders", by="operator")
    assert "orders" not in store.current.plugins


def test_taking_back_what_was_never_given_is_said(store: GrantStore, path: Path) -> None:
    for take_back in (store.untrust, store.revoke, store.unpin):
        with pytest.raises(NotFoundError):
            take_back("orders", by="operator")
    assert not path.exists()


def test_trust_without_a_digest_needs_follow(store: GrantStore) -> None:
    with pytest.raises(InvalidRequestError):
        store.trust("orders", "", by="operator")
    store.trust("orders", "", follow=True, by="operator")
    assert store.current.digests() == frozenset()


def test_each_change_is_audited_and_the_audit_is_bounded(store: GrantStore) -> None:
    store.trust("orders", DIGEST, by="operator")
    assert store.audit[-1] == {
        "at": "2026-11-30T12:00:00.000000+00:00",
        "by": "operator",
        "what": "trust",
        "name": "orders",
        "detail": f"{DIGEST} inprocess",
    }
    for _ in range(AUDIT_ENTRIES + 5):
        store.set_tool("orders.x", enabled=True, by="operator")
    assert len(store.audit) == AUDIT_ENTRIES


def test_a_reader_holds_one_state_while_others_change_it(store: GrantStore) -> None:
    before = store.current
    store.trust("orders", DIGEST, by="operator")
    assert before.plugin("orders").trust is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\x00\x01",
        '{"version": 1}',
        '{"version": true, "plugins": {}, "tools": {}, "audit": []}',
        '{"version": 1, "plugins": [], "tools": {}, "audit": []}',
        '{"version": 1, "plugins": {"a": {"trust": {"digest": "x"}}}, "tools": {}, "audit": []}',
        '{"version": 1, "plugins": {"a": {"surprise": {}}}, "tools": {}, "audit": []}',
        '{"version": 1, "plugins": {}, "tools": {"a.b": {"enabled": "no", "by": "", "at": ""}}, "audit": []}',
        '{"version": 1, "plugins": {"a": {"trust": {"digest": "x", "isolation": "none", "follow": false,'
        ' "by": "", "at": ""}}}, "tools": {}, "audit": []}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_an_error_never_empty(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(StoreError) as caught:
        GrantStore(path, Noon())
    assert str(path) in caught.value.message
    assert "backup" in caught.value.remedy
    assert path.read_text() == text


def test_a_newer_builds_file_is_refused(path: Path) -> None:
    path.write_text(json.dumps({"version": 2, "plugins": {}, "tools": {}, "audit": []}))
    with pytest.raises(StoreError, match="newer hermesd"):
        GrantStore(path, Noon())


def test_a_failed_write_changes_nothing(
    store: GrantStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.trust("orders", DIGEST, by="operator")
    before, text = store.current, path.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "write_all", full)
    with pytest.raises(StoreError, match="No space left"):
        store.untrust("orders", by="operator")
    assert store.current is before
    assert path.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == ["grants.json"]


AGENT = AgentGrant(
    "a" * 64,
    ("agent",),
    ("orders.*",),
    ("*.delete_*",),
    "read",
    False,
    "2030-01-01T00:00:00+00:00",
    "值班",
    "x",
)


@pytest.mark.promise("IDN-12")
def test_agents_survive_a_restart(store: GrantStore, path: Path) -> None:
    store.add_agent("reporter", AGENT)
    store.add_agent("other", AGENT)
    store.rotate_agent("reporter", "b" * 64, by="operator")
    store.revoke_agent("other", by="operator")
    again = GrantStore(path, Noon())
    assert again.current == store.current
    assert set(again.current.agents) == {"reporter"}
    kept = again.current.agents["reporter"]
    assert (kept.token_sha256, kept.allow, kept.ceiling, kept.by) == (
        "b" * 64,
        ("orders.*",),
        "read",
        "operator",
    )
    assert [each["what"] for each in again.audit] == [
        "add agent",
        "add agent",
        "rotate agent",
        "revoke agent",
    ]


def test_what_cannot_be_done_to_an_agent_changes_nothing(store: GrantStore) -> None:
    store.add_agent("reporter", AGENT)
    before = store.current
    with pytest.raises(AlreadyExistsError):
        store.add_agent("reporter", AGENT)
    with pytest.raises(NotFoundError):
        store.rotate_agent("nobody", "b" * 64, by="x")
    with pytest.raises(NotFoundError):
        store.revoke_agent("nobody", by="x")
    assert store.current is before


@pytest.mark.promise("IDN-12")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ceiling", "anything"), ("ceiling", 3), ("allow", "*"), ("allow", [1]), ("expires", "soon"),
        ("self_confirm", "yes"), ("rolls", []), ("token_sha256", None),
    ],
)  # fmt: skip
def test_damage_to_an_agent_never_gives_more_rights(
    store: GrantStore, path: Path, field: str, value: object
) -> None:
    store.add_agent("reporter", AGENT)
    document = json.loads(path.read_text())
    document["agents"]["reporter"][field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(StoreError, match="is damaged"):
        GrantStore(path, Noon())


def test_a_file_from_before_there_were_agents_is_read(store: GrantStore, path: Path) -> None:
    store.set_tool("a.b_c", enabled=False, by="x")
    document = json.loads(path.read_text())
    del document["agents"]
    path.write_text(json.dumps(document))
    assert GrantStore(path, Noon()).current.agents == {}
