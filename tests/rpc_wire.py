"""Helpers of tests that talk to the server with plain gRPC stubs."""

from __future__ import annotations

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from hermesd.api.v1 import tool_pb2

MIB = 1024 * 1024
BIG = (("grpc.max_receive_message_length", 64 * MIB), ("grpc.max_send_message_length", 64 * MIB))


async def failure(awaitable) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await awaitable
    return caught.value


def error_info(error: grpc.aio.AioRpcError) -> ErrorInfo:
    info = ErrorInfo()
    details = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    assert Status.FromString(details).details[0].Unpack(info)
    return info


def call(name: str = "demo.echo_text", **fields) -> tool_pb2.CallToolRequest:
    return tool_pb2.CallToolRequest(name=name, **fields)
