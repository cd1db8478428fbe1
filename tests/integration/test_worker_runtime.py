"""A plugin in a worker process: real processes, real frames."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest

from hermesd.clock import SystemClock
from hermesd.errors import PluginError
from hermesd.model.call import Code, Outcome
from hermesd.runtimes.runtime import Invocation
from hermesd.runtimes.spec import PluginSpec
from hermesd.runtimes.worker import WorkerRuntime
from hermesd.supervise.launcher import Launcher

PLUGIN = '''
import asyncio, ctypes, logging, os, subprocess, sys, threading, time
from hermesd.plugin import tool, ToolContext, ToolError
from .helper import word

stopped = threading.Event()

@tool
def echo(text: str) -> str:
    """Give it back."""
    return text

@tool(side_effects="none")
def pid() -> int:
    return os.getpid()

@tool
def helped() -> str:
    return word()

@tool
def environment() -> dict[str, str]:
    return dict(os.environ)

@tool
async def meet(ctx: ToolContext, seconds: float = 0.0) -> str:
    await asyncio.sleep(seconds)
    return threading.current_thread().name

@tool
def thread() -> str:
    return threading.current_thread().name

@tool
def tell(ctx: ToolContext) -> dict[str, object]:
    print("印出来", end="")
    print(" on stdout")
    print("on stderr", file=sys.stderr)
    logging.getLogger("lib").info("from a library")
    os.write(1, b"raw on one\\n")
    ctx.log.warning("看", order=7)
    ctx.progress(1, 2, "half")
    return {"settings": dict(ctx.settings), "secret": ctx.secret("KEY"), "session": ctx.session_id,
            "request": ctx.request_id, "attempt": ctx.attempt, "remaining": ctx.remaining_s is not None}

@tool
def fail(kind: str) -> object:
    if kind == "tool":
        raise ToolError("没有", effect="none", retryable=True, detail={"a": 1})
    if kind == "value":
        raise ValueError("bad\\nsecond line")
    if kind == "exit":
        sys.exit(3)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "recursion":
        def deeper(): return deeper()
        return deeper()
    if kind == "unencodable":
        return object()
    if kind == "large":
        return "x" * (17 * 1024 * 1024)

@tool
async def afail() -> None:
    raise SystemExit(4)

@tool
def die(how: str) -> None:
    if how == "segv":
        ctypes.string_at(0)
    if how == "exit":
        os._exit(9)
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "garbage":
        for fd in range(10, 20):
            try:
                os.write(fd, b"Traceback (most recent call last): nonsense")
            except OSError:
                pass
        time.sleep(30)
    if how == "close":
        for fd in range(10, 20):
            try:
                os.close(fd)
            except OSError:
                pass
        time.sleep(30)
    if how == "holder":
        subprocess.Popen(["sleep", "81"], start_new_session=True)
        os._exit(0)

@tool
def flood(ctx: ToolContext) -> None:
    for n in range(20_000):
        print(n)
        ctx.progress(n + 1)

@tool
def leak(ctx: ToolContext, how: str) -> str:
    secret = ctx.secret("KEY")
    print("printed", secret)
    os.write(2, f"raw {secret}\\n".encode())
    ctx.log.info(f"logged {secret}", field=secret)
    ctx.progress(1, 1, secret)
    if how == "error":
        raise ToolError(f"no {secret}", detail={"a": [secret]})
    if how == "exception":
        raise ValueError(secret)
    return f"it is {secret}"

@tool
def late(ctx: ToolContext) -> None:
    threading.Timer(0.1, lambda: ctx.log.info("after the end")).start()

@tool
def kept(ctx: ToolContext) -> str:
    return str(ctx.state_dir)

@tool
def wait(ctx: ToolContext) -> str:
    ctx.cancelled.wait(20)
    return "told"

@tool
def stubborn(seconds: float) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)
    return "done"

@tool
def nap(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"

@tool
def ask(ctx: ToolContext, tool: str) -> object:
    return ctx.call(tool, text="问")

@tool
async def aask(ctx: ToolContext, tool: str) -> object:
    return await ctx.call(tool, text="问")
'''


class Lines(list):
    def __call__(self, **line):
        self.append(line)

    def messages(self):
        return [line["message"] for line in self]


@pytest.fixture
async def launcher():
    started = Launcher.start()
    yield started
    await started.stop()


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "插件 demo"
    root.mkdir()
    (root / "demo.py").write_text(PLUGIN)
    (root / "helper.py").write_text("def word():\n    return '帮手'\n")
    return root


def spec_of(root: Path, **changes) -> PluginSpec:
    given = {
        "name": "demo",
        "version": "1.0.0",
        "digest": "sha256:" + "ab" * 32,
        "root": root,
        "entry": "demo.py",
        "tools": None,
        "settings": {"城市": "北京"},
        "secrets": {"KEY": "s3cret"},
        "max_concurrency": 4,
        "prepare_timeout_s": 20.0,
        "close_timeout_s": 3.0,
        "max_stray_threads": 4,
        "idle_stop_s": 300.0,
        "grace_s": 0.3,
    }
    return PluginSpec(**{**given, **changes})


async def no_call(tool, arguments):
    raise AssertionError("nothing should be called")


def invocation(
    name: str, /, timeout_s: float | None = 10.0, emit=None, call=no_call, **arguments
) -> Invocation:
    return Invocation(
        tool=f"demo.{name}",
        arguments=arguments,
        arguments_json=json.dumps(arguments),
        request_id="r-1",
        session_id="s-1",
        attempt=2,
        deadline=None if timeout_s is None else time.monotonic() + timeout_s,
        emit=emit or (lambda kind, value: None),
        call=call,
    )


@pytest.fixture
async def made(launcher, folder):
    """Makes ready runtimes, and closes them."""
    runtimes = []

    async def make(root=folder, **changes):
        lines = Lines()
        runtime = WorkerRuntime(spec_of(root, **changes), launcher, SystemClock(), lines)
        runtime.lines = lines
        runtimes.append(runtime)
        runtime.prepared = await runtime.prepare()
        await runtime.ready()
        return runtime

    yield make
    for runtime in runtimes:
        await runtime.close()
    async with asyncio.timeout(5):
        while launcher.children():
            await asyncio.sleep(0.01)


def data(outcome: Outcome):
    assert outcome.code is Code.OK, outcome
    return json.loads(outcome.data_json)


async def until(condition, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_worker_describes_its_plugin_with_places(made):
    runtime = await made()
    tools = {tool["name"]: tool for tool in runtime.prepared.tools}
    assert tools["demo.echo"]["parameters"]["required"] == ["text"]
    assert tools["demo.pid"]["side_effects"] == "none"
    file, line = runtime.prepared.places["demo.echo"]
    assert (file, PLUGIN.splitlines()[line - 1]) in (
        ("demo.py", "@tool"),
        ("demo.py", "def echo(text: str) -> str:"),
    )


async def test_calls_run_in_another_process_and_text_passes_unchanged(made):
    runtime = await made()
    assert data(await runtime.invoke(invocation("echo", text="中文 \u2028 😀"))) == "中文 \u2028 😀"
    pid = data(await runtime.invoke(invocation("pid")))
    assert pid == runtime.vitals().pid != os.getpid()
    assert data(await runtime.invoke(invocation("helped"))) == "帮手"
    assert runtime.vitals().rss_bytes > 1_000_000


async def test_large_arguments_and_results_pass_and_cut_no_other_call(made):
    runtime = await made()
    text = "大" * 2_500_000
    calls = [runtime.invoke(invocation("echo", text=text))]
    calls += [runtime.invoke(invocation("pid")) for _ in range(5)]
    large, *small = await asyncio.gather(*calls)
    assert data(large) == text
    assert {data(each) for each in small} == {runtime.vitals().pid}
    refused = await runtime.invoke(invocation("echo", text="x" * 17 * 1024 * 1024))
    assert (refused.code, refused.effect) == (Code.INVALID_ARGUMENT, "none")


async def test_a_flood_of_lines_and_progress_is_bounded_and_its_end_is_told(made):
    runtime = await made()
    events = []
    outcome = await runtime.invoke(invocation("flood", emit=lambda kind, value: events.append((kind, value))))
    assert outcome.code is Code.OK
    progress = [value["done"] for kind, value in events if kind == "progress"]
    assert progress[-1] == 20_000
    assert len(progress) < 10_000
    assert len(runtime.lines) < 19_000
    await asyncio.sleep(1.1)
    await runtime.invoke(invocation("tell"))
    assert any("lines dropped" in message for message in runtime.lines.messages())


async def test_a_tool_that_sticks_on_every_call_piles_up_no_workers(made, launcher):
    runtime = await made(grace_s=0.05)
    for _ in range(6):
        assert (await runtime.invoke(invocation("stubborn", timeout_s=0.1, seconds=60))).code is Code.TIMEOUT
        assert len(launcher.children()) <= 4
    await until(lambda: runtime.vitals().running == 0)
    assert runtime.unavailable() is None


async def test_a_stopped_worker_is_replaced(made):
    runtime = await made()
    first = runtime.vitals().pid
    os.kill(first, signal.SIGSTOP)
    assert (await runtime.invoke(invocation("echo", timeout_s=0.2, text="x"))).code is Code.TIMEOUT
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


@pytest.mark.parametrize("how", ["result", "error", "exception"])
async def test_a_secret_never_leaves_the_runtime(made, how):
    runtime = await made()
    events = []
    outcome = await runtime.invoke(
        invocation("leak", emit=lambda kind, value: events.append((kind, value)), how=how)
    )
    await until(lambda: "raw ***" in runtime.lines.messages())
    assert [kind for kind, _ in events] == ["log", "progress"]
    assert "s3cret" not in f"{outcome}{events}{runtime.lines}"
    assert "***" in f"{outcome.data_json}{outcome.message}"


async def test_what_is_logged_after_the_call_goes_to_the_plugins_log(made):
    runtime = await made()
    assert (await runtime.invoke(invocation("late"))).code is Code.OK
    await until(lambda: "after the end" in runtime.lines.messages())


async def test_a_plugin_keeps_its_own_folder(made, tmp_path):
    runtime = await made(state_dir=tmp_path / "保存")
    assert data(await runtime.invoke(invocation("kept"))) == str(tmp_path / "保存")


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


async def test_a_worker_gets_no_more_of_the_environment_than_it_needs(made, monkeypatch):
    """systemd#25961, systemd#24516: the environment of the daemon is not inherited."""
    monkeypatch.setenv("DAEMON_SECRET", "x")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    runtime = await made()
    names = set(data(await runtime.invoke(invocation("environment"))))
    assert names <= {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "HERMESD_CHILD"}


