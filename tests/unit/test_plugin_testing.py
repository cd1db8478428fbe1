"""The helper with which authors test their tools."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from hermesd.plugin import ToolCallError, ToolContext, ToolError, tool
from hermesd.plugin.fault import ArgumentFault, LoadFault, ResultFault
from hermesd.plugin.testing import Recorder, acall, call, definition, lifespan, load


@tool(side_effects="read")
def greet(ctx: ToolContext, name: str, day: date | None = None) -> str:
    """Greet."""
    ctx.progress(1, 1, "greeted")
    ctx.log("greeted", name=name)
    return f"{ctx.settings.get('greeting', 'Hello')}, {name}{f' on {day:%d.%m.}' if day else ''}"


async def ask(ctx: ToolContext, what: str) -> object:
    return await ctx.call("text.stats", text=what)


def test_a_tool_is_called_as_the_daemon_calls_it() -> None:
    assert call(greet, name="Ada") == "Hello, Ada"
    assert (
        call(greet, {"settings": {"greeting": "你好"}}, name="Ada", day="2026-11-30") == "你好, Ada on 30.11."
    )
    assert call(greet, name="Ada", day=date(2026, 11, 30)) == "Hello, Ada on 30.11."


def test_what_the_tool_said_is_recorded() -> None:
    recorder = Recorder()
    call(greet, recorder, name="Ada")
    assert recorder.progress == [{"done": 1, "total": 1, "message": "greeted"}]
    assert recorder.logs == [{"level": "info", "message": "greeted", "fields": {"name": "Ada"}}]


def test_other_tools_are_played_by_the_test() -> None:
    recorder = Recorder(tools={"text.stats": lambda text: {"length": len(text)}})
    assert call(ask, recorder, what="four") == {"length": 4}
    assert recorder.calls == [("text.stats", {"text": "four"})]
    with pytest.raises(ToolCallError, match="UNKNOWN_TOOL"):
        call(ask, Recorder(tools={"other": 1}), what="x")
    with pytest.raises(ToolCallError, match="granted no calls"):
        call(ask, what="x")


def test_other_tools_may_fail() -> None:
    def fail(**_: object) -> None:
        raise ToolCallError("UNAVAILABLE", "gone")

    with pytest.raises(ToolCallError, match="gone"):
        call(ask, Recorder(tools={"text.stats": fail}), what="x")


async def test_an_async_test_awaits() -> None:
    assert await acall(ask, {"tools": {"text.stats": 3}}, what="x") == 3
    assert await acall(greet, name="Ada") == "Hello, Ada"


def test_deadline_secrets_shared_and_cancelling_are_there() -> None:
    def probe(ctx: ToolContext) -> object:
        recorder.cancel()
        return [ctx.secret("A"), ctx.shared("db"), (ctx.remaining_s or 0) > 1, bool(ctx.cancelled)]

    recorder = Recorder(secrets={"A": "b"}, shared={"db": 7}, timeout_s=60)
    assert call(probe, recorder) == ["b", 7, True, True]


def test_failures_are_raised_as_they_are() -> None:
    def fails() -> None:
        raise ToolError("no")

    def no_json() -> object:
        return object()

    with pytest.raises(ToolError, match="no"):
        call(fails)
    with pytest.raises(ResultFault, match="no JSON"):
        call(no_json)
    with pytest.raises(ArgumentFault, match="/day"):
        call(greet, name="x", day="2026-02-30")
    with pytest.raises(LoadFault):
        call(lambda *rest: rest)


def test_a_definition_and_a_lifespan_can_be_looked_at() -> None:
    assert definition(greet, "hello")["name"] == "hello.greet"
    module = ModuleType("m")
    module.hermesd_shared = lambda ctx: {"a": ctx.name}  # type: ignore[attr-defined]
    life = lifespan(module)
    assert life.open() == {"a": "test"}
    life.close()


@pytest.mark.promise("SDK-10")
def test_the_sdk_needs_the_standard_library_alone() -> None:
    """The same file runs in process and in a bare container."""
    names = "hermesd.plugin, hermesd.plugin.testing, hermesd.plugin.bind, hermesd.plugin.lifespan"
    code = (
        f"import sys; sys.path[:0] = {[*sys.path[:1], '.']!r}; import {names}; "
        "loaded = {n.split('.')[0] for n in sys.modules}; "
        "loaded |= {n for n in sys.modules if n.startswith('hermesd.')}; "
        "known = {'hermesd', 'hermesd.version', '__main__'} | set(sys.stdlib_module_names); "
        "more = {n for n in loaded - known if not n.startswith('hermesd.plugin')}; assert not more, more"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_plugin_whose_modules_import_each_other_is_loaded_as_the_daemon_loads_it(tmp_path: Path) -> None:
    folder = tmp_path / "my-orders"
    folder.mkdir()
    (folder / "words.py").write_text("WORD = '你好'\n", encoding="utf-8")
    (folder / "my_orders.py").write_text(
        "from .words import WORD\n\ndef greet() -> str:\n    return WORD\n", encoding="utf-8"
    )
    module = load(folder)
    assert call(module.greet) == "你好"
    assert load(folder) is module
    assert load(str(folder), "words.py").WORD == "你好"
