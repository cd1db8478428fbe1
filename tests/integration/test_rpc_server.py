"""The gRPC server on real sockets, in front of doubles held in memory."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from hermesd.api.v1 import admin_pb2, admin_pb2_grpc, circuit_pb2, tool_pb2, tool_pb2_grpc
from hermesd.model.call import Caller
from hermesd.model.status import State
from tests.rpc_doubles import Daemon, Limits, tool_entry
from tests.rpc_wire import BIG, MIB, call, error_info, failure


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/hermesd.sock"


@pytest.fixture
async def daemon(address: str):
    async with Daemon(address) as daemon:
        yield daemon


@pytest.fixture
async def channel(daemon: Daemon):
    async with grpc.aio.insecure_channel(daemon.address, options=BIG) as channel:
        yield channel


@pytest.fixture
def tools(channel) -> tool_pb2_grpc.ToolServiceStub:
    return tool_pb2_grpc.ToolServiceStub(channel)


@pytest.fixture
def admin(channel) -> admin_pb2_grpc.AdminServiceStub:
    return admin_pb2_grpc.AdminServiceStub(channel)


# Identity


async def test_tcp_without_a_token_is_nobody_but_health_is_open():
    async with (
        Daemon("127.0.0.1:0") as daemon,
        grpc.aio.insecure_channel(daemon.server.addresses[0]) as channel,
    ):
        error = await failure(tool_pb2_grpc.ToolServiceStub(channel).ListTools(tool_pb2.ListToolsRequest()))
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert error_info(error).reason == "UNAUTHENTICATED"
        health = health_pb2_grpc.HealthStub(channel)
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == 1


@pytest.mark.parametrize("token", ["Bearer x", "", "Basic eDp5"])
@pytest.mark.promise("API-7")
async def test_any_token_is_refused_on_the_unix_socket_too(tools, token: str):
    error = await failure(tools.CallTool(call(), metadata=(("authorization", token),)))
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_administration_is_the_operators(address: str):
    async with (
        Daemon(address, identify=lambda context: Caller("reporter", "agent")) as daemon,
        grpc.aio.insecure_channel(daemon.address) as channel,
    ):
        error = await failure(admin_pb2_grpc.AdminServiceStub(channel).Drain(admin_pb2.DrainRequest()))
        assert error.code() is grpc.StatusCode.PERMISSION_DENIED
        assert daemon.administration.done == []
        await tool_pb2_grpc.ToolServiceStub(channel).CallTool(call())
        assert daemon.calls.requests[0].caller == Caller("reporter", "agent")


# Calls


async def test_the_callers_deadline_reaches_the_call_less_20_ms(tools, daemon: Daemon):
    loop = asyncio.get_running_loop()
    for timeout in (0.9, 5.0, 10.0, 30.0, 300.0):
        start = loop.time()
        await tools.CallTool(call(), timeout=timeout)
        deadline = daemon.calls.requests.pop().deadline
        assert start + timeout * 0.9 < deadline <= start + timeout - 0.018, timeout
    await tools.CallTool(call())
    assert daemon.calls.requests[0].deadline is None


@pytest.mark.parametrize("timeout", [0.2, 1.005])
@pytest.mark.promise("API-4")
async def test_a_call_that_uses_all_its_time_still_answers(tools, timeout: float):
    result = (await tools.CallTool(call("demo.use_time"), timeout=timeout)).result
    assert result.code == "TIMEOUT"


@pytest.mark.promise("API-5")
async def test_a_caller_that_goes_away_cancels_its_call(tools, daemon: Daemon):
    running = tools.CallTool(call("demo.wait_long", request_id="left"))
    while "left" not in daemon.calls.inflight:
        await asyncio.sleep(0.005)
    running.cancel()
    await asyncio.wait_for(daemon.calls.finished.wait(), 2)
    assert daemon.calls.cancelled == ["left"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tool_call_id", "c"),
        ("append", True),
        ("context_id", "x"),
    ],
)
@pytest.mark.promise("API-6")
async def test_a_field_whose_feature_is_missing_is_refused_by_name(tools, daemon: Daemon, field, value):
    error = await failure(tools.CallTool(call(**{field: value})))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert field in error.details()
    stream = tools.StreamCallTool(tool_pb2.StreamCallToolRequest(call=call(**{field: value})))
    assert (await failure(stream.read())).code() is grpc.StatusCode.UNIMPLEMENTED
    assert daemon.calls.requests == []


async def test_a_session_to_list_tools_for_is_refused_by_name(tools):
    error = await failure(tools.ListTools(tool_pb2.ListToolsRequest(session_id="s")))
    assert (error.code(), "session_id" in error.details()) == (grpc.StatusCode.UNIMPLEMENTED, True)


@pytest.mark.parametrize(
    "request_",
    [
        tool_pb2.CallToolRequest(),
        call(request_id="x" * 129),
        call(request_id="a\nb"),
        call(session_id="\x1b[31m"),
        call(timeout_ms=0),
        call(timeout_ms=-5),
        call(metadata={str(each): "" for each in range(33)}),
        call(metadata={"k": "v" * 2000}),
    ],
)
async def test_a_malformed_call_is_invalid_argument(tools, daemon: Daemon, request_):
    error = await failure(tools.CallTool(request_))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error_info(error).domain == "hermesd"
    assert daemon.calls.requests == []


async def test_a_request_id_in_flight_already_exists(tools, daemon: Daemon):
    first = tools.CallTool(call("demo.wait_long", request_id="r"))
    while "r" not in daemon.calls.inflight:
        await asyncio.sleep(0.005)
    error = await failure(tools.CallTool(call(request_id="r")))
    assert error.code() is grpc.StatusCode.ALREADY_EXISTS
    stream = tools.StreamCallTool(tool_pb2.StreamCallToolRequest(call=call(request_id="r")))
    assert (await failure(stream.read())).code() is grpc.StatusCode.ALREADY_EXISTS
    daemon.calls.release.set()
    assert (await first).result.request_id == "r"


async def test_a_call_can_be_cancelled_by_name(tools, daemon: Daemon):
    error = await failure(tools.CancelCall(tool_pb2.CancelCallRequest(request_id="none")))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    error = await failure(tools.CancelCall(tool_pb2.CancelCallRequest()))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_text_that_cannot_travel_does_not_break_the_answer(tools):
    result = (await tools.CallTool(call("demo.say_surrogate"))).result
    assert result.message == "bad ? text"


async def test_a_result_too_large_for_one_message_says_so(address: str):
    async with Daemon(address, limits=Limits(message_mb=1)) as daemon:
        daemon.calls.data_json = '"' + "文" * MIB + '"'
        async with grpc.aio.insecure_channel(daemon.address, options=BIG) as channel:
            result = (await tool_pb2_grpc.ToolServiceStub(channel).CallTool(call())).result
    assert (result.code, result.status, result.data_json) == ("INVALID_RESULT", "error", "null")
    assert '"reason":"too_large"' in result.detail_json


async def test_messages_of_16_mib_pass_and_larger_ones_are_refused(tools, daemon: Daemon):
    text = '{"a":"' + "x" * (15 * MIB) + '"}'
    assert (await tools.CallTool(call(arguments_json=text))).result.data_json == text
    error = await failure(tools.CallTool(call(arguments_json="x" * (17 * MIB))))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(daemon.calls.requests) == 1


async def test_a_streamed_call_tells_its_progress_and_log_in_order(tools):
    stream = tools.StreamCallTool(tool_pb2.StreamCallToolRequest(call=call("demo.talk_much")))
    events = [each async for each in stream]
    assert [each.WhichOneof("event") for each in events] == [
        "started",
        "progress",
        "log",
        "progress",
        "result",
    ]
    assert [each.seq for each in events] == [1, 2, 3, 4, 5]
    assert (events[1].progress.total, events[1].progress.message) == (3, "一")
    assert (events[2].log.level, events[2].log.fields_json) == ("warning", '{"a":1}')
    assert not events[3].progress.HasField("total")


@pytest.mark.promise("API-10")
async def test_logs_that_a_slow_reader_misses_are_counted(tools):
    stream = tools.StreamCallTool(tool_pb2.StreamCallToolRequest(call=call("demo.flood_logs")))
    events = [each async for each in stream]
    logs = sum(each.HasField("log") for each in events)
    assert logs + sum(each.dropped_logs for each in events) == 1000
    assert events[-1].HasField("result")
    assert events[-1].seq == 2002


async def test_a_fault_in_a_streamed_call_is_internal_without_its_text(tools, caplog):
    stream = tools.StreamCallTool(tool_pb2.StreamCallToolRequest(call=call("demo.raise_fault")))
    error = await failure(_all(stream))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in error.details()
    assert "secret traceback text" in caplog.text


async def _all(stream) -> list:
    return [each async for each in stream]


# Garbage


async def test_bytes_that_are_no_http2_hurt_nobody(tools, tmp_path: Path):
    for garbage in (b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), "你好".encode()):
        reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/hermesd.sock")
        writer.write(garbage)
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 5)
        writer.close()
        await writer.wait_closed()
    assert (await tools.CallTool(call())).result.code == "OK"


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x0a\x7f"])
async def test_a_message_that_is_no_protobuf_is_invalid_argument(channel, data: bytes):
    raw = channel.unary_unary("/hermesd.api.v1.ToolService/CallTool")
    error = await failure(raw(data))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    stream = channel.unary_stream("/hermesd.api.v1.AdminService/WatchEvents")
    assert (await failure(stream(b"\xff\xff").read())).code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_an_rpc_that_this_build_lacks_is_unimplemented(channel):
    raw = channel.unary_unary("/hermesd.api.v1.ToolService/SelectTools")
    assert (await failure(raw(b""))).code() is grpc.StatusCode.UNIMPLEMENTED


# Lists


@pytest.mark.promise("API-8")
async def test_pages_survive_changes_of_the_catalogue_between_them(tools, daemon: Daemon):
    daemon.registry.commit([tool_entry(f"demo.item_{each:02}") for each in range(10)])
    first = await tools.ListTools(tool_pb2.ListToolsRequest(page_size=4))
    kept = [tool_entry(f"demo.item_{each:02}") for each in range(10) if each not in (0, 3, 5)]
    daemon.registry.commit([*kept, tool_entry("demo.aaa_first")])
    second = await tools.ListTools(tool_pb2.ListToolsRequest(page_size=100, page_token=first.next_page_token))
    assert [each.name for each in second.tools] == [f"demo.item_{each:02}" for each in (4, 6, 7, 8, 9)]
    assert second.generation == first.generation + 1
    assert second.next_page_token == ""


@pytest.mark.parametrize("token", ["x", "AAAA", "bnVsbA", "WzEsMl0", "W10", "é", "x" * 5000, "eyJhIjoxfQ"])
async def test_a_forged_page_token_is_invalid_argument(tools, admin, token: str):
    error = await failure(tools.ListTools(tool_pb2.ListToolsRequest(page_token=token)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    error = await failure(admin.ListPlugins(admin_pb2.ListPluginsRequest(page_token=token)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_page_token_of_another_question_is_invalid_argument(tools):
    page = await tools.ListTools(tool_pb2.ListToolsRequest(page_size=1))
    request = tool_pb2.ListToolsRequest(page_token=page.next_page_token, domain="demo")
    assert (await failure(tools.ListTools(request))).code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_unavailable_tools_are_listed_only_when_asked_for(tools, daemon: Daemon):
    daemon.registry.commit(
        [
            tool_entry("a.read_it"),
            tool_entry("b.read_it", state=State.UNAVAILABLE),
            tool_entry("c.read_it", state=State.DEGRADED),
        ]
    )
    listed = await tools.ListTools(tool_pb2.ListToolsRequest())
    assert [each.name for each in listed.tools] == ["a.read_it", "c.read_it"]
    everything = await tools.ListTools(tool_pb2.ListToolsRequest(include_unavailable=True))
    assert [each.state for each in everything.tools] == ["ready", "unavailable", "degraded"]
    one = await tools.ListTools(tool_pb2.ListToolsRequest(include_unavailable=True, domain="b"))
    assert [each.name for each in one.tools] == ["b.read_it"]
    none = await tools.ListTools(tool_pb2.ListToolsRequest(source="http"))
    assert list(none.tools) == []


# Watches


@pytest.mark.promise("API-9")
async def test_a_watch_resumes_after_its_started_without_missing_anything(tools, daemon: Daemon):
    daemon.registry.change("added", "a.b_c")
    stream = tools.WatchTools(tool_pb2.WatchToolsRequest())
    started = await stream.read()
    assert (started.seq, started.HasField("started")) == (1, True)
    stream.cancel()
    for each in ("x.a_b", "x.c_d"):
        daemon.registry.change("changed", each)
    again = tools.WatchTools(tool_pb2.WatchToolsRequest(after_seq=started.seq))
    assert (await again.read()).seq == 1
    assert [(await again.read()).change.name for _ in range(2)] == ["x.a_b", "x.c_d"]
    again.cancel()


@pytest.mark.promise("API-9")
async def test_a_watch_of_events_that_are_gone_is_out_of_range(admin, daemon: Daemon):
    daemon.events.capacity = 3
    for _ in range(10):
        daemon.happen("plugin_ready")
    stream = admin.WatchEvents(admin_pb2.WatchEventsRequest(after_seq=2))
    error = await failure(_all(stream))
    assert error.code() is grpc.StatusCode.OUT_OF_RANGE
    assert error_info(error).reason == "FELL_BEHIND"
    assert error_info(error).metadata["remedy"] == "watch anew"


@pytest.mark.parametrize(
    "request_",
    [
        admin_pb2.WatchEventsRequest(after_seq=-1),
        admin_pb2.WatchEventsRequest(after_seq=0, recent=1),
        admin_pb2.WatchEventsRequest(recent=1001),
    ],
)
async def test_a_watch_that_cannot_be_meant_is_invalid_argument(admin, request_):
    error = await failure(admin.WatchEvents(request_).read())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_watcher_that_goes_away_leaves_nothing_behind(tools, daemon: Daemon):
    streams = [tools.WatchTools(tool_pb2.WatchToolsRequest()) for _ in range(20)]
    for each in streams:
        await each.read()
    while daemon.registry.open_watches < 20:
        await asyncio.sleep(0.005)
    for each in streams:
        each.cancel()
    while daemon.registry.open_watches:
        await asyncio.sleep(0.005)


# Administration


@pytest.mark.parametrize(
    ("rpc", "request_"),
    [
        ("GetPlugin", admin_pb2.GetPluginRequest(name="")),
        ("SetPlugin", admin_pb2.SetPluginRequest(name="demo")),
        ("SetTool", admin_pb2.SetToolRequest(enabled=True)),
        ("ResetCircuit", circuit_pb2.ResetCircuitRequest()),
        ("TrustPlugin", admin_pb2.TrustPluginRequest(name="demo", action="adore")),
        ("TrustPlugin", admin_pb2.TrustPluginRequest(name="demo", action="untrust", follow=True)),
        ("TrustPlugin", admin_pb2.TrustPluginRequest(name="demo", isolation="container")),
        ("GrantPlugin", admin_pb2.GrantPluginRequest(name="demo")),
        ("GrantPlugin", admin_pb2.GrantPluginRequest(name="demo", permissions_json="[")),
        ("GrantPlugin", admin_pb2.GrantPluginRequest(name="demo", permissions_json="[" * 100_000)),
        ("GrantPlugin", admin_pb2.GrantPluginRequest(name="demo", permissions_json='{"root": true}')),
        ("GrantPlugin", admin_pb2.GrantPluginRequest(name="demo", permissions_json='{"secrets": "A"}')),
        ("GrantPlugin", admin_pb2.GrantPluginRequest(name="demo", permissions_json='{"memory_mb": true}')),
        ("GrantPlugin", admin_pb2.GrantPluginRequest(name="demo", permissions_json='{"network": ["x"]}')),
        ("ListPlugins", admin_pb2.ListPluginsRequest(state="happy")),
        ("ListPluginHistory", admin_pb2.ListPluginHistoryRequest(name="demo", page_size=-1)),
    ],
)
async def test_a_malformed_request_to_the_operators_side_changes_nothing(
    admin, daemon: Daemon, rpc, request_
):
    error = await failure(getattr(admin, rpc)(request_))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert daemon.administration.done == []


async def test_an_unknown_plugin_is_not_found_with_the_nearest_name(admin):
    error = await failure(admin.GetPlugin(admin_pb2.GetPluginRequest(name="demmo")))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert error_info(error).metadata["remedy"] == "did you mean demo?"
    stream = admin.ReadPluginLog(admin_pb2.ReadPluginLogRequest(name="demmo"))
    assert (await failure(stream.read())).code() is grpc.StatusCode.NOT_FOUND


async def test_reload_passes_everything_on_and_answers_with_places(admin, daemon: Daemon):
    request = admin_pb2.ReloadRequest(
        name="demo", dry_run=True, atomic=True, no_wait=True, if_revision="rev-1"
    )
    answer = await admin.Reload(request)
    assert daemon.reloader.asked == [
        {
            "name": "demo",
            "dry_run": True,
            "atomic": True,
            "no_wait": True,
            "if_revision": "rev-1",
            "cause": "rpc",
        }
    ]
    assert (answer.rejected[0].line, answer.rejected[0].column, answer.rejected[0].remedy) == (
        3,
        7,
        "mend it",
    )
    error = await failure(admin.Reload(admin_pb2.ReloadRequest(if_revision="other")))
    assert error.code() is grpc.StatusCode.ABORTED


# Health and reflection


async def test_health_follows_what_the_daemon_says(channel, daemon: Daemon):
    health = health_pb2_grpc.HealthStub(channel)
    statuses = health_pb2.HealthCheckResponse
    for name in ("", "hermesd.api.v1.ToolService", "hermesd.api.v1.AdminService"):
        assert (await health.Check(health_pb2.HealthCheckRequest(service=name))).status == statuses.SERVING
    await daemon.server.set_serving(False)
    assert (await health.Check(health_pb2.HealthCheckRequest())).status == statuses.NOT_SERVING
    error = await failure(health.Check(health_pb2.HealthCheckRequest(service="none")))
    assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_names_the_services(channel):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    stream = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    answer = await stream.read()
    names = {each.name for each in answer.list_services_response.service}
    assert {"hermesd.api.v1.ToolService", "hermesd.api.v1.AdminService", "grpc.health.v1.Health"} <= names
    stream.cancel()
