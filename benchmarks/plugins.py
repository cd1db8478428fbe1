"""The plugins that are measured."""

from __future__ import annotations

from tests.harness import Home

#: Does nothing, in both forms; validated arguments in, encoded result out.
NOOP = '''
from hermesd.plugin import tool

@tool(side_effects="none", idempotent=True)
def say_sync(text: str) -> str:
    """Gives the text back."""
    return text

@tool(side_effects="none", idempotent=True)
async def say_async(text: str) -> str:
    """Gives the text back."""
    return text
'''

BURNER = '''
import time
from hermesd.plugin import tool

@tool(side_effects="none", timeout_ms=120000)
def burn_core(text: str) -> int:
    """Computes for as many seconds as `text` says."""
    until, turns = time.monotonic() + float(text), 0
    while time.monotonic() < until:
        turns += 1
    return turns
'''


def numbered(number: int) -> str:
    """Code whose one tool answers `number`."""
    return f'''
from hermesd.plugin import tool

@tool(side_effects="none", idempotent=True)
def say_number(text: str = "") -> int:
    """Gives the number of this version."""
    return {number}
'''


def many_tools(count: int) -> str:
    """Code of one plugin with `count` tools."""
    tools = "".join(
        f"""
@tool(side_effects="none", idempotent=True)
def say_number_{index}(text: str, limit: int = 10) -> int:
    '''Gives the number of this tool.

    Args:
        text: What is ignored.
        limit: What is ignored too.
    '''
    return {index}
"""
        for index in range(count)
    )
    return f"from hermesd.plugin import tool\n{tools}"


def flooded_tools(count: int, places: int) -> str:
    """Code of one plugin with `count` tools that wait as many seconds as `text` says."""
    tools = "".join(
        f"""
@tool(side_effects="none", idempotent=True, max_concurrency={places})
async def wait_{index}(text: str) -> str:
    '''Waits.'''
    await asyncio.sleep(float(text))
    return text
"""
        for index in range(count)
    )
    return f"import asyncio\nfrom hermesd.plugin import tool\n{tools}"


def trust(home: Home, **isolation: str) -> None:
    """Trust these plugins whatever their folders hold, each in its place."""
    trusted = {name: {"follow": True, "isolation": where} for name, where in isolation.items()}
    home.configure({"telemetry": {}}, trusted=trusted)


def write_many(home: Home, count: int) -> list[str]:
    """`count` plugin folders with one tool each, all trusted; their names."""
    names = [f"plugin{index}" for index in range(count)]
    for index, name in enumerate(names):
        home.plugin(name, numbered(index))
    home.follow(*names)
    return names