async def test_a_sync_tool_runs_on_the_thread_that_read_its_call_and_async_ones_on_one_loop(made):
    runtime = await made()
    threads = {data(await runtime.invoke(invocation("thread"))) for _ in range(30)}
    assert len(threads) <= 5
    loops = await asyncio.gather(*(runtime.invoke(invocation("meet", seconds=0.01)) for _ in range(20)))
    assert len({data(each) for each in loops}) == 1


async def test_more_calls_than_threads_are_all_answered(made):
    runtime = await made(max_concurrency=2)
    calls = [runtime.invoke(invocation("echo", text=str(n))) for n in range(200)]
    calls += [runtime.invoke(invocation("nap", seconds=0.01)) for _ in range(20)]
    outcomes = await asyncio.gather(*calls)
    assert [data(each) for each in outcomes[:200]] == [str(n) for n in range(200)]
    assert all(data(each) == "slept" for each in outcomes[200:])


async def test_what_a_tool_tells_and_prints_arrives_with_its_call(made):
    runtime = await made()
    events = []
    outcome = await runtime.invoke(invocation("tell", emit=lambda kind, value: events.append((kind, value))))
    assert data(outcome) == {
        "settings": {"城市": "北京"},
        "secret": "***",
        "session": "s-1",
        "request": "r-1",
        "attempt": 2,
        "remaining": True,
    }
    assert events == [
        ("log", {"level": "warning", "message": "看", "fields": {"order": 7}}),
        ("progress", {"done": 1, "total": 2, "message": "half"}),
    ]
    await until(lambda: "raw on one" in runtime.lines.messages())
    tied = {line["message"]: line for line in runtime.lines}
    assert "看" not in tied  # whoever called has it, and keeps it
    for message in ("印出来 on stdout", "on stderr", "from a library"):
        line = tied[message]
        place = [line[key] for key in ("plugin", "tool", "request_id", "session_id", "attempt")]
        assert place == ["demo", "demo.tell", "r-1", "s-1", 2]
    assert tied["raw on one"]["plugin"] == "demo"


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("tool", "TOOL_ERROR", "没有"),
        ("value", "TOOL_ERROR", "ValueError: bad"),
        ("exit", "TOOL_ERROR", "the tool called sys.exit(3)"),
        ("interrupt", "TOOL_ERROR", "KeyboardInterrupt"),
        ("recursion", "TOOL_ERROR", "RecursionError"),
        ("unencodable", "INVALID_RESULT", "the result"),
        ("large", "INVALID_RESULT", "the result is too large"),
    ],
)
async def test_a_tools_failure_is_an_answer_without_traceback(made, kind, code, message):
    runtime = await made()
    pid = runtime.vitals().pid
    outcome = await runtime.invoke(invocation("fail", kind=kind))
    assert outcome.code == code
    assert outcome.message.startswith(message)
    assert "Traceback" not in f"{outcome.message}{outcome.detail}"
    assert "second line" not in outcome.message
    if kind == "tool":
        assert (outcome.effect, outcome.retryable, outcome.detail) == ("none", True, {"a": 1})
    if kind == "value":
        (line,) = [line for line in runtime.lines if line["fields"].get("trace")]
        assert "demo.py" in line["fields"]["trace"]
        assert line["request_id"] == "r-1"
    assert data(await runtime.invoke(invocation("echo", text="on"))) == "on"
    assert runtime.vitals().pid == pid


