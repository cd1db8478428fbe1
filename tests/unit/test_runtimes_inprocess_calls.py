"""Calls of a plugin in process: failures, cancellation, strays, secrets, calls of other tools."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import sys
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hermesd.errors import PluginError
from hermesd.model.call import Code, Outcome
from hermesd.runtimes.runtime import Vitals
from tests.inprocess_bench import (
    WAIT_S,
    Bench,
    Gates,
    acquire,
    bench,
    plugin_modules,
    plugin_threads,
    until,
)

SIMPLE = """
    @tool(side_effects="read")
    def add(a: int, b: int = 1) -> int:
        return a + b

    @tool
    async def add_async(a: int, b: int = 1) -> int:
        await asyncio.sleep(0)
        return a + b

    @tool
    def where(ctx: ToolContext) -> dict:
        return {"thread": threading.current_thread().name, "request": ctx.request_id}

    @tool
    async def where_async() -> str:
        return threading.current_thread().name
"""


FAILING = """
    @tool
    def fail(how: str) -> int:
        if how == "exit":
            sys.exit(3)
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "recursion":
            return fail(how)
        if how == "cancelled":
            raise asyncio.CancelledError
        if how == "odd":
            class Odd(Exception):
                def __str__(self): raise ValueError
            raise Odd
        raise ValueError("说不行")

    @tool
    async def fail_async(how: str) -> int:
        return fail(how)

    @tool
    def refuse(ctx: ToolContext) -> int:
        raise ToolError("the order is shipped", effect="none", retryable=True, detail={"order": 7})

    @tool
    def odd_result() -> object:
        return float("nan")

    @tool
    def fine() -> int:
        return 1
"""


@pytest.mark.promise("CORE-14")
@pytest.mark.parametrize("tool", ["fail", "fail_async"])
@pytest.mark.parametrize("how", ["exit", "interrupt", "recursion", "cancelled", "odd", "value"])
async def test_whatever_a_tool_raises_is_its_own_failure(tmp_path: Path, tool: str, how: str) -> None:
    async with bench(tmp_path / "p", FAILING) as b:
        outcome = await b.call(tool, how=how)
        assert outcome.code is Code.TOOL_ERROR
        assert "Traceback" not in f"{outcome.message}{outcome.detail}"
        scope, level, _, fields = b.lines[-1]
        assert (scope.tool, scope.request_id, level) == (f"orders.{tool}", "r1", "error")
        assert "main.py" in str(fields["trace"]), "the operator finds where"
        assert await b.data("fine") == 1


async def test_a_tool_that_refuses_says_so_itself(tmp_path: Path) -> None:
    async with bench(tmp_path / "p", FAILING) as b:
        outcome = await b.call("refuse")
        assert (outcome.code, outcome.message) == (Code.TOOL_ERROR, "the order is shipped")
        assert (outcome.effect, outcome.retryable, outcome.detail) == ("none", True, {"order": 7})
        assert (await b.call("odd_result")).code is Code.INVALID_RESULT
        assert b.lines[-1:] == [] or b.lines[-1][0].tool != "orders.refuse", "a refusal is no traceback"


async def test_a_task_of_the_plugin_that_exits_ends_neither_its_loop_nor_the_daemon(tmp_path: Path) -> None:
    code = """
    @tool
    async def spawn() -> int:
        async def bad():
            raise SystemExit(3)
        task = asyncio.ensure_future(bad())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.sleep(0)
        return 1

    @tool
    async def fine() -> int:
        return 2
    """
    async with bench(tmp_path / "p", code) as b:
        assert await b.data("spawn") == 1
        assert await b.data("fine") == 2


STUCK = """
    from meeting import gates

    @tool
    def stuck() -> int:
        gates.begun.release()
        gates.go.wait()
        return 1

    @tool
    def polite(ctx: ToolContext) -> bool:
        gates.begun.release()
        ended = ctx.cancelled.wait(10)
        gates.notes.append(f"cancelled {ended}")
        return ended

    @tool
    async def stuck_async() -> int:
        gates.begun.release()
        gates.go.wait()
        return 1

    @tool
    async def polite_async() -> int:
        gates.begun.release()
        try:
            await asyncio.Event().wait()
        finally:
            gates.notes.append("cleaned up")

    @tool
    def fine() -> int:
        return 1

    @tool
    async def fine_async() -> int:
        return 1
