"""The part of AdminService that tells of calls, over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermesd.api.v1 import call_pb2
from hermesd.client import AsyncClient, BusyError, ClientError, MissingError
from hermesd.errors import StoreError
from tests.rpc_doubles import SINCE, Daemon, call_record

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with Daemon(f"unix:{tmp_path}/hermesd.sock") as daemon:
        yield daemon


@pytest.fixture
async def client(daemon: Daemon) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(daemon.address) as client:
        yield client


async def test_pages_go_through_all_calls_and_those_in_flight_come_first(
    daemon: Daemon, client: AsyncClient
) -> None:
    daemon.records.ended = [call_record(f"r-{number}") for number in range(25)]
    daemon.records.flying = [
        call_record("now", code="", attempts=1),
        call_record("soon", code="", attempts=0),
    ]
    pages, token = [], ""
    while not pages or token:
        answer = await client.list_calls(page_size=10, page_token=token)
        pages.append([each.request_id for each in answer.calls])
        token = answer.next_page_token
    assert [len(each) for each in pages] == [12, 10, 5]
    assert pages[0][:3] == ["now", "soon", "r-24"]
    assert pages[2][-1] == "r-0"
    states = [each.state async for each in client.calls()]
    assert states == ["running", "queued"] + ["ended"] * 25


async def test_a_page_of_another_question_and_a_forged_one_are_refused(
    daemon: Daemon, client: AsyncClient
) -> None:
    daemon.records.ended = [call_record(f"r-{number}") for number in range(5)]
    token = (await client.list_calls(page_size=2)).next_page_token
    for asked in ({"page_token": token, "tool": "a.*"}, {"page_token": "forged"}, {"page_size": -1}):
        with pytest.raises(ClientError):
            await client.list_calls(**asked)
    with pytest.raises(ClientError, match="does not exist"):
        await client.list_calls(code="FINE")
    with pytest.raises(ClientError, match="longer than"):
        await client.list_calls(tool="x" * 2000)


async def test_filters_and_times_reach_the_records_and_the_operator_sees_all(
    daemon: Daemon, client: AsyncClient
) -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    await client.list_calls(
        tool="a.*", agent="ann", code="OK", session_id="s", plugin="p", parent_request_id="r", trace_id="t",
        since=until - timedelta(days=1), until=until, failed=True,
    )  # fmt: skip
    [asked] = daemon.records.asked
    assert (asked.tool, asked.agent, asked.code, asked.session_id) == ("a.*", "ann", "OK", "s")
    assert (asked.plugin, asked.parent_request_id, asked.trace_id) == ("p", "r", "t")
    assert (asked.since, asked.until) == (until - timedelta(days=1), until)
    assert asked.failed
    assert [each.kind for each in daemon.records.askers] == ["operator"]


async def test_one_call_stats_and_a_replay(daemon: Daemon, client: AsyncClient) -> None:
    daemon.records.ended = [call_record("r-1", metadata_json='{"a": "b"}')]
    call = (await client.get_call("r-1")).call
    assert (call.run_ms, dict(call.metadata), call.at.ToDatetime(UTC)) == (10.0, {"a": "b"}, SINCE)
    with pytest.raises(MissingError):
        await client.get_call("r-2")
    with pytest.raises(ClientError):
        await client.get_call("")
    stats = await client.get_call_stats(tool="demo.*", agent="ann")
    assert (stats.calls, list(stats.unused_tools), stats.tools[0].codes["TIMEOUT"]) == (
        6,
        ["store.put_item"],
        1,
    )
    assert stats.miscalled[0].example == "/文本: missing"
    asked = await client.replay_call("r-1")
    assert (asked.code, asked.detail["confirmation_token"]) == ("CONFIRMATION_REQUIRED", "t-1")
    done = await client.replay_call("r-1", {"文本": "新"}, confirmation_token="t-1", timeout_ms=500)
    assert done.data == "好"
    record, given = daemon.records.replayed[-1]
    assert record.request_id == "r-1"
    assert (given["arguments_json"], given["timeout_ms"]) == ('{"文本": "新"}', 500)
    daemon.records.flying = [call_record("now", code="")]
    with pytest.raises(ClientError, match="has not ended"):
        await client.replay_call("now")


async def test_records_that_cannot_be_read_are_an_error_with_its_remedy(
    daemon: Daemon, client: AsyncClient
) -> None:
    daemon.records.failure = StoreError("the disk is full", remedy="make room")
    with pytest.raises(BusyError, match="the disk is full") as caught:
        await client.list_calls()
    assert caught.value.remedy == "make room"


@pytest.mark.promise("REC-3")
async def test_a_trace_context_is_taken_from_the_rpc_or_from_the_call(
    daemon: Daemon, client: AsyncClient
) -> None:
    await client.call_tool("demo.echo_text", metadata={"traceparent": TRACE, "tracestate": "a=1"})
    await client.call_tool("demo.echo_text", metadata={"traceparent": "broken"})
    client._metadata = (("traceparent", TRACE), ("tracestate", "b=2"))
    await client.call_tool("demo.echo_text", metadata={"traceparent": "broken"})
    seen = [(each.traceparent, each.tracestate) for each in daemon.calls.requests]
    assert seen == [(TRACE, "a=1"), ("", ""), (TRACE, "b=2")]


async def test_a_page_is_no_larger_than_a_message(tmp_path: Path) -> None:
    from hermesd.rpc.server import Limits  # noqa: PLC0415 - of this test alone

    async with Daemon(f"unix:{tmp_path}/small.sock", limits=Limits(message_mb=1)) as daemon:
        daemon.records.ended = [call_record(f"r-{n}", arguments="x" * 2000) for n in range(400)]
        async with AsyncClient(daemon.address) as client:
            first: call_pb2.ListCallsResponse = await client.list_calls(page_size=1000)
            assert 0 < len(first.calls) < 400
            assert len([each async for each in client.calls()]) == 400
