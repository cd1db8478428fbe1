"""A tool on its way out works as before, and each of its answers says so."""

from __future__ import annotations

import pytest

from hermesd.model.call import Code
from tests.core_doubles import Served, raw_tool


@pytest.mark.promise("DEF-2")
async def test_every_answer_of_a_tool_that_leaves_says_what_to_use() -> None:
    served = Served()
    said = {"since": "1.2.0", "use": "orders.find_order", "remove_after": "2030-01-31"}
    served.offer(raw_tool("orders.query_status", deprecated=said), raw_tool("orders.find_order"))
    good = await served.call("orders.query_status")
    bad = await served.call("orders.query_status", "[]")
    assert (good.code, bad.code) == (Code.OK, Code.INVALID_ARGUMENT)
    assert good.detail == {"deprecated": said}
    assert bad.detail["deprecated"] == said
    assert "deprecated" not in (await served.call("orders.find_order")).detail