async def test_an_exit_in_an_async_tool_ends_nothing(made):
    runtime = await made()
    outcome = await runtime.invoke(invocation("afail"))
    assert (outcome.code, outcome.message) == (Code.TOOL_ERROR, "the tool called sys.exit(4)")
    assert data(await runtime.invoke(invocation("meet")))


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


async def test_a_deadline_is_a_timeout_and_a_tool_that_listens_keeps_its_worker(made):
    runtime = await made()
    pid = runtime.vitals().pid
    assert (await runtime.invoke(invocation("wait", timeout_s=0.2))).code is Code.TIMEOUT
    assert (await runtime.invoke(invocation("meet", timeout_s=0.2, seconds=20))).code is Code.TIMEOUT
    await until(lambda: runtime.vitals().running == 0)
    await asyncio.sleep(0.4)
    assert runtime.vitals().pid == pid


async def test_a_call_past_its_deadline_never_reaches_the_tool(made):
    runtime = await made()
    outcome = await runtime.invoke(invocation("echo", timeout_s=-1.0, text="x"))
    assert (outcome.code, outcome.effect) == (Code.TIMEOUT, "none")


async def test_a_cancelled_call_returns_promptly_and_tells_the_tool(made):
    runtime = await made()
    for tool, arguments in (("wait", {}), ("meet", {"seconds": 20})):
        task = asyncio.create_task(runtime.invoke(invocation(tool, timeout_s=None, **arguments)))
        await asyncio.sleep(0.1)
        task.cancel()
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 0.2
        await until(lambda: runtime.vitals().running == 0)
    assert runtime.vitals().restarts == 0


