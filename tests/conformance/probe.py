"""The plugin that every kind of runtime is asked to serve: one tool for each thing that a promise is about.

Written once, and turned into sync or async functions. Kinds without code of their own offer what they can.
"""

from __future__ import annotations

import re

SOURCE = '''
import asyncio, dataclasses, datetime, enum, math, os, sys, time, uuid
import hermesd.plugin as sdk
from typing import Annotated, Any, Literal
from hermesd.plugin import tool, ToolContext, ToolError

Outcome = Literal["ok", "error", "error_none", "error_done", "nothing", "sleep", "exception"]


class Colour(enum.Enum):
    RED = "红"


@dataclasses.dataclass
class Order:
    id: int
    placed: datetime.date
    colour: Colour


def note(path, line):
    with open(path, "a") as file:
        file.write(line + "\\n")


def lines(path):
    with open(path) as file:
        return len(file.readlines())


def act(outcome):
    if outcome == "error":
        raise ToolError("no such order")
    if outcome == "error_none":
        raise ToolError("refused", effect="none")
    if outcome == "error_done":
        raise ToolError("half of it", effect="done")
    if outcome == "exception":
        raise ValueError("a bug")
    return object() if outcome == "nothing" else outcome


@tool(side_effects="none", timeout_ms=20000)
DEF act_none(outcome: Outcome, ctx: ToolContext) -> object:
    """Has no effects."""
    if outcome == "sleep":
        WAIT(ctx, 15)
    return act(outcome)


@tool(side_effects="read", timeout_ms=20000)
DEF act_read(outcome: Outcome, ctx: ToolContext) -> object:
    """Reads."""
    if outcome == "sleep":
        WAIT(ctx, 15)
    return act(outcome)


@tool(side_effects="write", timeout_ms=20000)
DEF act_write(outcome: Outcome, ctx: ToolContext) -> object:
    """Writes."""
    if outcome == "sleep":
        WAIT(ctx, 15)
    return act(outcome)


@tool(side_effects="destructive", timeout_ms=20000)
DEF act_destructive(outcome: Outcome, ctx: ToolContext) -> object:
    """Destroys."""
    if outcome == "sleep":
        WAIT(ctx, 15)
    return act(outcome)


@tool(side_effects="none", parameter_guide={"text": "ask the user"})
DEF echo_arguments(
    text: str,
    count: Annotated[int, "how many"] = 1,
    day: datetime.date | None = None,
    flags: list[bool] | None = None,
) -> object:
    """Gives back what came, as Python has it."""
    return {"text": text, "count": count, "day": repr(day), "flags": flags}


@tool(side_effects="none", timeout_ms=20000)
DEF return_value(kind: str) -> Any:
    """Returns something that is hard to return."""
    if kind == "cycle":
        ring = []
        ring.append(ring)
        return ring
    if kind == "deep":
        nested = 1
        for _ in range(5000):
            nested = [nested]
        return nested
    return {
        "nan": math.nan,
        "infinity": [1.0, {"x": math.inf}],
        "surrogate": {"a": "x\\ud800"},
        "bytes": b"\\x00\\xff",
        "integer": 2**53 + 1,
        "long": 10**300,
        "order": {"z": 1, "a": 2},
        "dataclass": Order(7, datetime.date(2030, 1, 31), Colour.RED),
        "set": {3, 1, 2},
        "uuid": uuid.UUID(int=5),
        "object": object(),
        "none": None,
        "text": "汉字 \\u2028 😀 \\x00",
        "generator": (n for n in range(3)),
    }[kind]


@tool(side_effects="none", timeout_ms=30000)
DEF return_size(size: int) -> str:
    """Returns a text of so many characters."""
    return "x" * size


@tool(side_effects="read")
DEF raise_error(kind: str) -> None:
    """Fails in every way in which Python code can."""
    if kind == "exit":
        sys.exit(3)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "recursion":
        def deeper(): return deeper()
        return deeper()
    if kind == "told":
        raise ToolError("没有", code="DEPENDENCY_FAILED", retryable=True, detail={"order": 7})
    if kind == "large":
        raise ToolError("x" * 100_000, detail={"big": "y" * 1_000_000, "small": 1})
    if kind == "untellable":
        class Broken(Exception):
            def __str__(self): raise RuntimeError("no text")
        raise Broken
    if kind == "group":
        raise ExceptionGroup("several", [ValueError("one"), OSError("two")])
    if kind == "assert":
        assert kind == "other", "in the middle"
    raise ValueError("bad order\\nsecond line")


@tool(side_effects="write", timeout_ms=20000)
DEF wait_long(path: str, ctx: ToolContext) -> str:
    """Waits until it is told to end, and writes down that it was."""
    ctx.progress(0, 1, "begun")
    try:
        WAIT(ctx, 15)
    finally:
        with open(path, "w") as file:
            file.write(f"cancelled={bool(ctx.cancelled)}")
    return "ended by itself"


@tool(side_effects="none", timeout_ms=400)
DEF sleep_over() -> str:
    """Takes longer than it says that it may."""
    PAUSE(1.2)
    return "too late"


@tool(side_effects="none", timeout_ms=20000)
DEF tell_context(ctx: ToolContext) -> object:
    """What the context says of this call."""
    return {
        "request_id": ctx.request_id, "session_id": ctx.session_id, "attempt": ctx.attempt,
        "remaining_s": ctx.remaining_s, "cancelled": bool(ctx.cancelled), "tool": ctx.tool,
        "greeting": ctx.settings.get("greeting"),
    }


@tool(side_effects="none")
DEF tell_secret(how: str, ctx: ToolContext) -> str:
    """Says what must not be said."""
    secret = ctx.secret("PROBE_TOKEN")
    ctx.log.info(f"logged {secret}")
    if how == "error":
        raise ToolError(f"failed with {secret}", detail={"token": secret})
    if how == "exception":
        raise ValueError(secret)
    return f"it is {secret}"


@tool(side_effects="none", timeout_ms=20000)
DEF tell_progress(times: int, ctx: ToolContext) -> str:
    """Tells how far it has come."""
    for number in range(times):
        ctx.progress(number + 1, times, f"step {number + 1}")
        PAUSE(0.01)
    ctx.log.warning("看", order=7)
    print("printed")
    return "done"


@tool(side_effects="none", timeout_ms=20000)
DEF call_other(name: str, ctx: ToolContext, arguments: dict[str, Any] | None = None) -> Any:
    """Calls another tool."""
    return CALL(ctx, name, **(arguments or {}))


PROMISED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@tool(side_effects="none", returns=PROMISED)
DEF break_word(keep: bool) -> Any:
    """Returns what it said, or not."""
    return {"n": 1} if keep else {"n": "one"}


@tool(side_effects="write", max_concurrency=1, timeout_ms=20000)
DEF take_turns(seconds: float) -> str:
    """One at a time."""
    PAUSE(seconds)
    return "done"


@tool(side_effects="read", requires=[{"command": "no-such-command-anywhere", "remedy": "install it"}])
DEF need_command() -> str:
    """Needs what is not there."""
    return "never"


@tool(side_effects="write", deprecated={"since": "1.0.0", "use": "PLUGIN.act_write"})
DEF do_formerly() -> str:
    """Is on its way out."""
    return "still here"


@tool(side_effects="write", timeout_ms=20000)
DEF append_line(path: str, line: str = "x", seconds: float = 0, then: Outcome = "ok") -> Any:
    """Appends a line, and says how many there are."""
    note(path, line)
    PAUSE(seconds)
    return lines(path) if then == "ok" else act(then)


@tool(side_effects="write")
DEF append_and_end(path: str) -> None:
    """Appends a line, and ends the process that it runs in."""
    note(path, "x")
    os._exit(9)


@tool(side_effects="read", retryable=True, retry={"max_attempts": 3, "backoff_ms": 1})
DEF reach_service(path: str, failures: int) -> int:
    """Reaches what cannot be reached at first."""
    note(path, "attempt")
    if lines(path) <= failures:
        raise ConnectionResetError("reset by peer")
    return lines(path)


@tool(side_effects="write", retryable=True, retry={"max_attempts": 3, "backoff_ms": 1})
DEF send_once(path: str) -> None:
    """Sends what must not be sent twice."""
    note(path, "attempt")
    raise ConnectionResetError("reset by peer")


@tool(side_effects="none", circuit_breaker={"consecutive_failures": 3, "open_ms": 400, "half_open_calls": 1})
DEF ask_far(path: str) -> str:
    """Asks a service that is there while `path` is."""
    if not os.path.exists(path):
        raise ConnectionRefusedError("refused")
    return "reached"


@tool(
    side_effects="none",
    circuit_breaker={"consecutive_failures": 2, "open_ms": 60000},
    fallback={"value": {"from": "fallback"}},
)
DEF ask_with_fallback() -> dict[str, str]:
    """Asks a service that is never there."""
    raise ConnectionRefusedError("refused")


@tool(side_effects="none", rate_limit={"calls": 2, "per_s": 60})
DEF take_rate() -> str:
    """Twice a minute."""
    return "taken"


@tool(side_effects="none")
DEF show_content() -> Any:
    """Shows texts, images and links beside its data."""
    parts = [sdk.Text("three"), sdk.Image(b"\\x89PNG\\r\\n\\x1a\\n"), sdk.ResourceLink("file:///a/b.csv")]
    return sdk.Content({"rows": 3}, parts)


@tool(side_effects="write")
DEF end_process() -> None:
    """Ends the process that it runs in."""
    os._exit(9)
'''

