"""A plugin in the daemon's own process: nothing it does reaches beyond it, and its end leaves nothing."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import hashlib
import json
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pytest

from hermesd.errors import PluginError
from hermesd.model.call import Code, Outcome
from hermesd.runtimes.inprocess import InProcessRuntime
from hermesd.runtimes.runtime import Invocation, Prepared, Vitals
from hermesd.telemetry.routing import CallScope
from tests.core_doubles import spec

WAIT_S = 10.0
HEAD = """
import asyncio, sys, threading, time
from hermesd.plugin import tool, ToolContext, ToolError, hookimpl
"""


class Gates:
    """What plugin code under test and the test itself meet at; plugins import it as `meeting`."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        self.notes: list[str] = []


@pytest.fixture
def gates() -> Any:
    made = Gates()
    module = ModuleType("meeting")
    module.gates = made  # type: ignore[attr-defined]
    sys.modules["meeting"] = module
    yield made
    made.go.set()
    del sys.modules["meeting"]


class Bench:
    """One runtime, and what it said."""

    def __init__(self, path: Path, code: str, *, files: dict[str, str] | None = None, **more: Any) -> None:
        path.mkdir(exist_ok=True)
        (path / "main.py").write_text(HEAD + dedent(code), encoding="utf-8")
        for name, text in (files or {}).items():
            (path / name).write_text(dedent(text), encoding="utf-8")
        digest = "sha256:" + hashlib.sha256(f"{path}{code}{files}".encode()).hexdigest()
        self.spec = spec("orders", digest, root=path, **{"entry": "main.py", **more})
        self.lines: list[tuple[CallScope, str, str, dict[str, object]]] = []
        self.changes = 0
        self.emitted: list[tuple[str, dict[str, object]]] = []
        self.called: list[tuple[str, dict[str, object]]] = []
        self.answer: Callable[[str, dict[str, object]], Awaitable[Outcome]] = self._answer
        self.runtime = InProcessRuntime(self.spec, on_log=self._log, on_change=self._change)
        self._ids = 0

    def _log(self, *line: Any) -> None:
        self.lines.append(line)

    def _change(self) -> None:
        self.changes += 1

    async def _answer(self, tool: str, arguments: dict[str, object]) -> Outcome:
        self.called.append((tool, arguments))
        return Outcome(Code.OK, json.dumps({"called": tool}))

    async def start(self) -> Prepared:
        prepared = await self.runtime.prepare()
        await self.runtime.ready()
        return prepared

    def call(self, tool: str, **arguments: object) -> asyncio.Task[Outcome]:
        self._ids += 1
        invocation = Invocation(
            tool=f"orders.{tool}",
            arguments=arguments,
            arguments_json=json.dumps(arguments),
            request_id=f"r{self._ids}",
            session_id="s1",
            attempt=1,
            deadline=None,
            emit=lambda kind, payload: self.emitted.append((kind, payload)),
            call=self.answer,
        )
        return asyncio.get_running_loop().create_task(self.runtime.invoke(invocation))

    async def data(self, tool: str, **arguments: object) -> Any:
        outcome = await self.call(tool, **arguments)
        assert outcome.code is Code.OK, outcome
        return json.loads(outcome.data_json)


def plugin_threads() -> list[str]:
    return sorted(each.name for each in threading.enumerate() if "orders" in each.name)


def plugin_modules() -> list[str]:
    return [each for each in sys.modules if each.startswith("hermesd_plugins.orders")]


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that a thread does; bounded."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def bench(path: Path, code: str, **more: Any) -> AsyncIterator[Bench]:
    """A started runtime; its end leaves neither thread nor module."""
    made = Bench(path, code, **more)
    await made.start()
    try:
        yield made
    finally:
        await made.runtime.close()
        await made.runtime.close()
    await until(lambda: not plugin_threads())
    assert plugin_modules() == []


