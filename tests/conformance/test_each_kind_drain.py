"""A stop while every kind works: what can end ends, what cannot is cut and told."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kind import KINDS, Kind, Stage
from tests.harness import Home, eventually


class _Waiting(threading.Thread):
    """A call that waits for long, in flight when `begun` is set."""

    def __init__(self, stage: Stage, kind: Kind, tool: str, **arguments: Any) -> None:
        super().__init__(daemon=True)
        self.stage, self.name_of_tool, self.arguments = stage, f"{kind.plugin}.{tool}", arguments
        self.begun = threading.Event()
        self.result: Any = None

    def run(self) -> None:
        with self.stage.daemon.client() as client:
            for event in client.stream_call_tool(self.name_of_tool, self.arguments, timeout_s=30):
                if event.HasField("progress"):
                    self.begun.set()
                if event.HasField("result"):
                    self.result = event.result


@pytest.mark.promise("CNF-11")
def test_a_stop_lets_calls_end_and_cuts_those_that_do_not(tmp_path: Path) -> None:
    stage = Stage(Home(), drain_timeout_s=1.5)
    try:
        for kind in KINDS:  # so that every worker runs
            assert stage.call(kind, "act_read", outcome="ok").ok
        long = [_Waiting(stage, kind, "wait_long", path=str(tmp_path / kind.plugin)) for kind in KINDS]
        short = [_Waiting(stage, kind, "tell_progress", times=40) for kind in KINDS]
        for each in (*long, *short):
            each.start()
        assert all(each.begun.wait(10) for each in (*long, *short))
        assert stage.daemon.stop() == 0
        for each in (*long, *short):
            each.join(10)
        assert [each.result.code for each in short] == ["OK"] * len(KINDS)
        assert {each.result.code for each in long} == {"UNAVAILABLE"}
        assert {each.result.effect for each in long} == {"unknown"}
        for kind in KINDS:
            note = tmp_path / kind.plugin
            assert eventually(note.exists, what=f"{kind} to be told")
            assert note.read_text() == "cancelled=True"
    finally:
        stage.close()
