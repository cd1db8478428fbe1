"""Calls that last, on threads of their own, while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.harness import Daemon, eventually


class Streamed(threading.Thread):
    """A streamed call on a thread of its own; `result` is its last event, `ticks` how many came before."""

    def __init__(self, daemon: Daemon, tool: str, **arguments: Any) -> None:
        super().__init__(daemon=True)
        self._daemon, self._tool, self._arguments = daemon, tool, arguments
        self.ticks = 0
        self.result: Any = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with self._daemon.client() as client:
                for event in client.stream_call_tool(self._tool, self._arguments, timeout_s=60):
                    self.ticks += event.HasField("progress")
                    if event.HasField("result"):
                        self.result = event.result
        except Exception as error:
            self.error = error

    def began(self) -> Streamed:
        self.start()
        eventually(lambda: self.ticks or self.result or self.error, what="the stream's first tick")
        assert self.ticks, (self.result, self.error)
        return self


@contextmanager
def calling(daemon: Daemon, tool: str, **arguments: Any) -> Iterator[list[Any]]:
    """A call on a thread of its own, in flight when the body begins; its result is appended."""
    results: list[Any] = []

    def call() -> None:
        try:
            with daemon.client() as client:
                results.append(client.call_tool(tool, arguments, timeout_s=60))
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=call, daemon=True)
    before = daemon.status().calls.inflight
    thread.start()
    eventually(lambda: results or daemon.status().calls.inflight > before, what="the call to begin")
    yield results
    thread.join(30)
    assert not thread.is_alive()
