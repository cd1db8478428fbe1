"""A tool's arguments from the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.ctl.arguments import arguments_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=8,
)


def parsed(args: str | None, *words: str, stdin: str = "") -> object:
    return json.loads(arguments_json(args, words, io.StringIO(stdin)))


def test_nothing_said_is_the_empty_object() -> None:
    assert arguments_json(None, [], io.StringIO()) == "{}"


def test_json_alone_goes_as_it_was_written() -> None:
    text = '{ "b": 1.10, "a": 90071992547409931, "b2": "订单" }'
    assert arguments_json(text, [], io.StringIO()) == text


def test_from_a_file_and_from_stdin(tmp_path: Path) -> None:
    file = tmp_path / "参数.json"
    file.write_text('\ufeff{"a": "订单"}', encoding="utf-8")
    assert parsed(f"@{file}") == {"a": "订单"}
    assert parsed("-", stdin='{"a": 1}') == {"a": 1}


def test_words_win_over_the_object() -> None:
    assert parsed('{"a": 1, "b": 2}', "a=x", "c:=[true]") == {"a": "x", "b": 2, "c": [True]}


def test_text_stays_text_whatever_it_looks_like() -> None:
    assert parsed(None, "a=7", "b=a=b:=c", "c=", "url=http://x:80/") == {
        "a": "7",
        "b": "a=b:=c",
        "c": "",
        "url": "http://x:80/",
    }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("[1]", []),
        ("null", []),
        ('{"a": NaN}', []),
        ("{", []),
        ("[" * 100_000, []),
        ("@/nowhere/at/all", []),
        (None, ["word"]),
        (None, ["=value"]),
        (None, ["a:=nonsense"]),
        (None, ["a=1", "a:=2"]),
        (None, ["a=\udcff"]),
        ('{"a": "\udcff"}', []),
    ],
)
def test_what_is_no_object_is_refused(args: str | None, words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        arguments_json(args, words, io.StringIO())


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(click.UsageError, match="UTF-8"):
        arguments_json(f"@{tmp_path / 'x'}", [], io.StringIO())


@given(st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="=:"), min_size=1), JSON))
def test_any_json_value_can_be_said_in_words(values: dict[str, object]) -> None:
    words = [f"{key}:={json.dumps(value)}" for key, value in values.items()]
    assert parsed(None, *words) == values