MANIFEST = """
permissions:
  secrets: [PROBE_TOKEN]
  calls: ["*.echo_arguments", "*.act_*", "*.call_other", "*.sleep_over"]
settings: {type: object, properties: {greeting: {type: string}}}
"""


def source(plugin: str, *, asynchronous: bool) -> str:
    """The probe's code as sync or as async functions."""
    text = SOURCE.replace("PLUGIN.", f"{plugin}.")
    forms = {"DEF": "def", "PAUSE": "time.sleep", "CALL": "call_sync", "WAIT": "wait_sync"}
    if asynchronous:
        forms = {
            "DEF": "async def",
            "PAUSE": "await asyncio.sleep",
            "CALL": "await call_async",
            "WAIT": "await wait_async",
        }
    text = re.sub(r"\b(DEF|PAUSE|CALL|WAIT)\b", lambda found: forms[found[0]], text)
    return text + HELPERS


HELPERS = """

def call_sync(ctx, name, /, **arguments):
    return ctx.call(name, **arguments)


async def call_async(ctx, name, /, **arguments):
    return await ctx.call(name, **arguments)


def wait_sync(ctx, seconds):
    ctx.cancelled.wait(seconds)


async def wait_async(ctx, seconds):
    await asyncio.sleep(seconds)
"""