async def acquire(gates: Gates, count: int = 1) -> None:
    for _ in range(count):
        assert await asyncio.to_thread(gates.begun.acquire, timeout=WAIT_S)


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


async def test_sync_and_async_tools_answer(tmp_path: Path) -> None:
    async with bench(tmp_path / "p", SIMPLE) as b:
        assert await b.data("add", a=1) == 2
        assert await b.data("add_async", a=1, b=5) == 6
        assert (await b.data("where"))["request"] == "r3"
        assert b.runtime.vitals() == Vitals()


async def test_a_plugin_runs_on_threads_of_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path / "p", SIMPLE) as b:
        began = [each for each in plugin_threads() if each.startswith("plugin-")]
        assert began == [], "made when first needed"
        assert (await b.data("where"))["thread"].startswith("plugin-orders-")
        assert await b.data("where_async") == "plugin-orders-loop"


async def test_what_it_offers_is_told_with_its_place(tmp_path: Path) -> None:
    made = Bench(tmp_path / "p", SIMPLE)
    prepared = await made.start()
    assert [each["name"] for each in prepared.tools] == [
        "orders.add", "orders.add_async", "orders.where", "orders.where_async",
    ]  # fmt: skip
    file, line = prepared.places["orders.add"]
    assert file == "main.py"
    assert "@tool" in (tmp_path / "p" / file).read_text().splitlines()[line - 1]
    await made.runtime.close()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("sys.exit(3)\n", "SystemExit"),
        ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("raise asyncio.CancelledError\n", "CancelledError"),
        ("def f(): f()\nf()\n", "RecursionError"),
        ("import nothing_of_that_name\n", "nothing_of_that_name"),
        ("@tool\ndef one(a: int) -> int: return a\n@tool\ndef two(a: threading.Lock): ...\n", "two"),
        ("def hermesd_tools():\n    raise ValueError('half way')\n", "half way"),
        ("def hermesd_tools():\n    return [5]\n", "no function"),
        ("def hermesd_startupp(): ...\n", "hermesd_startupp"),
        ("@hookimpl\ndef hermesd_startup(context): ...\n", "hermesd_startup"),
        (
            "@hookimpl(specname='hermesd_tools')\ndef a(): return []\ndef hermesd_tools(): return []\n",
            "two functions",
        ),
    ],
)
async def test_a_plugin_that_does_not_load_says_why_and_leaves_nothing(
    tmp_path: Path, code: str, why: str
) -> None:
    made = Bench(tmp_path / "p", "")
    (tmp_path / "p" / "main.py").write_text(HEAD + code)
    with pytest.raises(PluginError, match=why) as caught:
        await made.runtime.prepare()
    await made.runtime.close()
    assert all(each.remedy for each in caught.value.rejections)
    await until(lambda: not plugin_threads())
    assert plugin_modules() == []


async def test_an_import_that_does_not_end_is_given_up_and_what_it_loads_late_is_dropped(
    tmp_path: Path, gates: Gates
) -> None:
    made = Bench(tmp_path / "p", "from meeting import gates\ngates.go.wait()\n", prepare_timeout_s=0.05)
    with pytest.raises(PluginError, match="import did not end"):
        await made.runtime.prepare()
    await made.runtime.close()
    gates.go.set()
    await until(lambda: not plugin_threads())
    assert plugin_modules() == []


async def test_an_import_that_was_given_up_runs_no_hook_when_it_ends_late(
    tmp_path: Path, gates: Gates
) -> None:
    code = """
    from meeting import gates
    gates.go.wait()
    def hermesd_tools():
        gates.notes.append("ran")
    """
    made = Bench(tmp_path / "p", code, prepare_timeout_s=0.05)
    with pytest.raises(PluginError):
        await made.runtime.prepare()
    await made.runtime.close()
    gates.go.set()
    await until(lambda: not plugin_threads())
    assert gates.notes == []


