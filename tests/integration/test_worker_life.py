"""How workers start, stop, crash and are replaced: real processes."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from hermesd.clock import SystemClock
from hermesd.errors import PluginError
from hermesd.model.call import Code
from hermesd.runtimes.worker import WorkerRuntime
from hermesd.supervise.launcher import Launcher
from tests.worker_plugin import Lines, data, invocation, outlasts, spec_of, until


async def test_a_tool_that_sticks_on_every_call_piles_up_no_workers(made, launcher):
    runtime = await made(grace_s=0.05)
    for _ in range(6):
        assert await outlasts(runtime, invocation("stubborn", timeout_s=0.1, seconds=60))
        assert len(launcher.children()) <= 4
    await until(lambda: runtime.vitals().running == 0)
    assert runtime.unavailable() is None


async def test_a_stopped_worker_is_replaced(made):
    runtime = await made()
    first = runtime.vitals().pid
    os.kill(first, signal.SIGSTOP)
    assert await outlasts(runtime, invocation("echo", timeout_s=0.2, text="x"))
    await until(lambda: not Path(f"/proc/{first}").exists())
    assert data(await runtime.invoke(invocation("echo", text="new"))) == "new"


async def test_a_crash_is_noticed_though_the_launcher_hangs(made, launcher):
    runtime = await made()
    os.kill(launcher.pid, signal.SIGSTOP)
    try:
        outcome = await runtime.invoke(invocation("die", timeout_s=9.0, how="exit"))
        assert outcome.code is Code.UNAVAILABLE
        assert outcome.detail["reason"] == "crash (fate unknown)"
    finally:
        os.kill(launcher.pid, signal.SIGCONT)


async def test_a_plugin_that_says_that_it_cannot_work_is_unavailable(made, tmp_path):
    root = tmp_path / "demo"
    root.mkdir()
    (root / "demo.py").write_text("def hermesd_unavailable(ctx):\n    return 'no roots', 'set roots'\n")
    runtime = await made(root)
    assert runtime.unavailable() == ("no roots", "set roots")


async def test_a_launcher_that_cannot_start_a_worker_rejects_the_plugin(folder):
    closed = Launcher.start()
    closed.close()
    runtime = WorkerRuntime(spec_of(folder), closed, SystemClock(), Lines())
    with pytest.raises(PluginError, match="launcher is closed"):
        await runtime.prepare()
    await runtime.close()


@pytest.mark.promise("WRK-1")
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("segv", "crash (SIGSEGV)"),
        ("exit", "crash (exit status 9)"),
        ("kill", "crash (SIGKILL)"),
        ("holder", "crash (exit status 0)"),
    ],
)
async def test_a_crash_answers_every_call_at_once_and_the_next_call_has_a_new_worker(made, how, reason):
    runtime = await made()
    first = runtime.vitals().pid
    others = [asyncio.create_task(runtime.invoke(invocation("nap", seconds=20, timeout_s=30)))]
    others.append(asyncio.create_task(runtime.invoke(invocation("meet", seconds=20, timeout_s=30))))
    await asyncio.sleep(0.1)
    began = time.monotonic()
    for outcome in await asyncio.gather(runtime.invoke(invocation("die", how=how)), *others):
        assert outcome.code is Code.UNAVAILABLE
        assert outcome.detail["reason"] == reason
        assert outcome.effect is None
    assert time.monotonic() - began < 3
    assert data(await runtime.invoke(invocation("echo", text="again"))) == "again"
    assert runtime.vitals().pid != first
    assert runtime.vitals().restarts == 1


@pytest.mark.promise("WRK-3")
async def test_a_garbage_frame_is_an_invalid_result_with_its_reason(made):
    runtime = await made()
    outcome = await runtime.invoke(invocation("die", how="garbage"))
    assert outcome.code is Code.INVALID_RESULT
    assert "was announced" in outcome.detail["reason"]
    assert data(await runtime.invoke(invocation("echo", text="again"))) == "again"


async def test_a_worker_that_closes_its_channel_is_ended(made):
    runtime = await made()
    outcome = await runtime.invoke(invocation("die", how="close"))
    assert outcome.code is Code.UNAVAILABLE
    assert data(await runtime.invoke(invocation("echo", text="again"))) == "again"


@pytest.mark.promise("WRK-2")
async def test_a_call_that_never_ends_costs_its_worker_and_no_other_call(made):
    runtime = await made()
    first = runtime.vitals().pid
    healthy = asyncio.create_task(runtime.invoke(invocation("nap", seconds=1.5)))
    await asyncio.sleep(0.1)
    assert await outlasts(runtime, invocation("stubborn", timeout_s=0.1, seconds=60))
    await until(lambda: runtime.vitals().pid != first, 3)
    assert data(await runtime.invoke(invocation("echo", text="new"))) == "new"
    assert data(await healthy) == "slept"
    await until(lambda: not Path(f"/proc/{first}").exists(), 3)
    await until(lambda: runtime.vitals().stray_threads == 0, 3)


async def test_an_idle_worker_stops_and_the_next_call_starts_one(made):
    runtime = await made(idle_stop_s=0.2)
    assert data(await runtime.invoke(invocation("nap", seconds=0.5))) == "slept"
    first = runtime.vitals().pid
    assert first
    await until(lambda: runtime.vitals().pid == 0 and not Path(f"/proc/{first}").exists())
    calls = (runtime.invoke(invocation("pid")) for _ in range(5))
    pids = {data(each) for each in await asyncio.gather(*calls)}
    assert len(pids) == 1
    assert pids != {first}


async def test_hooks_run_in_the_worker_and_shutdown_runs_on_close(launcher, tmp_path):
    root = tmp_path / "demo"
    root.mkdir()
    (root / "demo.py").write_text(
        "from hermesd.plugin import tool\n"
        f"LOG = {str(tmp_path / 'log')!r}\n"
        "def note(text):\n    with open(LOG, 'a') as file: file.write(text + ' ')\n"
        "async def hermesd_startup(ctx): note('startup')\n"
        "async def hermesd_shared(ctx):\n    yield {'pool': 42}\n    note('unshared')\n"
        "def hermesd_shutdown(): note('shutdown')\n"
        "@tool\nasync def pool(ctx: __import__('hermesd.plugin').plugin.ToolContext) -> int:\n"
        "    return ctx.shared('pool')\n"
    )
    runtime = WorkerRuntime(spec_of(root), launcher, SystemClock(), Lines())
    await runtime.prepare()
    assert not (tmp_path / "log").exists()
    await runtime.ready()
    assert data(await runtime.invoke(invocation("pool"))) == 42
    await runtime.close()
    await runtime.close()
    assert (tmp_path / "log").read_text() == "startup unshared shutdown "
    assert runtime.unavailable() == ("the plugin is stopped", "")
    assert (await runtime.invoke(invocation("pool"))).code is Code.UNAVAILABLE


@pytest.mark.promise("WRK-9")
@pytest.mark.parametrize(
    ("code", "changes", "reason", "line"),
    [
        ("x = 1\ndef broken(:\n", {}, "", 2),
        ("\nimport sys\nsys.exit(5)\n", {}, "", 3),
        ("raise ValueError('啊')\n", {}, "啊", 1),
        ("import os\nos._exit(4)\n", {}, "exit status 4", 0),
        ("import time\ntime.sleep(60)\n", {"prepare_timeout_s": 0.5}, "within 0.5 s", 0),
        ("import os\nos.write(10, b'x' * 64)\nimport time\ntime.sleep(60)\n", {}, "invalid frame", 0),
        ("x = 1\n", {"tools": ({"name": "demo.absent"},)}, "demo.absent", 0),
        ("x = 1\n", {"entry": "absent.py"}, "", 0),
    ],
)
async def test_what_cannot_be_prepared_says_where_and_leaves_nothing(
    launcher, tmp_path, code, changes, reason, line
):
    root = tmp_path / "demo"
    root.mkdir()
    (root / "demo.py").write_text(code)
    runtime = WorkerRuntime(spec_of(root, **changes), launcher, SystemClock(), Lines())
    with pytest.raises(PluginError) as caught:
        await runtime.prepare()
    (rejection,) = caught.value.rejections
    assert reason in rejection.reason
    assert rejection.line == line
    assert launcher.children() == ()
    await runtime.close()


async def test_a_startup_hook_that_fails_leaves_nothing(launcher, tmp_path):
    root = tmp_path / "demo"
    root.mkdir()
    (root / "demo.py").write_text("def hermesd_startup():\n    raise OSError('no database')\n")
    runtime = WorkerRuntime(spec_of(root), launcher, SystemClock(), Lines())
    await runtime.prepare()
    with pytest.raises(PluginError, match="no database"):
        await runtime.ready()
    assert launcher.children() == ()
    await runtime.close()


async def test_a_worker_that_does_not_start_again_is_tried_with_growing_waits(made, tmp_path):
    flag = tmp_path / "broken"
    root = tmp_path / "demo"
    root.mkdir()
    (root / "demo.py").write_text(
        "import os\nfrom hermesd.plugin import tool\n"
        f"if os.path.exists({str(flag)!r}): os._exit(6)\n"
        "@tool\ndef die() -> None: os._exit(7)\n"
        "@tool\ndef echo(text: str) -> str: return text\n"
    )
    runtime = await made(root)
    flag.touch()
    assert (await runtime.invoke(invocation("die"))).detail["reason"] == "crash (exit status 7)"
    outcome = await runtime.invoke(invocation("echo", text="x"))
    assert outcome.code is Code.UNAVAILABLE
    assert "exit status 6" in outcome.message
    assert (outcome.effect, outcome.retryable) == ("none", True)
    assert runtime.unavailable() is not None
    refused = await runtime.invoke(invocation("echo", text="x"))
    assert refused.detail["retry_after_ms"] > 0
    flag.unlink()
    await until(lambda: runtime.unavailable() is None)
    assert data(await runtime.invoke(invocation("echo", text="back"))) == "back"


async def test_what_the_manifest_says_wins_and_what_it_does_not_name_is_not_offered(made):
    runtime = await made(tools=({"name": "demo.echo", "description": "from the manifest", "title": "E"},))
    (tool,) = runtime.prepared.tools
    assert (tool["description"], tool["title"]) == ("from the manifest", "E")
    assert tool["parameters"]["required"] == ["text"]


async def test_closing_during_a_call_answers_it(made):
    runtime = await made(close_timeout_s=0.5)
    task = asyncio.create_task(runtime.invoke(invocation("stubborn", seconds=30, timeout_s=30)))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await runtime.close()
    assert time.monotonic() - began < 4
    outcome = await task
    assert (outcome.code, outcome.detail["reason"]) == (Code.UNAVAILABLE, "stopped")


async def test_the_launchers_death_is_a_crash_and_the_next_call_works(made, launcher):
    runtime = await made()
    task = asyncio.create_task(runtime.invoke(invocation("nap", seconds=20, timeout_s=30)))
    await asyncio.sleep(0.1)
    os.kill(launcher.pid, signal.SIGKILL)
    assert (await task).detail["reason"] == "crash (SIGKILL)"
    assert data(await runtime.invoke(invocation("echo", text="new"))) == "new"


@pytest.mark.promise("WRK-8")
async def test_ten_upgrades_leave_exactly_one_process(made, launcher):
    """langgenius/dify-plugin-daemon#698, #353: old versions do not keep running."""
    runtime = None
    for _ in range(10):
        new = await made()
        if runtime is not None:
            await runtime.close()
        runtime = new
    await until(lambda: len(launcher.children()) == 1)
    assert launcher.children()[0].pid == runtime.vitals().pid


async def test_a_plugin_that_is_never_ready_keeps_no_other_from_starting(made, launcher, tmp_path):
    """langgenius/dify-plugin-daemon#336: a start that hangs blocks nobody else."""
    root = tmp_path / "demo"
    root.mkdir()
    (root / "demo.py").write_text("import time\ntime.sleep(60)\n")
    stuck = WorkerRuntime(spec_of(root), launcher, SystemClock(), Lines())
    task = asyncio.create_task(stuck.prepare())
    await asyncio.sleep(0.1)
    assert data(await (await made()).invoke(invocation("echo", text="on"))) == "on"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await stuck.close()
