"""An agent's calls and the operator's word on them, over the API and with `ctl`."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from hermesd.access.identity import Identities
from hermesd.access.policy import ALLOWED
from hermesd.api.v1 import confirmation_pb2
from hermesd.client import AsyncClient, MissingError, RefusedError
from hermesd.client.result import CallResult
from hermesd.clock import SystemClock
from hermesd.daemon.confirmation import ConfirmationListener
from hermesd.model.call import Caller
from hermesd.rpc.interceptor import Context
from hermesd.rpc.server import Backend, RpcServer
from hermesd.serving.confirmation import Confirmations
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.metric import Metrics
from tests.core_doubles import OPERATOR, Served, raw_tool
from tests.integration.test_ctl import ctl
from tests.rpc_doubles import Administration, Calls, Detached, Kept, Records, Registry, Reloader

TOOL = "orders.delete_order"
AGENTS = {
    "Bearer reporter": Caller("reporter", "agent"),
    "Bearer writer": Caller("writer", "agent"),
    "Bearer deputy": Caller("deputy", "agent", self_confirm=True),
}


def identify(context: Context) -> Caller:
    """Agents by their token, the operator without one."""
    shown = dict(context.invocation_metadata() or ()).get("authorization")
    return AGENTS[shown] if shown else OPERATOR


class Desk:
    """The real dispatcher and edge around one destructive tool."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.events = EventLog(SystemClock())
        self.metrics = Metrics()
        clock = SystemClock()
        listener = ConfirmationListener(self.events, self.metrics)
        confirmations = Confirmations(clock, tell=listener.changed)
        self.served = Served(confirmations=confirmations)
        self.runtime = self.served.offer(raw_tool(TOOL, side_effects="destructive"))
        admin = Administration()
        backend = Backend(
            calls=self.served.dispatcher,
            registry=self.served.registry,
            reload=Reloader(),
            events=self.events,
            inspection=admin,
            lifecycle=admin,
            decisions=admin,
            confirmations=confirmations,
            identities=Identities(clock),
            agents=admin,  # type: ignore[arg-type] # nobody gets as far
            detached=Detached(Calls(Registry())),
            outputs=Kept(),
            records=Records(),
        )
        self.server = RpcServer(backend, addresses=[address], clock=clock, identify=identify)
        self.operator = AsyncClient(address)
        self.agents = {name: AsyncClient(address, token=name) for name in ("reporter", "writer", "deputy")}

    async def call(self, agent: str, token: str = "", **arguments: Any) -> CallResult:
        return await self.agents[agent].call_tool(TOOL, arguments, confirmation_token=token)

    async def close(self) -> None:
        for each in (self.operator, *self.agents.values()):
            await each.close()
        await self.server.stop(1.0)


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr("hermesd.serving.dispatcher.decide", lambda *_: ALLOWED)
    desk = Desk(f"unix:{tmp_path}/s")
    await desk.server.start()
    yield desk
    await desk.close()


@pytest.mark.promise("CONF-1")
@pytest.mark.promise("CONF-6")
async def test_an_agents_call_runs_when_the_operator_has_approved_it(desk: Desk) -> None:
    asked = await desk.call("reporter", id=7)
    assert (asked.code, asked.effect, asked.detail["confirm"]) == (
        "CONFIRMATION_REQUIRED",
        "none",
        "operator",
    )
    token = asked.confirmation_token
    assert (await desk.call("reporter", token, id=7)).code == "CONFIRMATION_REQUIRED"
    status, out, err = await ctl(desk, "confirmations", "list")  # type: ignore[arg-type] # it has an address
    assert (status, err) == (0, "")
    identity = out.split()[0]
    assert "waits for the operator" in out
    assert f"({TOOL} 1.0.0, destructive) with id=7" in out
    assert "asked by reporter" in out
    status, out, err = await ctl(desk, "--json", "confirmations", "approve", identity)  # type: ignore[arg-type]
    assert (status, json.loads(out)["confirmation"]["state"]) == (0, "approved")
    assert desk.runtime.invocations == []
    assert (await desk.call("writer", token, id=7)).code == "CONFIRMATION_REQUIRED"
    stream = desk.agents["reporter"].stream_call_tool(TOOL, {"id": 7}, confirmation_token=token)
    assert [event.result.code async for event in stream if event.HasField("result")] == ["OK"]
    assert (await desk.call("reporter", token, id=7)).code == "CONFIRMATION_REQUIRED"
    assert len(desk.runtime.invocations) == 1


@pytest.mark.promise("CONF-6")
async def test_a_denied_call_is_permission_denied_with_the_operators_words(desk: Desk) -> None:
    token = (await desk.call("reporter", id=7)).confirmation_token
    status, out, err = await ctl(desk, "confirmations", "deny", token, "--reason", "keep it")  # type: ignore[arg-type]
    assert (status, err, "denied by operator" in out, "keep it" in out) == (0, "", True, True)
    result = await desk.call("reporter", token, id=7)
    assert (result.code, result.effect, "keep it" in result.message) == ("PERMISSION_DENIED", "none", True)
    assert desk.runtime.invocations == []


