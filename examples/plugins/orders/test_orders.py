"""Tests of the orders plugin: they need no daemon. Run them with pytest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesd.plugin import ToolError
from hermesd.plugin.testing import Recorder, call, load

orders = load(Path(__file__).parent)
book = load(Path(__file__).parent, "book.py")


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    connection = book.OrderBook("token")
    yield Recorder(shared={"book": connection}, tools={"text.count_stats": {"characters": 9}})
    connection.close()


def test_an_order_tells_where_it_is(recorder: Recorder) -> None:
    found = call(orders.query_status, recorder, order_id="A-2", detail="full")
    assert (found["state"].value, found["city"]) == ("open", "上海")
    assert recorder.logs[0]["message"] == "looked up"


def test_what_has_been_sent_stays_as_it_is(recorder: Recorder) -> None:
    with pytest.raises(ToolError, match="offer a return") as raised:
        call(orders.change_address, recorder, order_id="A-1", address={"street": "x", "city": "y"})
    assert raised.value.effect == "none"


def test_an_open_order_can_go_elsewhere(recorder: Recorder) -> None:
    call(orders.change_address, recorder, order_id="A-3", address={"street": "Via Po 1", "city": "Torino"})
    assert call(orders.query_status, recorder, order_id="A-3", detail="full")["city"] == "Torino"


def test_a_sum_tells_how_far_it_is(recorder: Recorder) -> None:
    assert str(call(orders.sum_orders, recorder, states=["open"])["open"]) == "111.95"
    assert recorder.progress[-1] == {"done": 3, "total": 3, "message": "A-3"}


def test_a_note_is_measured_by_another_tool(recorder: Recorder) -> None:
    assert call(orders.measure_note, recorder, order_id="A-2") == 9
    assert recorder.calls == [("text.count_stats", {"text": "请放在门口。谢谢！"})]
