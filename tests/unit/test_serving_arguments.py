"""Arguments that are made to take long."""

from __future__ import annotations

import json
import time

import pytest

from hermesd.model.name import MAX_COMPARED, nearest
from hermesd.serving.arguments import MAX_VALUES, parse_arguments
from hermesd.serving.course import Refused

pytestmark = pytest.mark.promise("HOS-11")


@pytest.mark.parametrize("value", ["1", "[]", '"x"', '"\\""'])
def test_more_values_than_anybody_passes_are_refused_before_they_are_read(value: str) -> None:
    text = f'{{"a": [{",".join([value] * (MAX_VALUES + 2))}]}}'
    with pytest.raises(Refused, match="more than 100000 values"):
        parse_arguments(text)


@pytest.mark.parametrize("said", ["a,b\n" * 500_000, '"a", "b\\' * 200_000])
def test_a_long_text_is_one_value_whatever_it_says(said: str) -> None:
    assert parse_arguments(json.dumps({"a": said})) == {"a": said}


@pytest.mark.parametrize("end", ['"' + '\\"' * 2_000_000, '"\\' * 2_000_000, '"' * 2_000_001, '"x'])
def test_counting_takes_no_longer_whatever_the_text_is(end: str) -> None:
    began = time.perf_counter()
    with pytest.raises(Refused):
        parse_arguments('{"a": [' + "1," * (MAX_VALUES + 2) + end)
    assert time.perf_counter() - began < 2


def test_the_nearest_of_many_names_is_found_in_a_moment() -> None:
    known = [f"orders.query_status_{number:05d}" for number in range(20 * MAX_COMPARED)]
    known.append("weather.get_now")
    began = time.perf_counter()
    assert nearest("wether.get_now", known) == ["weather.get_now"]
    assert nearest("get_now", known) == ["weather.get_now"]
    assert "orders.query_status_01234" in nearest("orders.query_statu_01234", known)
    assert time.perf_counter() - began < 0.5
