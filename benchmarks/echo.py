"""The floor: a bare `grpc.aio` server on a unix socket that answers a fixed message, and nothing else.

It runs in a process of its own, on the same event loop as the daemon: `python -m benchmarks.echo SOCKET
ANSWER_FILE`. Requests and answers have the sizes of the daemon's own and are never parsed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import uvloop

from tests.harness import ROOT, environment, eventually

METHOD = "/benchmarks.Echo/Call"


class Echo:
    """The echo server's process; the answer to everything is `answer`."""

    def __init__(self, directory: Path, answer: bytes) -> None:
        self.socket = directory / "e"
        message = directory / "answer"
        message.write_bytes(answer)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.echo", str(self.socket), str(message)],
            env=environment(),
            cwd=ROOT,
        )
        eventually(self.socket.exists, what="the echo server's socket")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)


async def _serve(socket: str, answer: bytes) -> None:
    async def call(request: bytes, context: Any) -> bytes:
        return answer

    server = grpc.aio.server()
    handlers: dict[str, Any] = {"Call": grpc.unary_unary_rpc_method_handler(call)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("benchmarks.Echo", handlers),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    sys.setswitchinterval(0.001)  # as the daemon does
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_serve(sys.argv[1], Path(sys.argv[2]).read_bytes()))
        except KeyboardInterrupt:
            sys.exit(0)
