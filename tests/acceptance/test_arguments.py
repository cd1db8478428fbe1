"""What a model nearly says, from outside: read as it was meant, told, or handed to the user."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness import Daemon, Home, eventually

CODE = '''
from datetime import date
from hermesd.plugin import tool

@tool(
    side_effects="read",
    parameter_guide={"order_id": "发票右上角"},
    correct=[{"path": "/order_id", "when": {"enum": ["unknown"]}, "do": "clear"}],
)
def query_status(
    order_id: str, day: date | None = None, lines: int = 3, tags: list[str] = []
) -> dict[str, object]:
    """Tells."""
    return {"order": order_id, "day": day and day.isoformat(), "lines": lines, "tags": tags}
'''


ISOLATIONS = {"near": "inprocess", "apart": "process"}


@pytest.mark.promise("ARG-3")
@pytest.mark.promise("ARG-4")
@pytest.mark.promise("ARG-6")
def test_every_kind_of_runtime_gets_arguments_as_they_were_meant(
    home: Home, serve: Callable[..., Daemon]
) -> None:
    trusted = {name: {"follow": True, "isolation": isolation} for name, isolation in ISOLATIONS.items()}
    home.configure(trusted=trusted)
    for name in ISOLATIONS:
        home.plugin(name, CODE)
    daemon = serve()
    for name in ISOLATIONS:
        tool = f"{name}.query_status"
        eventually(lambda name=name: daemon.plugin(name), what=f"{name} to be served")
        with daemon.client() as client:
            read = client.call_tool(
                tool, {"order_id": "单-1", "day": "20261130", "lines": " 12 ", "tags": "快"}
            )
            assert read.ok, read
            assert read.data == {"order": "单-1", "day": "2026-11-30", "lines": 12, "tags": ["快"]}
            assert {each["path"] for each in read.detail["coerced"]} == {"/day", "/lines", "/tags"}

            asked = client.call_tool(tool, {"order_id": "unknown", "lines": "1e3"})
            assert asked.code == "INVALID_ARGUMENT"
            faults = {each["path"]: each for each in asked.detail["faults"]}
            assert faults.keys() == {"/order_id", "/lines"}
            assert (faults["/order_id"]["ask_user"], faults["/order_id"]["hint"]) == (True, "发票右上角")
            assert asked.detail["coerced"] == [
                {"path": "/order_id", "from": "unknown", "to": None, "do": "clear"}
            ]


def test_a_rule_that_cannot_work_is_told_with_its_line(home: Home, serve: Callable[..., Daemon]) -> None:
    home.follow("orders")
    home.plugin("orders", CODE.replace('"/order_id", "when"', '"/oder_id", "when"'))
    daemon = serve()
    rejection = eventually(lambda: daemon.plugin("orders").rejections, what="the rejection")[0]
    assert (
        "correct/0/path: /oder_id is no parameter of this tool, did you mean 'order_id'?" in rejection.reason
    )
    assert rejection.file.endswith("orders.py")
    assert rejection.line > 0
