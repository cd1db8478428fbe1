"""The lifecycle hooks, in every form that authors write them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hermesd.plugin.fault import LoadFault
from hermesd.plugin.load import load_package, unload_package
from hermesd.plugin.testing import lifespan

PACKAGE = "hermesd_plugins.life_1"
SYNC = """
events = []
def hermesd_startup(ctx): events.append(f"startup {ctx.name}")
def hermesd_shutdown(): events.append("shutdown")
"""
ASYNC = """
events = []
async def hermesd_startup(): events.append("startup test")
async def hermesd_shutdown(ctx): events.append("shutdown")
"""
SHARED = {
    "mapping": "def hermesd_shared(ctx): events.append('open'); return {'db': 7}",
    "generator": (
        "def hermesd_shared():\n    events.append('open')\n    yield {'db': 7}\n    events.append('close')"
    ),
    "manager": (
        "import contextlib\n@contextlib.contextmanager\ndef hermesd_shared(ctx):\n"
        "    events.append('open')\n    yield {'db': 7}\n    events.append('close')"
    ),
    "hookimpl": (
        "from hermesd.plugin import hookimpl\n@hookimpl(specname='hermesd_shared')\ndef clients():\n"
        "    events.append('open')\n    yield {'db': 7}\n    events.append('close')"
    ),
}
ASYNC_SHARED = {
    "coroutine": "async def hermesd_shared(): events.append('open'); return {'db': 7}",
    "async generator": (
        "async def hermesd_shared(ctx):\n"
        "    events.append('open')\n    yield {'db': 7}\n    events.append('close')"
    ),
    "async manager": (
        "import contextlib\n@contextlib.asynccontextmanager\nasync def hermesd_shared():\n"
        "    events.append('open')\n    yield {'db': 7}\n    events.append('close')"
    ),
}


@contextlib.contextmanager
def loaded(folder: Path, source: str) -> Iterator[ModuleType]:
    (folder / "main.py").write_text(source, encoding="utf-8")
    try:
        yield load_package(folder, "main.py", PACKAGE)
    finally:
        unload_package(PACKAGE)


def expected(form: str) -> list[str]:
    closing = [] if form in ("mapping", "coroutine") else ["close"]
    return ["startup test", "open", *closing, "shutdown"]


@pytest.mark.parametrize("form", SHARED)
def test_sync_hooks_open_and_close_in_order_without_a_loop(tmp_path: Path, form: str) -> None:
    with loaded(tmp_path, SYNC + SHARED[form]) as module:
        life = lifespan(module)
        assert not life.needs_loop
        assert not life.is_empty
        assert life.open() == {"db": 7}
        assert life.shared == {"db": 7}
        life.close()
        life.close()
        assert life.shared == {}
        assert module.events == expected(form)


@pytest.mark.parametrize("form", [*SHARED, *ASYNC_SHARED])
@pytest.mark.parametrize("around", [SYNC, ASYNC])
async def test_hooks_of_any_kind_open_and_close_on_a_loop(tmp_path: Path, form: str, around: str) -> None:
    with loaded(tmp_path, around + (SHARED | ASYNC_SHARED)[form]) as module:
        life = lifespan(module)
        assert life.needs_loop is (around is ASYNC or form in ASYNC_SHARED)
        assert await life.aopen() == {"db": 7}
        await life.aclose()
        await life.aclose()
        assert module.events == expected(form)


async def test_a_plugin_without_hooks_needs_nothing(tmp_path: Path) -> None:
    with loaded(tmp_path, "") as module:
        life = lifespan(module)
        assert life.is_empty
        assert life.open() == {}
        life.close()
        assert await life.aopen() == {}
        await life.aclose()


FAILING = [
    "import asyncio; raise asyncio.CancelledError",
    "raise ValueError('坏')",
    "raise SystemExit(1)",
    "raise KeyboardInterrupt",
    "raise BaseException",
]


@pytest.mark.parametrize("failure", FAILING)
async def test_a_startup_that_fails_is_told_and_shuts_nothing_down(tmp_path: Path, failure: str) -> None:
    source = f"events = []\ndef hermesd_startup():\n    {failure}\ndef hermesd_shutdown(): events.append(1)"
    with loaded(tmp_path, source) as module:
        life = lifespan(module)
        with pytest.raises(LoadFault) as caught:
            life.open()
        assert (caught.value.file, caught.value.line) == ("main.py", 3)
        with pytest.raises(LoadFault) as caught:
            await life.aopen()
        assert (caught.value.file, caught.value.line) == ("main.py", 3)
        assert caught.value.__context__ is None
        assert module.events == []


@pytest.mark.promise("SDK-8")
@pytest.mark.parametrize("failure", FAILING)
async def test_a_shared_hook_that_fails_unwinds_startup(tmp_path: Path, failure: str) -> None:
    source = SYNC + f"def hermesd_shared():\n    {failure}\n    yield"
    with loaded(tmp_path, source) as module:
        life = lifespan(module)
        with pytest.raises(LoadFault):
            life.open()
        assert module.events == ["startup test", "shutdown"]
        with pytest.raises(LoadFault):
            await life.aopen()
        assert module.events == ["startup test", "shutdown"] * 2
        assert life.shared == {}


@pytest.mark.parametrize("given", ["7", "[1]", "{1: 2}"])
async def test_shared_must_be_named_things_and_is_closed_when_it_is_not(tmp_path: Path, given: str) -> None:
    source = SYNC + f"def hermesd_shared():\n    yield {given}\n    events.append('close')"
    with loaded(tmp_path, source) as module:
        with pytest.raises(LoadFault, match="hermesd_shared gives") as caught:
            lifespan(module).open()
        assert caught.value.line
        assert module.events == ["startup test", "close", "shutdown"]
        with pytest.raises(LoadFault, match="hermesd_shared gives"):
            await lifespan(module).aopen()


def test_an_async_thing_from_a_sync_hook_is_refused_without_a_loop(tmp_path: Path) -> None:
    """hermes-agent#93923: coroutines of hooks that nobody awaited."""
    source = "async def later(): ...\ndef hermesd_startup(): return later()"
    with loaded(tmp_path, source) as module, pytest.raises(LoadFault, match="something to await"):
        lifespan(module).open()