async def test_a_call_that_never_ends_costs_its_worker_and_no_other_call(made):
    runtime = await made()
    first = runtime.vitals().pid
    healthy = asyncio.create_task(runtime.invoke(invocation("nap", seconds=1.5)))
    await asyncio.sleep(0.1)
    assert (await runtime.invoke(invocation("stubborn", timeout_s=0.1, seconds=60))).code is Code.TIMEOUT
    await until(lambda: runtime.vitals().pid != first, 3)
    assert data(await runtime.invoke(invocation("echo", text="new"))) == "new"
    assert data(await healthy) == "slept"
    await until(lambda: not Path(f"/proc/{first}").exists(), 3)
    assert runtime.vitals().stray_threads == 0


async def test_a_tool_calls_another_tool_through_the_daemon(made):
    runtime = await made()
    asked = []

    async def call(tool, arguments):
        asked.append((tool, arguments))
        if tool == "text.bad":
            return Outcome(Code.TIMEOUT, message="too slow")
        return Outcome(Code.OK, '{"大": 12345678901234567890}')

    for tool in ("ask", "aask"):
        assert data(await runtime.invoke(invocation(tool, call=call, tool="text.stats"))) == {
            "大": 12345678901234567890
        }
        outcome = await runtime.invoke(invocation(tool, call=call, tool="text.bad"))
        assert outcome.code is Code.DEPENDENCY_FAILED
        assert "TIMEOUT: too slow" in outcome.message
    assert asked[0] == ("text.stats", {"text": "问"})


async def test_a_cancelled_call_cancels_what_it_called(made):
    runtime = await made()
    ended = []

    async def call(tool, arguments):
        try:
            await asyncio.sleep(20)
        finally:
            ended.append(tool)

    for tool in ("ask", "aask"):
        outcome = await runtime.invoke(invocation(tool, timeout_s=0.2, call=call, tool="text.slow"))
        assert outcome.code is Code.TIMEOUT
        await until(lambda: runtime.vitals().running == 0)
    assert ended == ["text.slow", "text.slow"]


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
