"""A replay is a new call of the same; what may change something waits for a confirmation that is for it."""

from __future__ import annotations

from typing import Any

import pytest

from hermesd.errors import PreconditionError
from hermesd.model.call import Code, Result
from hermesd.serving.replay import TOKEN_S, Replayer
from tests.core_doubles import OPERATOR, Served, SetClock, raw_tool
from tests.rpc_doubles import call_record


class Asked:
    def __init__(self) -> None:
        self.served = Served()
        self.clock = SetClock()
        self.runtime = self.served.offer(
            raw_tool("orders.place_it", title="Place an order"),
            raw_tool("orders.read_it", side_effects="read"),
        )
        self.replayer = Replayer(self.served.dispatcher, self.served.registry, self.clock)
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
async def test_a_token_is_good_for_one_replay_of_exactly_that() -> None:
    asked = Asked()
    token = await asked.token()
    assert "Place an order" in (await asked.replay()).detail["summary"]
    assert not asked.runtime.invocations
    assert (await asked.replay(token=token)).code is Code.OK
    again = await asked.replay(token=token)
    assert again.code is Code.CONFIRMATION_REQUIRED
    assert "used" in str(again.detail["reason"])
    for other in ({"arguments_json": '{"n":2}'}, {"record": asked.record._replace(request_id="r-2")}):
        token = await asked.token()
        assert (await asked.replay(token=token, **other)).code is Code.CONFIRMATION_REQUIRED
    assert [each.arguments_json for each in asked.runtime.invocations] == ['{"n":1}']


@pytest.mark.promise("REC-5")
async def test_a_token_expires_and_does_not_survive_a_change_of_the_tool() -> None:
    asked = Asked()
    token = await asked.token()
    asked.clock.at += TOKEN_S + 1
    assert (await asked.replay(token=token)).code is Code.CONFIRMATION_REQUIRED
    token = await asked.token()
    asked.served.offer(raw_tool("orders.place_it", title="Something else"))
    assert (await asked.replay(token=token)).code is Code.CONFIRMATION_REQUIRED
    assert (await asked.replay(token="不")).code is Code.CONFIRMATION_REQUIRED


async def test_tokens_that_nobody_uses_do_not_add_up() -> None:
    asked = Asked()
    first = await asked.token()
    for _ in range(100):
        await asked.token()
    assert (await asked.replay(token=first)).code is Code.CONFIRMATION_REQUIRED


async def test_a_record_without_all_arguments_needs_new_ones() -> None:
    asked = Asked()
    record = call_record(tool="orders.read_it", arguments_whole=False)
    with pytest.raises(PreconditionError, match="redacted or cut"):
        await asked.replay(record=record)
    assert (await asked.replay(record=record, arguments_json='{"n":3}')).data_json == '{"n":3}'


async def test_a_tool_that_is_gone_is_unknown() -> None:
    assert (await Asked().replay(record=call_record(tool="orders.gone"))).code is Code.UNKNOWN_TOOL
