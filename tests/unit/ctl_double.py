"""A daemon's double for tests of `ctl`: a real gRPC server on a socket of the test's own, answers as set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from click.testing import CliRunner
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from hermesd.__main__ import cli
from hermesd.api.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    agent_pb2,
    agent_pb2_grpc,
    tool_pb2,
    tool_pb2_grpc,
)


class Double:
    """`answers[rpc]`: a response, a list of them for a stream, a function of the request, or a Refusal."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.answers: dict[str, Any] = {}
        self.requests: list[Any] = []
        self.metadata: list[dict[str, Any]] = []

    @property
    def last(self) -> Any:
        return self.requests[-1]

    def answer(self, rpc: str, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        answer = self.answers[rpc]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Refusal):
            context.set_trailing_metadata((("grpc-status-details-bin", answer.details()),))
            context.abort(answer.code, answer.message)
        return answer

    def run(self, *words: str, stdin: str = "") -> Ran:
        """`hermesd ctl WORDS` with this double as its daemon."""
        return run("ctl", "--address", self.address, *words, stdin=stdin)


class Refusal:
    """A gRPC error as the daemon gives it, with its ErrorInfo."""

    def __init__(self, code: grpc.StatusCode, message: str, remedy: str = "") -> None:
        self.code = code
        self.message = message
        self.remedy = remedy

    def details(self) -> bytes:
        info = ErrorInfo(reason="TEST", domain="hermesd", metadata={"remedy": self.remedy})
        packed = AnyMessage()
        packed.Pack(info)
        return Status(code=self.code.value[0], message=self.message, details=[packed]).SerializeToString()


class Ran:
    """What a command left behind."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def run(*words: str, stdin: str = "") -> Ran:
    """One `hermesd` command in this process."""
    result = CliRunner().invoke(cli, list(words), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


@contextmanager
def serving(folder: Path) -> Iterator[Double]:
    """A double that listens in `folder`."""
    double = Double(f"unix:{folder / 'd.sock'}")
    pool = ThreadPoolExecutor(4)
    server = grpc.server(pool)
    admin: Any = type(
        "Admin", (admin_pb2_grpc.AdminServiceServicer,), _methods(double, admin_pb2, "AdminService")
    )
    tool: Any = type("Tool", (tool_pb2_grpc.ToolServiceServicer,), _methods(double, tool_pb2, "ToolService"))
    agent: Any = type(
        "Agent", (agent_pb2_grpc.AgentServiceServicer,), _methods(double, agent_pb2, "AgentService")
    )
    admin_pb2_grpc.add_AdminServiceServicer_to_server(admin(), server)
    agent_pb2_grpc.add_AgentServiceServicer_to_server(agent(), server)
    tool_pb2_grpc.add_ToolServiceServicer_to_server(tool(), server)
    server.add_insecure_port(double.address)
    server.start()
    try:
        yield double
    finally:
        server.stop(None).wait()
        pool.shutdown()


def _methods(double: Double, module: Any, service: str) -> dict[str, Callable[..., Any]]:
    methods: dict[str, Callable[..., Any]] = {}
    for method in module.DESCRIPTOR.services_by_name[service].methods:

        def unary(_self: Any, request: Any, context: grpc.ServicerContext, rpc: str = method.name) -> Any:
            return double.answer(rpc, request, context)

        def stream(_self: Any, request: Any, context: grpc.ServicerContext, rpc: str = method.name) -> Any:
            yield from double.answer(rpc, request, context)

        methods[method.name] = stream if method.server_streaming else unary
    return methods
