"""Between the model and the messages."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from hermesd.api.v1 import admin_pb2, tool_pb2
from hermesd.errors import Rejection
from hermesd.model.call import Code, Result
from hermesd.model.definition import ToolDefinition
from hermesd.model.rate import RateLimit
from hermesd.model.status import PluginStatus, ReloadReport, Standing, State
from hermesd.rpc import translate
from hermesd.rpc.call_events import CallEvent
from tests.rpc_doubles import Entry, tool_entry

AT = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)


def message_of(messages: translate.ToolMessages, entry: Entry) -> tool_pb2.Tool:
    return messages.message(entry, entry.standing())


def result(**changes: object) -> Result:
    values: dict[str, object] = {
        "code": Code.TIMEOUT, "message": "迟了", "data_json": "[1]", "request_id": "r", "session_id": "s",
        "tool": "a.b_c", "version": "1.2.3", "generation": 4, "attempts": 2, "duration_ms": 1.5,
        "queued_ms": 0.5, "retryable": True, "effect": "unknown", "detail": {"remedy": "再试"},
        "truncated": True, "content_json": '[{"type":"text","text":"图"}]',
    }  # fmt: skip
    return Result(**(values | changes))  # type: ignore[arg-type]


def test_every_field_of_the_envelope_arrives():
    value = result()
    message = translate.result_message(value)
    for each in dataclasses.fields(Result):
        if each.name not in ("detail", "content_json"):
            assert getattr(message, each.name) == getattr(value, each.name), each.name
    assert message.status == "error"
    assert message.detail_json == '{"remedy":"再试"}'
    assert [(each.type, each.text) for each in message.content] == [("text", "图")]
    assert set(message.DESCRIPTOR.fields_by_name) == {
        *(each.name for each in dataclasses.fields(Result)), "status", "detail_json", "content",
    } - {"detail", "content_json"}  # fmt: skip


def test_every_field_of_a_definition_arrives():
    definition = ToolDefinition(
        name="a.b_c", version="1.0.0", parameters={"type": "object"}, title="题", returns={"type": "integer"},
        timeout_ms=5, max_concurrency=2, tags=("x",), depends_on=("d",), parameter_guide={"p": "q"},
        rate_limit=RateLimit(7, 2.5),
    )  # fmt: skip
    tool = message_of(
        translate.ToolMessages(), dataclasses.replace(tool_entry("a.b_c"), definition=definition)
    )
    assert (tool.title, tool.timeout_ms, tool.max_concurrency) == ("题", 5, 2)
    assert (tool.parameters_json, tool.returns_json) == ('{"type":"object"}', '{"type":"integer"}')
    assert (tool.rate_limit.calls, tool.rate_limit.per_s) == (7, 2.5)
    assert (list(tool.tags), list(tool.depends_on), dict(tool.parameter_guide)) == (["x"], ["d"], {"p": "q"})
    assert tool.digest == definition.digest
    names = {each.name for each in dataclasses.fields(ToolDefinition)}
    told = {each.removesuffix("_json") for each in tool.DESCRIPTOR.fields_by_name}
    missing = names - told - {"correct"}
    assert missing == set()


def test_absent_bounds_stay_absent():
    tool = message_of(translate.ToolMessages(), tool_entry("a.b_c"))
    assert not tool.HasField("timeout_ms")
    assert not tool.HasField("max_concurrency")
    assert not tool.HasField("rate_limit")


def test_a_changed_definition_or_state_is_seen_though_translations_are_kept():
    messages = translate.ToolMessages()
    entry = tool_entry("a.b_c")
    assert message_of(messages, entry).state == "ready"
    entry.state, entry.reason = State.UNAVAILABLE, "no roots"
    assert (message_of(messages, entry).state, message_of(messages, entry).reason) == (
        "unavailable",
        "no roots",
    )
    entry.definition = dataclasses.replace(entry.definition, title="new")
    assert message_of(messages, entry).title == "new"


def test_kept_translations_do_not_grow_with_tools_that_are_gone():
    messages = translate.ToolMessages()
    for each in range(500):
        message_of(messages, tool_entry(f"a.b_{each}"))
    messages.keep_only({"a.b_1": None})
    assert len(messages._known) == 1


def test_every_field_of_a_plugins_status_arrives():
    status = PluginStatus(
        name="p", version="1", origin="folder", source="s", path="/p",
        standing=Standing(State.READY, AT, "r", "m"),
        digest="d", found_digest="f", isolation="process", generation=3, tools=("p.a_b",),
        rejections=(Rejection("p", "坏"),), warnings=("w",), draining=1, stray_threads=2, pid=9, files=("x",),
        permissions_json='{"read":[]}',
    )  # fmt: skip
    message = translate.plugin_message(status)
    set_fields = {each.name for each, _ in message.ListFields()}
    assert set_fields == set(admin_pb2.Plugin.DESCRIPTOR.fields_by_name)
    assert message.since.ToDatetime(UTC) == AT


def test_every_field_of_a_reloads_report_arrives():
    rejection = (Rejection("p", "r", "m", "f", 1, 2),)
    report = ReloadReport(
        "rev", 2, ("a",), ("c",), ("r",), ("k",), ("p",), rejection, rejection, 1.5, "sha256:c", True
    )  # fmt: skip
    message = translate.reload_message(report, {"commit": "abc", "dirty": True})
    set_fields = {each.name for each, _ in message.ListFields()}
    assert set_fields == set(admin_pb2.ReloadResponse.DESCRIPTOR.fields_by_name)
    assert not translate.reload_message(report, None).HasField("git")


def test_a_status_that_the_api_cannot_say_is_a_fault_and_names_it():
    with pytest.raises(ValueError, match="novelty"):
        translate.status_message({"novelty": 1})


def test_absent_parts_of_a_status_are_left_out():
    assert not translate.status_message({"git": None, "pid": 1}).HasField("git")


@pytest.mark.parametrize("payload", [{}, {"done": "x", "total": "y", "message": None}, {"done": 2**60}])
def test_odd_progress_of_a_tool_never_breaks_its_call(payload: dict[str, object]):
    message = translate.event_message(CallEvent(2, "progress", payload), tool_pb2.StreamCallToolResponse)
    assert message.HasField("progress")


def test_odd_log_lines_of_a_tool_never_break_its_call():
    payload: dict[str, object] = {
        "level": None,
        "message": "\ud800",
        "fields": {"at": AT, "s": {3}, "o": object()},
    }
    message = translate.event_message(CallEvent(2, "log", payload, 4), tool_pb2.StreamCallToolResponse)
    assert (message.log.level, message.log.message, message.dropped_logs) == ("info", "?", 4)


def test_lone_surrogates_are_replaced_wherever_text_travels():
    message = translate.build(
        tool_pb2.Tool, name="\ud800", tags=["\udfff", "好"], parameter_guide={"\ud800": "x"}
    )
    assert (message.name, list(message.tags), dict(message.parameter_guide)) == ("?", ["?", "好"], {"?": "x"})


@pytest.mark.promise("HOS-3")
def test_a_status_with_text_that_cannot_travel_arrives_all_the_same():
    rejected = [{"name": "a", "reason": "\udcff\udcfe is no plugin name", "file": "/p/\udcff/plugin.yaml"}]
    message = translate.status_message({"state": "ready", "reload": {"rejected": rejected}})
    assert message.reload.rejected[0].reason == "?? is no plugin name"
    assert message.reload.rejected[0].file == "/p/?/plugin.yaml"


@pytest.mark.promise("HOS-2")
def test_progress_that_no_float_holds_is_told_as_nothing():
    for done in (10**400, float("nan"), float("-inf"), "a", None):
        event = CallEvent(2, "progress", {"done": done, "total": done, "message": "x"})
        assert translate.event_message(event, tool_pb2.StreamCallToolResponse).progress.done == 0
