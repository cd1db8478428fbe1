"""Workers that die again and again, under load, beside gRPC."""

import asyncio
import json
import os
import time
from pathlib import Path

import grpc
import pytest

from hermesd.clock import SystemClock
from hermesd.model.call import Code
from hermesd.runtimes.runtime import Invocation
from hermesd.runtimes.spec import PluginSpec
from hermesd.runtimes.worker import WorkerRuntime
from hermesd.supervise.launcher import Launcher

pytestmark = pytest.mark.fault

PLUGIN = """
import ctypes, os, subprocess
from hermesd.plugin import tool

@tool
def die(how: int) -> None:
    subprocess.Popen(['setsid', 'sleep', '91'])
    if how == 0:
        os.abort()
    if how == 1:
        ctypes.string_at(0)
    os._exit(1)

@tool
def echo(n: int) -> int:
    return n
"""


def runtime_of(root: Path, launcher: Launcher, **changes) -> WorkerRuntime:
    given = {
        "name": "demo",
        "version": "1.0.0",
        "digest": "sha256:" + "cd" * 32,
        "root": root,
        "entry": "demo.py",
        "tools": None,
        "settings": {},
        "secrets": {},
        "max_concurrency": 8,
        "prepare_timeout_s": 30.0,
        "close_timeout_s": 3.0,
        "max_stray_threads": 4,
        "idle_stop_s": 300.0,
        "grace_s": 0.5,
    }
    return WorkerRuntime(PluginSpec(**{**given, **changes}), launcher, SystemClock(), lambda **_line: None)


def invocation(name: str, **arguments) -> Invocation:
    async def call(tool, values):
        raise AssertionError(tool)

    return Invocation(
        tool=f"demo.{name}",
        arguments=arguments,
        arguments_json=json.dumps(arguments),
        request_id="r",
        session_id="",
        attempt=1,
        deadline=time.monotonic() + 20,
        emit=lambda kind, value: None,
        call=call,
    )


@pytest.fixture
async def launcher():
    started = Launcher.start(request_timeout_s=60)
    yield started
    await started.stop()


@pytest.fixture
def root(tmp_path):
    (tmp_path / "demo.py").write_text(PLUGIN)
    return tmp_path


@pytest.mark.promise("CHD-3")
async def test_a_hundred_crash_restarts_leave_no_zombie_and_no_descriptor(launcher, root):
    """langgenius/dify-plugin-daemon#553, #543; what the worker had started is gone as well."""
    runtime = runtime_of(root, launcher)
    await runtime.prepare()
    await runtime.ready()
    own = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")

    def counts() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{launcher.pid}/fd"))

    async def settle() -> None:
        async with asyncio.timeout(10):
            while len(launcher.children()) > 1 or len(own.read_text().split()) > 1:
                await asyncio.sleep(0.02)

    before = counts()
    for n in range(100):
        died, *others = await asyncio.gather(
            runtime.invoke(invocation("die", how=n % 3)),
            *(runtime.invoke(invocation("echo", n=n)) for _ in range(3)),
        )
        assert died.code is Code.UNAVAILABLE
        assert all(each.code in (Code.OK, Code.UNAVAILABLE) for each in others)
        outcome = await runtime.invoke(invocation("echo", n=n))
        assert (outcome.code, outcome.data_json) == (Code.OK, str(n))
    await settle()
    assert counts() == before
    assert runtime.vitals().restarts == 100
    await runtime.close()
    async with asyncio.timeout(10):
        while launcher.children() or own.read_text():
            await asyncio.sleep(0.02)


@pytest.mark.promise("CHD-4")
async def test_processes_start_beside_a_busy_grpc_server(launcher):
    """grpc/grpc#22624, #17986: no fork of the process that runs gRPC, so that none can hang in it."""
    server = grpc.aio.server()

    async def echo(request, context):
        return request

    handler = grpc.unary_unary_rpc_method_handler(echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    answered = 0
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        method = channel.unary_unary("/t.T/Echo")

        async def load() -> None:
            nonlocal answered
            while True:
                assert await method(b"x", timeout=10) == b"x"
                answered += 1

        callers = [asyncio.create_task(load()) for _ in range(4)]
        for _ in range(50):
            children = await asyncio.gather(
                *(
                    launcher.spawn(["true"], env={"PATH": os.environ["PATH"]}, cwd="/", name="n")
                    for _ in range(10)
                )
            )
            for child in children:
                assert str(await child.wait()) == "exit status 0"
        assert not any(each.done() for each in callers)
        for each in callers:
            each.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    await server.stop(0)
    assert answered > 100


@pytest.mark.promise("WRK-12")
async def test_a_worker_that_burns_a_core_does_not_hold_the_daemons_loop(launcher, root):
    """home-assistant/core#113169, #116188: what blocks in a plugin blocks that plugin alone."""
    (root / "demo.py").write_text(
        "import time\nfrom hermesd.plugin import tool\n"
        "@tool\ndef burn(seconds: float) -> None:\n"
        "    until = time.monotonic() + seconds\n    while time.monotonic() < until: pass\n"
    )
    runtime = runtime_of(root, launcher)
    await runtime.prepare()
    await runtime.ready()
    task = asyncio.create_task(runtime.invoke(invocation("burn", seconds=1.0)))
    beats = 0
    while not task.done():
        await asyncio.sleep(0.005)
        beats += 1
    assert (await task).code is Code.OK
    assert beats > 50
    await runtime.close()
