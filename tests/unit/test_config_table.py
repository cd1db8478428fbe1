"""The table of keys: complete, declared, mirrored by the dataclasses and by the reference page."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hermesd.config import configuration as types
from hermesd.config.kind import Number
from hermesd.config.reference import render
from hermesd.config.table import TABLE
from hermesd.model.rate import Bound

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.promise("CFG-9")
@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.path)
def test_every_key_declares_how_it_reloads_and_what_it_does(row: object) -> None:
    """nats-server: a field that does not say how it reloads is a field that is lost in one."""
    assert getattr(row, "reload", None) in ("live", "restart")
    doc = getattr(row, "doc", "")
    assert doc.endswith(".")
    assert doc[0].isupper() or doc[0] == "`"


def test_a_key_stands_once_and_below_a_section() -> None:
    paths = [row.path for row in TABLE.rows]
    assert len(set(paths)) == len(paths)
    sections = {row.path for row in TABLE.rows if row.kind is None}
    for row in TABLE.rows:
        above = row.path.rpartition(".")[0]
        assert above in sections or not above, row.path
        if row.kind is None:
            assert any(other.path.startswith(f"{row.path}.") for other in TABLE.rows), row.path


def test_a_key_below_one_that_restarts_restarts_too() -> None:
    for row in TABLE.rows:
        above = row.path.rpartition(".")[0]
        parent = next((each for each in TABLE.rows if each.path == above), None)
        if parent is not None and parent.reload == "restart":
            assert row.reload == "restart", row.path


def test_only_what_a_running_daemon_cannot_change_needs_a_restart() -> None:
    assert {row.path for row in TABLE.leaves() if row.reload == "restart"} == {
        "server.listen", "server.socket_group", "server.http", "server.limits.message_mb",
        "server.limits.max_concurrent_streams", "server.limits.keepalive_min_s", "data_dir", "plugins.watch",
        "telemetry.log_dir", "server.agents_listen", "server.tls.cert", "server.tls.key",
        "server.tls.client_ca",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ("server", types.Server),
        ("server.limits", types.Limits),
        ("plugins", types.Plugins),
        ("plugins.trusted.*", types.TrustEntry),
        ("plugins.limits.*", Bound),
        ("plugins.untrusted.*", types.UntrustedEntry),
        ("defaults", types.Defaults),
        ("defaults.description_chars", types.DescriptionChars),
        ("defaults.retry", types.Retry),
        ("defaults.circuit_breaker", types.CircuitBreaker),
        ("telemetry", types.Telemetry),
        ("server.tls", types.Tls),
        ("agents.*", types.AgentEntry),
        ("agents.*.tools", types.ToolRights),
    ],
)
def test_the_dataclasses_mirror_the_table(section: str, kind: type) -> None:
    names = {
        row.path.removeprefix(f"{section}.")
        for row in TABLE.rows
        if row.path.rpartition(".")[0] == section and (not row.deferred or "untrusted" in row.path)
    }
    assert {each.name for each in dataclasses.fields(kind)} - {"untrusted"} == names - {"untrusted"}


@pytest.mark.parametrize(
    ("section", "instance"),
    [
        ("server", types.Server()),
        ("server.limits", types.Limits()),
        ("plugins", types.Plugins()),
        ("defaults", types.Defaults()),
        ("defaults.description_chars", types.DescriptionChars()),
        ("defaults.retry", types.Retry()),
        ("defaults.circuit_breaker", types.CircuitBreaker()),
        ("telemetry", types.Telemetry()),
        ("plugins.trusted.*", types.TrustEntry()),
        ("plugins.limits.*", Bound()),
        ("server.tls", types.Tls()),
        ("agents.*", types.AgentEntry()),
        ("agents.*.tools", types.ToolRights()),
    ],
)
def test_the_defaults_of_dataclasses_and_table_agree(section: str, instance: object) -> None:
    for row in TABLE.leaves():
        above, _, name = row.path.rpartition(".")
        if above == section and not row.deferred:
            assert getattr(instance, name) == row.default, row.path


def test_defaults_lie_within_their_own_bounds() -> None:
    for row in TABLE.leaves():
        if isinstance(row.kind, Number) and isinstance(row.default, int | float):
            assert row.kind.minimum <= row.default <= row.kind.maximum, row.path


@pytest.mark.promise("CFG-9")
def test_every_key_of_this_build_is_in_the_reference_page() -> None:
    page = render()
    for row in TABLE.leaves():
        if not row.path.startswith("mcpServers."):
            assert f"| `{row.path}` |" in page


def test_the_reference_page_is_not_stale() -> None:
    page = ROOT / "docs" / "configuration.md"
    assert page.read_text(encoding="utf-8") == render(), "run tools/render_docs.py"
