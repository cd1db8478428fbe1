"""Calls of a plugin in a worker process: real processes, real frames."""

import asyncio
import os
import time

import pytest

from hermesd.model.call import Code, Outcome
from tests.worker_plugin import PLUGIN, data, invocation, outlasts, until


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


@pytest.mark.promise("WRK-4")
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


@pytest.mark.promise("WRK-6")
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


@pytest.mark.promise("WRK-7")
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


async def quickened(runtime, tool, **arguments):
    """Call a tool until its thread runs it while it leads."""
    for _ in range(60):
        data(await runtime.invoke(invocation(tool, **arguments)))


async def test_a_quick_tool_that_takes_long_for_once_keeps_no_other_call_waiting(made):
    runtime = await made()
    await quickened(runtime, "nap", seconds=0)
    began = time.monotonic()
    naps = [asyncio.create_task(runtime.invoke(invocation("nap", seconds=0.5))) for _ in range(3)]
    await asyncio.sleep(0)
    assert data(await runtime.invoke(invocation("echo", text="x"))) == "x"
    assert time.monotonic() - began < 0.4
    assert [data(await each) for each in naps] == ["slept"] * 3
    assert time.monotonic() - began < 0.9


async def test_a_quick_tool_that_takes_long_for_once_is_told_of_its_cancellation(made):
    runtime = await made()
    await quickened(runtime, "listen", seconds=0)
    pid = runtime.vitals().pid
    task = asyncio.create_task(runtime.invoke(invocation("listen", timeout_s=None, seconds=20)))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: runtime.vitals().running == 0)
    assert data(await runtime.invoke(invocation("pid"))) == pid


async def test_a_quick_tool_may_call_another_one_for_once(made):
    runtime = await made()

    async def call(tool, arguments):
        return Outcome(Code.OK, '"asked"')

    await quickened(runtime, "perhaps", ask=False)
    began = time.monotonic()
    asked = [runtime.invoke(invocation("perhaps", call=call, ask=True)) for _ in range(20)]
    assert [data(each) for each in await asyncio.gather(*asked)] == ["asked"] * 20
    assert time.monotonic() - began < 2


async def test_more_calls_than_threads_are_all_answered(made):
    runtime = await made(max_concurrency=2)
    calls = [runtime.invoke(invocation("echo", text=str(n))) for n in range(200)]
    calls += [runtime.invoke(invocation("nap", seconds=0.01)) for _ in range(20)]
    outcomes = await asyncio.gather(*calls)
    assert [data(each) for each in outcomes[:200]] == [str(n) for n in range(200)]
    assert all(data(each) == "slept" for each in outcomes[200:])


@pytest.mark.promise("WRK-5")
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


@pytest.mark.promise("WRK-11")
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


async def test_a_deadline_is_a_timeout_and_a_tool_that_listens_keeps_its_worker(made):
    runtime = await made()
    pid = runtime.vitals().pid
    assert await outlasts(runtime, invocation("wait", timeout_s=0.2))
    assert await outlasts(runtime, invocation("meet", timeout_s=0.2, seconds=20))
    await until(lambda: runtime.vitals().running == 0)
    await asyncio.sleep(0.4)
    assert runtime.vitals().pid == pid


async def test_a_call_past_its_deadline_never_reaches_the_tool(made):
    runtime = await made()
    outcome = await runtime.invoke(invocation("echo", timeout_s=-1.0, text="x"))
    assert (outcome.code, outcome.effect) == (Code.TIMEOUT, "none")


@pytest.mark.promise("WRK-10")
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
        assert await outlasts(runtime, invocation(tool, timeout_s=0.2, call=call, tool="text.slow"))
        await until(lambda: runtime.vitals().running == 0)
    assert ended == ["text.slow", "text.slow"]