"""


async def end(call: asyncio.Task[Outcome]) -> None:
    """Cancel, and see that the answer is prompt whatever the tool does."""
    call.cancel()
    async with asyncio.timeout(WAIT_S):
        with contextlib.suppress(asyncio.CancelledError):
            await call


@pytest.mark.parametrize(("tool", "note"), [("polite", "cancelled True"), ("polite_async", "cleaned up")])
async def test_cancelling_reaches_the_tool(tmp_path: Path, gates: Gates, tool: str, note: str) -> None:
    async with bench(tmp_path / "p", STUCK) as b:
        call = b.call(tool)
        await acquire(gates)
        await end(call)
        await until(lambda: gates.notes == [note])
        await until(lambda: b.runtime.vitals() == Vitals())
        assert b.runtime.unavailable() is None


@pytest.mark.promise("CORE-15")
async def test_threads_that_outlive_their_call_are_counted_and_make_the_plugin_unavailable_until_they_end(
    tmp_path: Path, gates: Gates
) -> None:
    """hermes-agent#64229: work in the background that had no owner."""
    async with bench(tmp_path / "p", STUCK, max_stray_threads=2) as b:
        calls = [b.call("stuck") for _ in range(2)]
        await acquire(gates, 2)
        await end(calls[0])
        await until(lambda: b.runtime.vitals().stray_threads == 1)
        assert b.runtime.unavailable() is None
        assert "orders.stuck goes on running" in b.lines[-1][2]
        await end(calls[1])
        await until(lambda: b.runtime.vitals().stray_threads == 2)
        refusal = b.runtime.unavailable()
        assert refusal is not None
        assert "2 of its calls" in refusal[0]
        assert "isolation: process" in refusal[1]
        assert b.changes == 2
        gates.go.set()
        await until(lambda: b.runtime.vitals() == Vitals())
        assert b.runtime.unavailable() is None
        assert b.changes == 4
        assert await b.data("fine") == 1


async def test_stray_threads_take_no_place_of_others(tmp_path: Path, gates: Gates) -> None:
    async with bench(tmp_path / "p", STUCK, max_concurrency=1, max_stray_threads=2) as b:
        for _ in range(2):
            call = b.call("stuck")
            await acquire(gates)
            await end(call)
        assert await b.data("fine") == 1
        gates.go.set()


async def test_a_call_cancelled_while_it_waits_for_a_thread_is_no_stray_and_never_runs(
    tmp_path: Path, gates: Gates
) -> None:
    async with bench(tmp_path / "p", STUCK, max_concurrency=1, max_stray_threads=1) as b:
        running = [b.call("stuck") for _ in range(4)]  # a thread for each of its sync tools, and one more
        await acquire(gates, 4)
        waiting = b.call("polite")
        await asyncio.sleep(0)
        await end(waiting)
        await asyncio.sleep(b.spec.grace_s * 3)
        assert b.runtime.vitals().stray_threads == 0
        gates.go.set()
        await asyncio.gather(*running)
        await until(lambda: b.runtime.vitals() == Vitals())
        assert gates.notes == []


async def test_an_async_call_cancelled_before_its_first_step_is_no_stray(
    tmp_path: Path, gates: Gates
) -> None:
    async with bench(tmp_path / "p", STUCK) as b:
        await b.data("fine_async")
        for _ in range(50):
            call = b.call("fine_async")
            await asyncio.sleep(0)
            await end(call)
        await asyncio.sleep(b.spec.grace_s * 3)
        await until(lambda: b.runtime.vitals() == Vitals())
        assert b.runtime.unavailable() is None


