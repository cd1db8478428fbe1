"""A plugin in the daemon's own process: nothing it does reaches beyond it, and its end leaves nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermesd.errors import PluginError
from hermesd.runtimes.runtime import Vitals
from tests.inprocess_bench import (
    HEAD,
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
    """hermes-agent#76821, #10048: hooks without a deadline that held up everything."""
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
