"""What calls say on their way, and how much of it is kept for a slow reader."""

from __future__ import annotations

import time

import pytest

from hermesd.plugin.valve import LINES_PER_S, PROGRESS_PER_S
from hermesd.runtimes.telling import Telling
from hermesd.serving.saying import MAX_FIELDS, MAX_MESSAGE, bounded

pytestmark = pytest.mark.promise("OUT-9")


def test_long_messages_and_fields_are_cut_and_say_so() -> None:
    short: dict[str, object] = {"message": "m", "fields": {"a": [1, {"b": "c"}]}}
    assert bounded("log", short) is short
    told = bounded("progress", {"done": 1, "message": "m" * 2_000_000})
    assert str(told["message"]).endswith(f"({2_000_000 - MAX_MESSAGE} characters more)")
    assert len(str(told["message"])) < MAX_MESSAGE + 100
    for fields in ({"a": "x" * MAX_FIELDS}, {"x" * MAX_FIELDS: 1}, {"a": [["x" * 1000]] * 20}):
        assert bounded("log", {"message": "m", "fields": fields})["fields"] == {
            "cut": f"more than {MAX_FIELDS} characters"
        }


def test_fields_that_are_much_too_long_are_not_read_to_their_end() -> None:
    fields = {"a": [{"b": "c"}] * 3_000_000}
    began = time.perf_counter()
    assert "cut" in str(bounded("log", {"message": "", "fields": fields}))
    assert time.perf_counter() - began < 0.2


def test_a_tool_that_tells_in_a_loop_is_heard_so_often_and_its_last_word_always() -> None:
    heard: list[tuple[str, dict[str, object]]] = []
    telling = Telling(lambda kind, payload: heard.append((kind, payload)))
    for number in range(20_000):
        telling.tell("progress", {"done": number})
        telling.tell("log", {"message": str(number)})
    telling.end()
    progress = [payload for kind, payload in heard if kind == "progress"]
    lines = [payload for kind, payload in heard if kind == "log"]
    # A slow machine takes more than a second for it.
    assert len(progress) <= 10 * PROGRESS_PER_S
    assert progress[-1] == {"done": 19_999}
    dropped = sum(int(str(each["message"]).split()[0]) for each in lines if "dropped" in str(each["message"]))
    assert len([each for each in lines if "dropped" not in str(each["message"])]) + dropped == 20_000
    assert len(lines) <= 10 * LINES_PER_S