async def test_what_fails_while_closing_keeps_nothing_from_closing(tmp_path: Path) -> None:
    source = SYNC + "def hermesd_shared():\n    yield {}\n    raise ValueError('late')"
    with loaded(tmp_path, source) as module:
        life = lifespan(module)
        life.open()
        with pytest.raises(LoadFault, match="late"):
            life.close()
        assert module.events == ["startup test", "shutdown"]
        await life.aopen()
        with pytest.raises(LoadFault, match="late"):
            await life.aclose()
        assert module.events == ["startup test", "shutdown"] * 2


async def test_cancelling_the_opening_unwinds_it_and_goes_through(tmp_path: Path) -> None:
    source = ASYNC + (
        "import asyncio\nasync def hermesd_shared():\n    await asyncio.Event().wait()\n    yield {}"
    )
    with loaded(tmp_path, source) as module:
        task = asyncio.ensure_future(lifespan(module).aopen())
        while module.events != ["startup test"]:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert module.events == ["startup test", "shutdown"]


def test_settings_and_secrets_reach_the_hooks(tmp_path: Path) -> None:
    source = "def hermesd_shared(ctx): return {'all': (ctx.settings['a'], ctx.secret('B'), ctx.version)}"
    with loaded(tmp_path, source) as module:
        opened: Any = lifespan(module, settings={"a": 1}, secrets={"B": "b"}).open()
        assert opened == {"all": (1, "b", "0.0.0")}


def test_a_failure_while_unwinding_is_told_with_the_first(tmp_path: Path) -> None:
    source = (
        "def hermesd_shutdown(): raise KeyError('second')\ndef hermesd_shared(): raise ValueError('first')"
    )
    with loaded(tmp_path, source) as module:
        with pytest.raises(LoadFault, match="ValueError: first") as caught:
            lifespan(module).open()
        assert "second" in caught.value.trace


def test_a_plugin_may_say_that_it_cannot_work_now(tmp_path: Path) -> None:
    with loaded(tmp_path, "") as module:
        assert lifespan(module).unavailable() is None
    with loaded(tmp_path, "def hermesd_unavailable(ctx):\n    return ctx.settings.get('why')") as module:
        assert lifespan(module).unavailable() is None
        assert lifespan(module, settings={"why": ("no roots", "set roots")}).unavailable() == (
            "no roots",
            "set roots",
        )
        with pytest.raises(LoadFault, match=r"hermesd_unavailable gives 'no'") as caught:
            lifespan(module, settings={"why": "no"}).unavailable()
        assert (caught.value.file, caught.value.line) == ("main.py", 1)


def test_a_failing_check_of_availability_is_told_with_its_line(tmp_path: Path) -> None:
    with loaded(tmp_path, "def hermesd_unavailable():\n    raise SystemExit") as module:
        with pytest.raises(LoadFault) as caught:
            lifespan(module).unavailable()
        assert (caught.value.file, caught.value.line) == ("main.py", 2)
