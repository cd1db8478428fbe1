"""A replay is a new call of the same; what may change something waits for a confirmation that is for it."""

from __future__ import annotations

from typing import Any

import pytest

from hermesd.errors import PreconditionError
from hermesd.model.call import Code, Result
from hermesd.serving.replay import Replayer
from tests.core_doubles import OPERATOR, Served, raw_tool
from tests.rpc_doubles import call_record


class Asked:
    def __init__(self) -> None:
        self.served = Served()
        self.runtime = self.served.offer(
            raw_tool("orders.place_it", title="Place an order"),
            raw_tool("orders.read_it", side_effects="read"),
        )
        self.replayer = Replayer(self.served.dispatcher, self.served.registry, self.served.clock)
        self.record = call_record(tool="orders.place_it", arguments='{"n":1}')

    async def replay(self, **more: Any) -> Result:
        return await self.replayer.replay(more.pop("record", self.record), OPERATOR, **more)

    async def token(self, **more: Any) -> str:
        result = await self.replay(**more)
        assert (result.code, result.effect) == (Code.CONFIRMATION_REQUIRED, "none")
        return str(result.detail["confirmation_token"])


@pytest.mark.promise("REC-5")
async def test_a_tool_that_only_reads_runs_at_once_as_a_new_call() -> None:
    asked = Asked()
    result = await asked.replay(record=call_record("r-9", tool="orders.read_it", arguments='{"n":1}'))
    assert (result.code, result.data_json) == (Code.OK, '{"n":1}')
    assert result.request_id != "r-9"
    assert result.session_id == "s-1"


@pytest.mark.promise("REC-5")
async def test_what_may_change_something_waits_for_its_confirmation_though_its_tool_needs_none() -> None:
    asked = Asked()
    token = await asked.token()
    assert "Place an order" in (await asked.replay()).detail["summary"]
    assert not asked.runtime.invocations
    other = await asked.replay(token=token, arguments_json='{"n":2}')
    assert other.code is Code.CONFIRMATION_REQUIRED
    assert (await asked.replay(token=token)).code is Code.OK
    again = await asked.replay(token=token)
    assert again.code is Code.CONFIRMATION_REQUIRED
    assert "used" in str(again.detail["reason"])
    assert [each.arguments_json for each in asked.runtime.invocations] == ['{"n":1}']


@pytest.mark.promise("REC-5")
async def test_a_tool_that_needs_a_confirmation_anyway_needs_one_alone() -> None:
    asked = Asked()
    asked.runtime = asked.served.offer(raw_tool("orders.place_it", title="Place an order", confirm="caller"))
    token = await asked.token()
    assert (await asked.replay(token=token)).code is Code.OK


async def test_a_record_without_all_arguments_needs_new_ones() -> None:
    asked = Asked()
    record = call_record(tool="orders.read_it", arguments_whole=False)
    with pytest.raises(PreconditionError, match="redacted or cut"):
        await asked.replay(record=record)
    assert (await asked.replay(record=record, arguments_json='{"n":3}')).data_json == '{"n":3}'


async def test_a_tool_that_is_gone_is_unknown() -> None:
    assert (await Asked().replay(record=call_record(tool="orders.gone"))).code is Code.UNKNOWN_TOOL
