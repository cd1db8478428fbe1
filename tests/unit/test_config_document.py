"""Bad input gets a clear answer: place, reason and remedy, never another exception."""

from __future__ import annotations

import time

import pytest

from hermesd.config.document import MAX_BYTES, read_document
from hermesd.errors import ConfigError, PluginError, Rejection


def refusal(data: bytes | str, file: str = "a.yaml") -> Rejection:
    raw = data.encode() if isinstance(data, str) else data
    with pytest.raises(ConfigError) as caught:
        read_document(raw, file)
    (rejection,) = caught.value.rejections
    assert rejection.remedy
    assert rejection.file == file
    return rejection


def value(text: str, file: str = "a.yaml") -> object:
    return read_document(text.encode(), file).value


@pytest.mark.promise("CFG-2")
@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("a:\n\tb: 1\n", 2, 1, "a tab is used for indentation"),
        ("a: 1\nb:\n  c: x\n\td: 2\n", 4, 1, "a tab is used for indentation"),
        ("a: 1\nb: 2\na: 3\n", 3, 1, "the key 'a' stands here twice, first on line 1"),
        ("a: {b: 1, b: 2}", 1, 11, "the key 'b' stands here twice"),
        ("x:\n  - y: 1\n    y: 2\n", 3, 5, "the key 'y' stands here twice, first on line 2"),
        ("v: on", 1, 4, "on is a truth value to some readers"),
        ("c: NO", 1, 4, "NO is a truth value to some readers"),
        ("c: Yes", 1, 4, "Yes is a truth value"),
        ("c: [a, off]", 1, 8, "off is a truth value"),
        ("t: 22:22", 1, 4, "22:22 is a number in base 60"),
        ("m: 0777", 1, 4, "0777 is a number to some readers"),
        ("m: 0x1F", 1, 4, "0x1F is a number to some readers"),
        ("m: 0b101", 1, 4, "0b101 is a number to some readers"),
        ("m: 1_000", 1, 4, "1_000 is a number to some readers"),
        ("m: .inf", 1, 4, ".inf is no finite number"),
        ("m: .NaN", 1, 4, ".NaN is no finite number"),
        ("m: 1e999", 1, 4, "the number is too large"),
        ("m: " + "9" * 5000, 1, 4, "a number of 5000 digits"),
        ("m: =", 1, 4, "= has a meaning of its own"),
        ("<<: {a: 1}", 1, 1, "merge keys (<<) are not read"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, 3, "merge keys (<<) are not read"),
        ("a: !!python/object:os.system x", 1, 4, "the tag !!python/object:os.system is not read"),
        ("a: !!python/object/apply:os.system [x]", 1, 4, "is not read"),
        ("a: !secret x", 1, 4, "the tag !secret is not read"),
        ("a: !!int '3'", 1, 4, "the tag !!int is not read"),
        ("a: !!binary aGk=", 1, 4, "the tag !!binary is not read"),
        ("a: 1\n---\nb: 1\n", 2, 1, "a second document begins here"),
        ("1: a", 1, 1, "the key 1 is no text"),
        ("true: a", 1, 1, "the key true is no text"),
        ("null: a", 1, 1, "the key null is no text"),
        ("1.5: a", 1, 1, "the key 1.5 is no text"),
        ("~: a", 1, 1, "the key ~ is no text"),
        ("? \n: a", 1, 2, "the key null is no text"),
        ("? [a]\n: b", 1, 3, "a key must be a text"),
        ("? {a: 1}\n: b", 1, 3, "a key must be a text"),
        ("a: *q", 1, 4, "the alias *q has no anchor"),
        ("a: &x {b: *x}", 1, 11, "the alias *x stands inside its own anchor"),
        ("[" * 70 + "]" * 70, 1, 65, "nests deeper than 64 levels"),
        ("- " * 70 + "a", 1, 129, "nests deeper than 64 levels"),
        ("x: [a, b\ny: 1\n", 2, 2, "is no YAML"),
        ('a: "x', 1, 6, "is no YAML: found unexpected end of stream"),
        ("a: b: c", 1, 5, "is no YAML: mapping values are not allowed"),
        ("a: @x", 1, 4, "is no YAML"),
        ("a: {b: ${C}}", 1, 9, "is no YAML"),
        ("a: \x1b[0m", 1, 4, "holds the control character U+001B"),
        ("名: 1\n字: \x07", 2, 4, "holds the control character U+0007"),
        ('a: "\\ud800"', 1, 7, "is no YAML"),
    ],
)
def test_yaml_that_bites_is_refused_at_its_place(text: str, line: int, column: int, reason: str) -> None:
    rejection = refusal(text)
    assert reason in rejection.reason
    assert (rejection.line, rejection.column) == (line, column)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7fELF\0\0", "is a binary file"),
        ("a: 1\n".encode("utf-16"), "is encoded in UTF-16"),
        ("a: 1\n".encode("utf-32"), "is encoded in UTF-32"),
        (b"a: \xff\n", "holds bytes that are no UTF-8 (0xff)"),
        ("名: \n".encode("gb18030"), "holds bytes that are no UTF-8"),
        (b"a" * (10 * 1024 * 1024), "is larger than 1 MiB"),
        (b"%TAG !a! b\n" * 1000, "holds too many %TAG directives"),
    ],
)
def test_bytes_that_are_no_text_are_named_for_what_they_are(data: bytes, reason: str) -> None:
    assert reason in refusal(data).reason


@pytest.mark.parametrize("text", ["a: 1\r\nb: 名\r\n", "\ufeffa: 1\nb: 名\n"])
def test_the_marks_of_other_editors_are_read_as_if_they_were_not_there(text: str) -> None:
    assert value(text) == {"a": 1, "b": "名"}


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "\ufeff"])
def test_an_empty_text_is_told_from_a_text_that_says_null(text: str) -> None:
    document = read_document(text.encode(), "a.yaml")
    assert document.is_empty
    assert document.value is None
    assert not read_document(b"null", "a.yaml").is_empty