async def test_a_loop_that_a_tool_blocks_makes_the_plugin_unavailable(tmp_path: Path, gates: Gates) -> None:
    async with bench(tmp_path / "p", STUCK, max_stray_threads=2) as b:
        blocking = b.call("stuck_async")
        await acquire(gates)
        behind = b.call("fine_async")
        await asyncio.sleep(0)
        await end(blocking)
        await end(behind)
        await until(lambda: b.runtime.unavailable() is not None)
        gates.go.set()
        await until(lambda: b.runtime.unavailable() is None)
        assert await b.data("fine_async") == 1


async def test_closing_does_not_wait_for_a_stuck_thread(tmp_path: Path, gates: Gates) -> None:
    made = Bench(tmp_path / "p", STUCK)
    await made.start()
    call = made.call("stuck")
    await acquire(gates)
    await end(call)
    async with asyncio.timeout(WAIT_S):
        await made.runtime.close()
    assert plugin_modules() == []
    gates.go.set()
    await until(lambda: not plugin_threads())


SECRET = 'p/w?"d+秘密'
LEAKING = """
    import base64, json
    from urllib.parse import quote

    @tool
    def leak(ctx: ToolContext, how: str) -> object:
        secret = ctx.secret("TOKEN")
        if how == "result":
            return {"plain": secret, secret: 1, "list": [f"<{secret}>"]}
        if how == "encoded":
            return [base64.b64encode(secret.encode()).decode(), quote(secret, safe=""), json.dumps(secret)]
        if how == "log":
            ctx.log(f"token {secret}", field=secret)
            ctx.progress(1, message=secret)
            return 1
        if how == "refusal":
            raise ToolError(f"bad {secret}", detail={"token": secret})
        raise ValueError(f"bad {secret}")
"""


@pytest.mark.parametrize("how", ["result", "encoded", "log", "refusal", "error"])
async def test_no_secret_leaves_the_runtime(tmp_path: Path, how: str) -> None:
    async with bench(tmp_path / "p", LEAKING, secrets={"TOKEN": SECRET}) as b:
        outcome = await b.call("leak", how=how)
        await asyncio.sleep(0)
        told = json.dumps([outcome.data_json, outcome.message, outcome.detail], ensure_ascii=False)
        told += repr([line[1:] for line in b.lines]) + repr(b.emitted)
        for form in (SECRET, base64.b64encode(SECRET.encode()).decode(), quote(SECRET, safe="")):
            assert form not in told
            assert json.dumps(form)[1:-1] not in told
        assert "***" in told
        json.loads(outcome.data_json)


CALLING = """
    @tool
    def ask(ctx: ToolContext, tool_name: str) -> object:
        return ctx.call(tool_name, text="汉")

    @tool
    async def ask_async(ctx: ToolContext, tool_name: str) -> object:
        return await ctx.call(tool_name, text="汉")
"""


@pytest.mark.parametrize("tool", ["ask", "ask_async"])
async def test_a_tool_calls_another(tmp_path: Path, tool: str) -> None:
    async with bench(tmp_path / "p", CALLING) as b:
        assert await b.data(tool, tool_name="text.stats_of") == {"called": "text.stats_of"}
        assert b.called == [("text.stats_of", {"text": "汉"})]


@pytest.mark.parametrize("tool", ["ask", "ask_async"])
async def test_a_called_tool_that_fails_is_a_failed_dependency(tmp_path: Path, tool: str) -> None:
    async with bench(tmp_path / "p", CALLING) as b:

        async def fail(_: str, __: dict[str, object]) -> Outcome:
            return Outcome(Code.TIMEOUT, message="too slow")

        b.answer = fail
        outcome = await b.call(tool, tool_name="text.stats_of")
        assert (outcome.code, outcome.detail["reason"]) == (Code.DEPENDENCY_FAILED, "TIMEOUT")


@pytest.mark.parametrize("tool", ["ask", "ask_async"])
async def test_cancelling_a_tool_cancels_what_it_calls(tmp_path: Path, tool: str) -> None:
    async with bench(tmp_path / "p", CALLING) as b:
        asked, ended = asyncio.Event(), asyncio.Event()

        async def wait(_: str, __: dict[str, object]) -> Outcome:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError("unreachable")

        b.answer = wait
        call = b.call(tool, tool_name="text.stats_of")
        async with asyncio.timeout(WAIT_S):
            await asked.wait()
            await end(call)
            await ended.wait()
        await until(lambda: b.runtime.vitals() == Vitals())