async def test_a_slow_import_does_not_hold_up_the_loop(tmp_path: Path, gates: Gates) -> None:
    """HA core#113169."""
    made = Bench(tmp_path / "p", "from meeting import gates\ngates.begun.release()\ngates.go.wait()\n")
    loading = asyncio.create_task(made.runtime.prepare())
    await acquire(gates)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not loading.done()
    gates.go.set()
    await loading
    await made.runtime.close()


HOOKS = """
    from meeting import gates

    async def hermesd_startup(ctx):
        gates.notes.append(f"startup {ctx.name}")

    async def hermesd_shared():
        gates.notes.append("open")
        yield {"client": "the client"}
        gates.notes.append("closed")

    def hermesd_shutdown():
        gates.notes.append("shutdown")

    @tool
    def use(ctx: ToolContext) -> str:
        return ctx.shared("client")
"""


async def test_hooks_run_once_in_order_and_tools_get_what_they_share(tmp_path: Path, gates: Gates) -> None:
    """vault#17248."""
    async with bench(tmp_path / "p", HOOKS) as b:
        assert await b.data("use") == "the client"
        assert gates.notes == ["startup orders", "open"]
    assert gates.notes == ["startup orders", "open", "closed", "shutdown"]


@pytest.mark.parametrize(
    "code",
    [
        "def hermesd_startup():\n    raise ValueError('no database')\n",
        "async def hermesd_startup():\n    raise SystemExit('no database')\n",
        "def hermesd_shared():\n    yield {}\ndef hermesd_startup():\n    raise OSError('no database')\n",
        "def hermesd_shared():\n    raise KeyError('no database')\n",
        "def hermesd_shared():\n    return 'no database'\n",
        "def hermesd_unavailable():\n    raise ValueError('no database')\n",
    ],
)
async def test_a_plugin_that_does_not_start_leaves_nothing(tmp_path: Path, code: str) -> None:
    made = Bench(tmp_path / "p", "")
    (tmp_path / "p" / "main.py").write_text(HEAD + code)
    await made.runtime.prepare()
    with pytest.raises(PluginError):
        await made.runtime.ready()
    await made.runtime.close()
    await until(lambda: not plugin_threads())
    assert plugin_modules() == []


async def test_a_startup_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    code = """
    async def hermesd_startup():
        await asyncio.Event().wait()
    """
    made = Bench(tmp_path / "p", code, prepare_timeout_s=0.05, close_timeout_s=0.05)
    await made.runtime.prepare()
    with pytest.raises(PluginError, match="startup did not end"):
        await made.runtime.ready()
    await until(lambda: not plugin_threads())


async def test_a_shutdown_that_does_not_end_is_given_up_and_told(tmp_path: Path) -> None:
    code = """
    async def hermesd_shutdown():
        await asyncio.Event().wait()
    """
    made = Bench(tmp_path / "p", code, close_timeout_s=0.05)
    await made.start()
    await made.runtime.close()
    assert "shutdown did not end" in made.lines[-1][2]
    await until(lambda: not plugin_threads())
    assert plugin_modules() == []


async def test_a_plugin_may_say_that_it_cannot_work(tmp_path: Path) -> None:
    code = """
    def hermesd_unavailable(ctx):
        if not ctx.settings.get("roots"):
            return ("no roots are set", "set plugins.settings.orders.roots")
    """
    async with bench(tmp_path / "p", code) as b:
        assert b.runtime.unavailable() == ("no roots are set", "set plugins.settings.orders.roots")
    async with bench(tmp_path / "q", code, settings={"roots": ["/"]}) as b:
        assert b.runtime.unavailable() is None


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


async def test_threads_that_outlive_their_call_are_counted_and_make_the_plugin_unavailable_until_they_end(
    tmp_path: Path, gates: Gates
) -> None:
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
        running = [b.call("stuck") for _ in range(2)]
        await acquire(gates, 2)
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
