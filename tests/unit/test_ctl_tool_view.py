"""`ctl tools list`, `show`, `enable`, `disable` and `reset`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermesd.api.v1 import admin_pb2, circuit_pb2, tool_pb2
from hermesd.ctl.tool_view import _type_of
from hermesd.terminal.table import width_of
from tests.unit.ctl_double import Double, serving


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Double]:
    with serving(tmp_path) as double:
        yield double


def tool(name: str = "orders.query_status", **more: Any) -> tool_pb2.Tool:
    parameters = {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "完整订单号"},
            "deep": {"enum": [1, 2]},
            "any": {},
        },
        "required": ["order_id"],
    }
    fields: dict[str, Any] = {
        "name": name,
        "version": "1.0.0",
        "description": "Tells where an order is.\nMore.",
        "state": "ready",
        "side_effects": "read",
        "plugin": "orders",
        "source": "python",
        "parameters_json": json.dumps(parameters),
    }
    return tool_pb2.Tool(**(fields | more))


def test_the_list_is_aligned_beside_chinese_text_and_shows_why_a_tool_is_down(daemon: Double) -> None:
    daemon.answers["ListTools"] = tool_pb2.ListToolsResponse(
        tools=[tool(), tool("orders.find_order", state="unavailable", reason="没有信任", plugin="订单")]
    )
    lines = daemon.run("tools", "list").out.splitlines()
    assert daemon.last.include_unavailable
    assert "Tells where an order is." in lines[1]
    assert "More" not in lines[1]
    column = lines[0].index("DESCRIPTION")
    assert width_of(lines[2][: lines[2].index("没有信任")]) == column


def test_filters_reach_the_daemon(daemon: Double) -> None:
    daemon.answers["ListTools"] = tool_pb2.ListToolsResponse(generation=3)
    document = daemon.run("tools", "list", "--ready", "--source", "python", "--domain", "text", "--json").json
    assert document == {"tools": [], "next_page_token": "", "generation": 3, "tokens": 0}
    assert daemon.last == tool_pb2.ListToolsRequest(page_size=1000, source="python", domain="text")


def test_show_names_every_parameter_with_its_form(daemon: Double) -> None:
    shown = tool(timeout_ms=250, idempotent=True, when_to_use="always", remedy="look")
    shown.examples.add(user_says="where is 7", arguments_json='{"order_id": "7"}')
    shown.parameter_guide["deep"] = "how deep to look"
    daemon.answers["GetTool"] = tool_pb2.GetToolResponse(tool=shown)
    out = daemon.run("tools", "show", "orders.query_status").out
    rows = [each.split() for each in out.splitlines()]
    assert ["order_id", "string", "yes", "完整订单号"] in rows
    assert ["deep", "[1,", "2]", "no", "how", "deep", "to", "look"] in rows
    assert ["any", "any", "no", "-"] in rows
    assert "250 ms" in out
    assert "read, idempotent" in out
    assert "where is 7" in out
    assert daemon.run("tools", "show", "x.y", "--json").json["tool"]["timeout_ms"] == 250


@pytest.mark.parametrize(("reset", "said"), [(True, "is called again"), (False, "was not held back")])
def test_a_reset_says_whether_there_was_anything_to_reset(daemon: Double, reset: bool, said: str) -> None:
    answer = circuit_pb2.ResetCircuitResponse(tool=tool(state="ready"), reset=reset)
    daemon.answers["ResetCircuit"] = answer
    told = daemon.run("tools", "reset", "orders.query_status").out
    assert told == f"orders.query_status {said}; it is ready\n"
    assert daemon.last == circuit_pb2.ResetCircuitRequest(name="orders.query_status")


def test_what_a_definition_says_of_trouble_is_shown(daemon: Double) -> None:
    daemon.answers["GetTool"] = tool_pb2.GetToolResponse(
        tool=tool(retry_json='{"max_attempts":2}', fallback_json='{"value":1}')
    )
    out = daemon.run("tools", "show", "orders.query_status").out
    rows = [each.split() for each in out.splitlines()]
    assert ["retry", '{"max_attempts":2}'] in rows
    assert ["fallback", '{"value":1}'] in rows


def test_enable_and_disable_say_what_is_so_now(daemon: Double) -> None:
    daemon.answers["SetTool"] = admin_pb2.SetToolResponse(tool=tool(state="disabled"))
    assert daemon.run("tools", "disable", "orders.query_status").out == "orders.query_status is disabled\n"
    assert daemon.last == admin_pb2.SetToolRequest(name="orders.query_status", enabled=False)
    daemon.run("tools", "enable", "orders.query_status", "--json")
    assert daemon.last.enabled


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"type": "string", "enum": ["en", "zh"]}, '["en", "zh"]'),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({}, "any"),
    ],
)
def test_a_parameters_type_reads_as_words(schema: dict[str, object], shown: str) -> None:
    assert _type_of(schema) == shown
