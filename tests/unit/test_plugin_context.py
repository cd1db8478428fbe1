"""What a tool is told and can say."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from hermesd.plugin import PluginContext, ToolCallError, ToolContext, ToolError
from hermesd.plugin.context import Log


def context(**changes: Any) -> tuple[ToolContext, list[tuple[str, dict[str, object]]]]:
    events: list[tuple[str, dict[str, object]]] = []
    given: dict[str, Any] = {
        "tool": "p.t",
        "request_id": "r",
        "session_id": "s",
        "attempt": 2,
        "deadline": None,
        "settings": {"a": 1},
        "secrets": {"TOKEN": "hush"},
        "shared": {"db": 7},
        "emit": lambda kind, event: events.append((kind, event)),
        "call": None,
        "cancelled": threading.Event(),
        "asynchronous": False,
        **changes,
    }
    return ToolContext(**given), events


def answering(
    data: object = None, error: BaseException | None = None
) -> Callable[[str, dict[str, object]], Future[Any]]:
    def call(tool: str, arguments: dict[str, object], /) -> Future[Any]:
        future: Future[Any] = Future()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result({"tool": tool, "arguments": arguments, "data": data})
        return future

    return call


def test_the_call_is_described() -> None:
    ctx, _ = context()
    assert (ctx.tool, ctx.request_id, ctx.session_id, ctx.attempt) == ("p.t", "r", "s", 2)
    assert ctx.settings["a"] == 1
    assert ctx.remaining_s is None
    assert 5 < (context(deadline=time.monotonic() + 10)[0].remaining_s or 0) <= 10
    assert context(deadline=time.monotonic() - 10)[0].remaining_s == 0.0


def test_progress_and_logs_are_events() -> None:
    ctx, events = context()
    ctx.progress(1, 3, "读取")
    ctx.progress(2)
    ctx.log("你好", level="warning", order=7)
    ctx.log.info("a")
    ctx.log.debug("b", x={1})
    ctx.log.warning("c")
    ctx.log.error(ValueError("d"), bad=object)
    assert events[:2] == [
        ("progress", {"done": 1, "total": 3, "message": "读取"}),
        ("progress", {"done": 2, "total": None, "message": ""}),
    ]
    logs = [event for kind, event in events if kind == "log"]
    assert [each["level"] for each in logs] == ["warning", "info", "debug", "warning", "error"]
    assert logs[0] == {"level": "warning", "message": "你好", "fields": {"order": 7}}
    assert logs[2]["fields"] == {"x": [1]}
    assert logs[4] == {"level": "error", "message": "d", "fields": {"bad": "<class 'object'>"}}


def test_an_unknown_level_names_those_that_exist() -> None:
    with pytest.raises(ValueError, match="debug, info"):
        context()[0].log("x", level="loud")


def test_cancelled_is_a_truth_and_can_be_waited_for() -> None:
    event = threading.Event()
    ctx, _ = context(cancelled=event)
    assert not ctx.cancelled
    assert not ctx.cancelled.is_set()
    assert ctx.cancelled.wait(0) is False
    event.set()
    assert ctx.cancelled
    assert ctx.cancelled.wait() is True


def test_secrets_and_shared_things_that_are_not_there_are_told() -> None:
    ctx, _ = context()
    assert ctx.secret("TOKEN") == "hush"
    assert ctx.shared("db") == 7
    with pytest.raises(ToolError, match="'OTHER' is not granted") as caught:
        ctx.secret("OTHER")
    assert caught.value.code == "PERMISSION_DENIED"
    assert "secrets.OTHER set in hermesd.yaml" in str(caught.value.detail["remedy"])
    with pytest.raises(ToolError, match="it made db"):
        ctx.shared("cache")


def test_a_sync_tool_gets_the_data_of_another_tool() -> None:
    ctx, _ = context(call=answering("x"))
    assert ctx.call("text.stats", tool={1}, self=2) == {
        "tool": "text.stats",
        "arguments": {"tool": [1], "self": 2},
        "data": "x",
    }


def test_an_async_tool_awaits_the_data_of_another_tool() -> None:
    async def run() -> Any:
        return await context(call=answering("x"), asynchronous=True)[0].call("text.stats")

    assert asyncio.run(run())["data"] == "x"


def test_a_failed_call_says_code_message_and_detail() -> None:
    error = ToolCallError("UNAVAILABLE", "gone", {"reason": "r"})
    for asynchronous in (False, True):
        ctx, _ = context(call=answering(error=error), asynchronous=asynchronous)

        async def run(ctx: ToolContext = ctx) -> Any:
            return await ctx.call("a.b")

        with pytest.raises(ToolCallError, match="UNAVAILABLE: gone") as caught:
            asyncio.run(run()) if asynchronous else ctx.call("a.b")
        assert (caught.value.code, caught.value.message, caught.value.detail) == (
            "UNAVAILABLE",
            "gone",
            {"reason": "r"},
        )


def test_a_call_that_was_not_granted_is_refused() -> None:
    with pytest.raises(ToolCallError, match="granted no calls"):
        context()[0].call("a.b")


def test_a_call_does_not_outlast_the_deadline() -> None:
    pending: Future[Any] = Future()
    ctx, _ = context(call=lambda *_: pending, deadline=time.monotonic())
    with pytest.raises(ToolCallError, match="TIMEOUT"):
        ctx.call("a.b")
    assert pending.cancelled()


def test_a_plugin_knows_itself() -> None:
    events: list[Any] = []
    ctx = PluginContext(
        name="p",
        version="1.0.0",
        settings={},
        secrets={"A": "b"},
        log=Log(lambda *event: events.append(event)),
    )
    ctx.log("hello")
    assert ctx.secret("A") == "b"
    assert events[0][1]["message"] == "hello"
    with pytest.raises(ToolError, match="not granted"):
        ctx.secret("B")


def test_a_tool_error_says_what_the_caller_needs() -> None:
    error = ToolError("locked", code="ORDER_LOCKED", effect="none", retryable=True, detail={"by": "x"})
    assert (error.code, error.effect, error.retryable) == ("TOOL_ERROR", "none", True)
    assert error.detail == {"by": "x", "code": "ORDER_LOCKED"}
    assert ToolError("x", code="UNAVAILABLE").code == "UNAVAILABLE"
    with pytest.raises(ValueError, match="effect must be"):
        ToolError("x", effect="maybe")  # type: ignore[arg-type]