@pytest.mark.promise("CONF-1")
async def test_a_deputy_confirms_its_own_calls(desk: Desk) -> None:
    token = (await desk.call("deputy", id=7)).confirmation_token
    done = await desk.call("deputy", token, id=7)
    assert (done.code, done.confirmation_token) == ("OK", "")


@pytest.mark.promise("CONF-6")
async def test_a_model_does_not_approve_itself(desk: Desk) -> None:
    token = (await desk.call("reporter", id=7)).confirmation_token
    for agent in desk.agents.values():
        for attempt in (agent.list_confirmations(), agent.approve_confirmation(token)):
            with pytest.raises(Exception, match="is the operator's"):
                await attempt
    assert desk.runtime.invocations == []


@pytest.mark.promise("CONF-7")
async def test_tokens_are_in_no_list_event_or_log_line(desk: Desk) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger("hermesd").addHandler(handler)
    try:
        asked = await desk.call("reporter", word="unmistakable")
        token = asked.confirmation_token
        listed = await desk.operator.list_confirmations()
        approved = await desk.operator.approve_confirmation(token)
        await desk.call("reporter", token, word="unmistakable")
    finally:
        logging.getLogger("hermesd").removeHandler(handler)
    events = desk.events.recent(10)
    assert [each.kind for each in events] == [
        "confirmation_requested",
        "confirmation_approved",
        "confirmation_used",
    ]
    assert events[0].fields["agent"] == "reporter"
    secret = token.partition(".")[2]
    assert secret not in f"{listed}{approved}{events}{stream.getvalue()}"
    assert "unmistakable" not in f"{events}{stream.getvalue()}"


async def test_what_becomes_of_confirmations_is_counted(desk: Desk) -> None:
    token = (await desk.call("deputy", id=7)).confirmation_token
    await desk.call("deputy", token, id=7)
    rendered = desk.metrics.render().decode()
    assert 'hermesd_confirmations_total{change="requested"} 1.0' in rendered
    assert 'hermesd_confirmations_total{change="used"} 1.0' in rendered


async def test_pages_of_the_list_are_whole_and_in_the_order_of_asking(desk: Desk) -> None:
    for each in range(5):
        await desk.call("reporter", id=each)
    found, token = [], ""
    while True:
        page = await desk.operator.list_confirmations(page_size=2, page_token=token)
        found += [json.loads(each.arguments_json)["id"] for each in page.confirmations]
        token = page.next_page_token
        if not token:
            break
    assert found == [0, 1, 2, 3, 4]
    [first, *_] = page.confirmations
    await desk.operator.deny_confirmation(first.id)
    denied = await desk.operator.list_confirmations(state="denied")
    assert [each.id for each in denied.confirmations] == [first.id]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (confirmation_pb2.ResolveConfirmationRequest(action="approve"), "INVALID_ARGUMENT"),
        (confirmation_pb2.ResolveConfirmationRequest(id="ID"), "INVALID_ARGUMENT"),
        (confirmation_pb2.ResolveConfirmationRequest(id="ID", action="yes"), "INVALID_ARGUMENT"),
        (confirmation_pb2.ResolveConfirmationRequest(id="00000000", action="deny"), "NOT_FOUND"),
    ],
)
async def test_what_is_not_said_in_so_many_words_decides_nothing(
    desk: Desk, request_: Any, code: str
) -> None:
    token = (await desk.call("reporter", id=7)).confirmation_token
    if request_.id == "ID":
        request_ = confirmation_pb2.ResolveConfirmationRequest(id=token, action=request_.action)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await desk.operator._admin.ResolveConfirmation(request_)
    assert failure.value.code().name == code
    assert (await desk.operator.list_confirmations()).confirmations[0].state == "pending"


async def test_the_client_names_what_went_wrong(desk: Desk) -> None:
    with pytest.raises(MissingError):
        await desk.operator.deny_confirmation("00000000")
    with pytest.raises(RefusedError, match="does not exist"):
        await desk.operator.list_confirmations(state="done")
    token = (await desk.call("deputy", id=7)).confirmation_token
    with pytest.raises(RefusedError, match="its caller's own"):
        await desk.operator.approve_confirmation(token)


async def test_calls_that_show_one_token_at_once_run_once(desk: Desk) -> None:
    token = (await desk.call("deputy", id=7)).confirmation_token
    results = await asyncio.gather(*(desk.call("deputy", token, id=7) for _ in range(20)))
    assert sorted(each.code for each in results) == ["CONFIRMATION_REQUIRED"] * 19 + ["OK"]
    assert len(desk.runtime.invocations) == 1