def test_plain_scalars_are_the_types_of_json_and_nothing_more() -> None:
    text = (
        "i: -12\nf: 2.50\ne: 1e3\nt: true\nn: ~\ns: hello\nd: 2024-01-01\nip: 10.0.0.1\n"
        "a: 127.0.0.1:80\n"
        "v: 1.2.3\nq: 'on'\nz: \"22:22\"\nw: !!str 1.10\ndash: -x\nplus: +x\non: key\nplain: y\nhex: 12ab\n"
    )
    assert value(text) == {
        "i": -12, "f": 2.5, "e": 1000.0, "t": True, "n": None, "s": "hello", "d": "2024-01-01",
        "ip": "10.0.0.1", "a": "127.0.0.1:80", "v": "1.2.3", "q": "on", "z": "22:22",
        "w": "1.10", "dash": "-x", "plus": "+x",
        "on": "key", "plain": "y", "hex": "12ab",
    }  # fmt: skip


def test_aliases_work_within_bounds() -> None:
    assert value("a: &x {b: [1, 2]}\nc: *x\nd: &s text\ne: *s\n") == {
        "a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": "text", "e": "text",
    }  # fmt: skip


@pytest.mark.promise("CFG-2")
def test_an_alias_bomb_is_refused_before_it_costs_anything() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for code in range(ord("b"), ord("z")):
        lines.append(f"{chr(code)}: &{chr(code)} [{', '.join([f'*{chr(code - 1)}'] * 9)}]")
    started = time.perf_counter()
    rejection = refusal("\n".join(lines))
    assert "the aliases expand to far more than the file holds" in rejection.reason
    assert time.perf_counter() - started < 1


def test_a_long_text_repeated_by_aliases_counts_by_its_length() -> None:
    text = "a: &a " + "x" * 100_000 + "\nb: [*a, *a, *a, *a]\n"
    assert "the aliases expand" in refusal(text).reason


def test_aliases_cannot_nest_deeper_than_the_text_may() -> None:
    text = "a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 40 + "*a" + "]" * 40 + "\n"
    assert "nests deeper" in refusal(text).reason


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ('{"a": 1,\n "a": 2}', 2, 2, "the key 'a' stands here twice, first on line 1"),
        ("[1,\n NaN]", 2, 2, "NaN is no finite number"),
        ("[-Infinity]", 1, 2, "-Infinity is no finite number"),
        ("[1e999]", 1, 2, "the number is too large"),
        ("1" * 5000, 1, 1, "a number of 5000 digits"),
        ("[" * 70 + "]" * 70, 1, 65, "nests deeper than 64 levels"),
        ("[" * 100_000, 1, 65, "nests deeper than 64 levels"),
        ('{"a": "\\ud800"}', 1, 7, "half of a character"),
        ('{"a": 1', 1, 8, "is no JSON"),
        ("{a: 1}", 1, 2, "is no JSON"),
        ('{"a": 1} x', 1, 10, "is no JSON"),
    ],
)
def test_json_is_refused_for_the_same_reasons(text: str, line: int, column: int, reason: str) -> None:
    rejection = refusal(text, "a.json")
    assert reason in rejection.reason
    assert (rejection.line, rejection.column) == (line, column)


def test_json_may_be_indented_with_tabs_and_may_be_empty() -> None:
    assert value('{\n\t"a":\t[1, "\\ud83d\\ude00"]\n}', "a.json") == {"a": [1, "😀"]}
    assert read_document(b"  \n", "a.json").is_empty


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.yaml", "a: 1\nb:\n  - x\n  - c: 2\n    名: 3\n"),
        ("a.json", '{"a": 1,\n"b":\n  [ "x",\n  { "c": 2,\n    "名": 3}]}'),
    ],
)
def test_every_key_and_item_has_its_place(file: str, text: str) -> None:
    document = read_document(text.encode(), file)
    assert document.place(("a",)) == (1, 1 if file.endswith("yaml") else 2)
    assert document.place(("b",))[0] == 2
    assert document.place(("b", 0)) == (3, 5)
    assert document.place(("b", 1, "名")) == (5, 5)
    assert document.place(("b", 1, "名", "deeper", 0)) == (5, 5)
    assert document.place(("nowhere",)) == (1, 1)
    assert document.place(()) == (1, 1)


def test_the_error_is_of_the_class_and_under_the_name_that_was_asked_for() -> None:
    with pytest.raises(PluginError) as caught:
        read_document(b"a: [", "plugin.yaml", name="orders", error=PluginError)
    assert caught.value.rejections[0].name == "orders"


def test_a_text_of_the_largest_size_is_read() -> None:
    text = b"a: " + b"x" * (MAX_BYTES - 3)
    assert read_document(text, "a.yaml").value == {"a": "x" * (MAX_BYTES - 3)}
    with pytest.raises(ConfigError, match="larger than 4 KiB"):
        read_document(text, "a.yaml", max_bytes=4096)


@pytest.mark.parametrize(
    "text", ['"\\e[31m": 1\n"\\e[31m": 2\n', "a: !%1b[31m x\n", '"\\u202e": 1\n"\\u202e": 2\n']
)
def test_a_message_never_holds_what_a_terminal_would_obey(text: str) -> None:
    assert str(refusal(text)).isprintable()


def test_a_message_is_short_whatever_it_is_about() -> None:
    assert len(str(refusal("x: 1_" + "0" * 100_000))) < 1200
    assert len(str(refusal(f"{'k' * 1000}: 1\n{'k' * 1000}: 1\n"))) < 1200
