"""Sources of small plugins that tests drop into a daemon."""

from __future__ import annotations


def word(value: str) -> str:
    """`NAME.say_word` answers `value`."""
    return f"""
from hermesd.plugin import tool

@tool(side_effects="read", description="Says one word.", when_to_use="in tests")
def say_word() -> str:
    return {value!r}
"""


#: Beside the word: a call that lasts, a stream that ticks, a call that blocks whatever happens.
LASTING = '''
import asyncio
import time
from hermesd.plugin import ToolContext, tool

@tool(side_effects="read", timeout_ms=60000)
def say_word() -> str:
    """Says one word."""
    return WORD

@tool(side_effects="read", timeout_ms=60000)
async def tick_often(ctx: ToolContext, times: int, word: str = "") -> str:
    """Ticks ten times a second."""
    for number in range(times):
        ctx.progress(number, times, "tick")
        await asyncio.sleep(0.1)
    return WORD

@tool(side_effects="read", timeout_ms=60000)
def block_hard(seconds: float) -> str:
    """Blocks its thread."""
    time.sleep(seconds)
    return WORD

@tool(side_effects="write", timeout_ms=60000)
async def write_slowly(seconds: float) -> str:
    """Has an effect, slowly."""
    await asyncio.sleep(seconds)
    return WORD
'''


def lasting(value: str) -> str:
    return f"WORD = {value!r}\n{LASTING}"


#: Hooks that write down each time they run: `OUT` gets lines such as `startup 1.0.0`.
HOOKS = '''
from pathlib import Path
from hermesd.plugin import ToolContext, tool

OUT = Path({out!r})

def note(text):
    with OUT.open("a") as file:
        file.write(text + "\\n")

def hermesd_startup(ctx):
    note(f"startup {{ctx.version}}")

def hermesd_shared(ctx):
    note(f"shared {{ctx.version}}")
    yield {{"client": f"client of {{ctx.version}}"}}
    note(f"unshared {{ctx.version}}")

def hermesd_shutdown(ctx):
    note(f"shutdown {{ctx.version}}")

@tool(side_effects="read")
def use_client(ctx: ToolContext) -> str:
    """Uses what is shared."""
    return ctx.shared("client")
'''


def hooks(out: object) -> str:
    return HOOKS.format(out=str(out))