async def test_a_helper_imported_late_belongs_to_its_version(tmp_path: Path) -> None:
    """I1: two contents of one plugin side by side, each with its own helper."""
    code = """
    @tool
    def late() -> str:
        from .helpers import VERSION
        return VERSION
    """
    async with (
        bench(tmp_path / "one", code, files={"helpers.py": "VERSION = 'one'"}) as one,
        bench_beside(tmp_path / "two", code, {"helpers.py": "VERSION = 'two'"}) as two,
    ):
        assert await two.data("late") == "two"
        assert await one.data("late") == "one"


@asynccontextmanager
async def bench_beside(path: Path, code: str, files: dict[str, str]) -> AsyncIterator[Bench]:
    made = Bench(path, code, files=files)
    await made.start()
    yield made
    await made.runtime.close()


async def test_two_instances_of_one_content_are_independent_in_their_end(tmp_path: Path) -> None:
    """A changed setting is a new instance of the same code: the end of the old one must not hurt it."""
    code = """
    @tool
    def late(ctx: ToolContext) -> list:
        from .helpers import VERSION
        return [VERSION, ctx.settings["n"]]
    """
    files = {"helpers.py": "VERSION = 'one'"}
    old = Bench(tmp_path / "p", code, files=files, settings={"n": 1})
    new = Bench(tmp_path / "p", code, files=files, settings={"n": 2})
    await old.start()
    await new.start()
    await old.runtime.close()
    assert await new.data("late") == ["one", 2]
    await new.runtime.close()
    await until(lambda: not plugin_threads())
    assert plugin_modules() == []


async def test_the_manifest_has_the_last_word_on_its_tools(tmp_path: Path) -> None:
    listed = ({"name": "orders.add", "description": "from the manifest"},)
    made = Bench(tmp_path / "p", SIMPLE, tools=listed)
    prepared = await made.start()
    assert [(each["name"], each["description"]) for each in prepared.tools] == [
        ("orders.add", "from the manifest")
    ]
    await made.runtime.close()
    absent = Bench(tmp_path / "q", SIMPLE, tools=({"name": "orders.nothing"},))
    with pytest.raises(PluginError, match="does not have"):
        await absent.runtime.prepare()
    await absent.runtime.close()


class Installed:
    """What an entry point may name: an object with hooks."""

    def hermesd_tools(self) -> list[Any]:
        return [self.greet]

    def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"hello {name}"


installed = Installed()


@pytest.mark.parametrize("reference", [f"{__name__}:installed", f"{__name__}:Installed"])
async def test_an_entry_point_may_name_an_object_or_a_class(tmp_path: Path, reference: str) -> None:
    made = Bench(tmp_path / "p", "", entry=reference)
    prepared = await made.start()
    assert [each["name"] for each in prepared.tools] == ["orders.greet"]
    assert await made.data("greet", name="汉") == "hello 汉"
    await made.runtime.close()


@pytest.mark.parametrize(
    "reference", ["nothing.of.that.name", f"{__name__}:absent", f"{__name__}:Installed.nothing"]
)
async def test_an_entry_point_that_names_nothing_is_told(tmp_path: Path, reference: str) -> None:
    made = Bench(tmp_path / "p", "", entry=reference)
    with pytest.raises(PluginError):
        await made.runtime.prepare()
    await made.runtime.close()


async def test_a_closed_instance_is_not_kept_alive(tmp_path: Path) -> None:
    made = Bench(tmp_path / "p", SIMPLE)
    await made.start()
    await made.data("add", a=1)
    await made.data("add_async", a=1)
    module = weakref.ref(sys.modules[plugin_modules()[-1]])
    await made.runtime.close()
    await until(lambda: not plugin_threads())
    del made
    gc.collect()
    assert module() is None
