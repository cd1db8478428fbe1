"""A plugin's stdlib log records reach the plugin's log, with the call that they belong to."""

from __future__ import annotations

import contextvars
import io
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesd.telemetry.plugin_log import PluginLog
from hermesd.telemetry.routing import CallScope, call_scope, current_call, routed

SCOPE = CallScope("orders", "orders.query_status", "r1", "s1", 3)


@pytest.fixture
def plugin_log(tmp_path: Path) -> Iterator[PluginLog]:
    log = PluginLog(tmp_path)
    yield log
    log.close()


@pytest.fixture
def main_log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.INFO)
    yield stream
    root.setLevel(level)
    root.removeHandler(handler)


async def test_records_within_a_call_go_to_the_plugins_log_and_only_there(
    plugin_log: PluginLog, main_log: io.StringIO
) -> None:
    library = logging.getLogger("some_library")
    with routed(plugin_log), call_scope(SCOPE):
        library.warning("slow %s", "查询")
        logging.getLogger("hermesd.serving").info("the daemon's own")
    (line,) = await plugin_log.tail("orders", 5)
    assert (line.tool, line.request_id, line.session_id, line.attempt) == (
        "orders.query_status",
        "r1",
        "s1",
        3,
    )
    assert (line.level, line.message, line.fields) == ("warning", "slow 查询", {"logger": "some_library"})
    assert main_log.getvalue() == "the daemon's own\n"


async def test_records_outside_a_call_stay_in_the_daemons_log(
    plugin_log: PluginLog, main_log: io.StringIO
) -> None:
    with routed(plugin_log):
        logging.getLogger("some_library").warning("nobody's call")
    with call_scope(SCOPE):
        logging.getLogger("some_library").warning("routing is over")
    assert main_log.getvalue() == "nobody's call\nrouting is over\n"
    assert await plugin_log.tail("orders", 5) == []


async def test_the_call_follows_a_copied_context_into_a_thread(plugin_log: PluginLog) -> None:
    with routed(plugin_log), call_scope(SCOPE):
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(logging.getLogger("lib").error, "in a thread"))
        thread.start()
        thread.join()
    assert current_call.get() is None
    assert [each.message for each in await plugin_log.tail("orders", 5)] == ["in a thread"]


async def test_a_record_that_cannot_be_formatted_is_kept_and_harms_nobody(plugin_log: PluginLog) -> None:
    with routed(plugin_log), call_scope(SCOPE):
        logging.getLogger("lib").error("%d apples", "many")
        try:
            raise ValueError("boom")
        except ValueError:
            logging.getLogger("lib").critical("with a traceback", exc_info=True)
    first, second = await plugin_log.tail("orders", 5)
    assert "cannot be formatted" in first.message
    assert second.level == "error"
    assert "ValueError: boom" in second.message
