"""The guide for plugin authors says what is so: its code runs, its tables name everything."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hermesd.plugin import ToolContext
from hermesd.plugin.bind import bind_tools, offered_tools
from hermesd.plugin.fault import PLUGIN_CODES
from hermesd.plugin.testing import Recorder, call, lifespan
from hermesd.plugin.tool import OPTIONS

GUIDE = (Path(__file__).parents[2] / "docs" / "plugin-author-guide.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def module_of(block: str) -> Any:
    module = ModuleType("guide")
    exec(compile(block, "guide.py", "exec"), vars(module))
    return module


def block_with(text: str) -> Any:
    (found,) = [block for block in BLOCKS if text in block]
    return module_of(found)


@pytest.mark.promise("SDK-12")
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_block_runs_binds_and_passes_its_own_tests(block: str) -> None:
    module = module_of(block)
    for each in bind_tools(module, "guide", offered_tools(module)):
        assert each.raw["description"]
    for name, value in vars(module).items():
        if name.startswith("test_"):
            value()


def test_the_first_tool_answers_as_the_guide_says() -> None:
    module = block_with("def query_status")
    assert call(module.query_status, order_id="A-1") == {"state": "sent", "lines": 2}
    with pytest.raises(Exception, match="ask the user"):
        call(module.query_status, order_id="B-2")
    example = bind_tools(module, "orders")[0].raw["examples"][0]["arguments"]
    assert call(module.query_status, **example)["state"] == "sent"


def test_the_shared_client_reaches_the_tool() -> None:
    module = block_with("def hermesd_shared")
    life = lifespan(module, settings={"base": "http://x"})
    recorder = Recorder(shared=life.open())
    assert call(module.get_order, recorder, order_id="7") == "http://x/7"
    life.close()


def test_the_error_is_the_one_that_is_described() -> None:
    with pytest.raises(Exception, match="offer a return") as caught:
        block_with("def refuse").refuse()
    assert caught.value.detail == {"sent_on": "2026-11-30", "code": "ORDER_SENT"}  # type: ignore[attr-defined]


def test_everything_on_the_context_is_in_the_guide() -> None:
    public = [name for name in dir(ToolContext) if not name.startswith("_")]
    missing = [name for name in public if f"ctx.{name}" not in GUIDE and name != "asynchronous"]
    assert missing == []


def test_every_code_that_a_plugin_may_answer_is_in_the_guide() -> None:
    assert [code for code in PLUGIN_CODES if f"`{code}`" not in GUIDE and code != "TOOL_ERROR"] == []


def test_every_option_of_a_tool_is_in_the_table_of_the_guide() -> None:
    table = GUIDE.partition("All that `@tool` takes:")[2].partition("\n## ")[0]
    first_cells = " ".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", first_cells)) == OPTIONS


def test_every_hook_of_a_plugins_life_is_in_the_guide() -> None:
    hooks = ("tools", "startup", "shared", "shutdown", "unavailable")
    assert [name for name in hooks if f"hermesd_{name}" not in GUIDE] == []
