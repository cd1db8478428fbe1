"""A plugin that does everything that workers must stand, and what tests of workers share."""

import asyncio
import json
import time
from pathlib import Path

from hermesd.model.call import Code, Outcome
from hermesd.runtimes.runtime import Invocation
from hermesd.runtimes.spec import PluginSpec

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
def listen(ctx: ToolContext, seconds: float) -> bool:
    return ctx.cancelled.wait(seconds)

@tool
def perhaps(ctx: ToolContext, ask: bool) -> object:
    return ctx.call("text.stats") if ask else "quick"

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


async def outlasts(runtime, call: Invocation) -> bool:
    """Whether the call has no answer at its deadline, when its caller gives it up."""
    try:
        async with asyncio.timeout_at(call.deadline):
            await runtime.invoke(call)
    except TimeoutError:
        return True
    return False


def data(outcome: Outcome):
    assert outcome.code is Code.OK, outcome
    return json.loads(outcome.data_json)


async def until(condition, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
