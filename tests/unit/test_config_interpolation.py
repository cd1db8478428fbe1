"""References are put in once, in scalars, and a missing one names the variable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermesd.config.document import read_document
from hermesd.config.interpolation import Expanded, Interpolation

ENVIRON = {"NAME": "orders", "EMPTY": "", "PORT": "80", "TRICK": "${NAME}", "DB_PASSWORD": "pw", "ZH": "订单"}


def apply(text: str, base: Path = Path("/")) -> tuple[object, list[tuple[object, str, str]]]:
    interpolation = Interpolation(ENVIRON, base)
    return interpolation.apply(read_document(text.encode(), "a.yaml").value), list(interpolation.faults)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${NAME}", "orders"),
        ("a-${NAME}-${ZH}", "a-orders-订单"),
        ("${env:NAME}", "orders"),
        ("${NOPE:-fallback}", "fallback"),
        ("${EMPTY:-fallback}", "fallback"),
        ("${NOPE:-}", ""),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$${NAME}"),
        ("$NAME", "$NAME"),
        ("${TRICK}", "${NAME}"),
        ("${NOPE:-a:-b}", "a:-b"),
    ],
)
def test_a_reference_becomes_its_value(text: str, expected: str) -> None:
    value, faults = apply(f'k: "{text}"')
    assert (value, faults) == ({"k": expected}, [])


@pytest.mark.promise("CFG-5")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${NOPE}", "the environment variable NOPE is not set"),
        ("${EMPTY}", "the environment variable EMPTY is empty"),
        ("${NAME", "a reference is not closed"),
        ("${}", "${} is no reference"),
        ("${A B}", "${A B} is no reference"),
        ("${A:-${B}}", "is no reference"),
        ("${file:}", "${file:} names no file"),
        ("${file:/nowhere/at/all}", "the file /nowhere/at/all cannot be read: No such file or directory"),
        ("${file:/}", "the file / cannot be read"),
        ("${file:/dev/zero}", "the file /dev/zero cannot be read: is a device, not a file"),
    ],
)
def test_a_reference_that_cannot_be_followed_is_a_fault_at_its_key(text: str, problem: str) -> None:
    _, faults = apply(f'a: [{{k: "{text}"}}]')
    ((path, said, remedy),) = faults
    assert path == ("a", 0, "k")
    assert problem in said
    assert remedy


def test_a_file_is_relative_to_the_file_that_names_it_and_is_a_secret(tmp_path: Path) -> None:
    (tmp_path / "令牌").write_text("s3cret\r\n", encoding="utf-8")
    interpolation = Interpolation({}, tmp_path)
    value = interpolation.apply({"k": "Bearer ${file:令牌}"})
    assert value == {"k": "Bearer s3cret"}
    assert isinstance(value, dict)
    assert isinstance(value["k"], Expanded)
    assert value["k"].secret
    assert interpolation.files == [tmp_path / "令牌"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "is empty"), (b"\n", "is empty"), (b"\xff", "no text in UTF-8"), (b"a\0b", "binary"),
     (b"a" * (1024 * 1024 + 1), "larger than 1 MiB")],
)  # fmt: skip
def test_a_file_without_a_usable_text_is_a_fault(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "f").write_bytes(content)
    _, faults = apply('k: "${file:f}"', tmp_path)
    assert problem in faults[0][1]


def test_a_named_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    _, faults = apply('k: "${file:pipe}"', tmp_path)
    assert "is a pipe, not a file" in faults[0][1]


def test_a_variable_whose_name_speaks_of_a_secret_is_one() -> None:
    value, _ = apply("k: ${DB_PASSWORD}\nn: ${NAME}")
    assert isinstance(value, dict)
    assert value["k"].secret
    assert not value["n"].secret


def test_only_a_whole_reference_without_quotes_is_read_as_if_its_value_stood_there() -> None:
    value, _ = apply("plain: ${PORT}\nquoted: '${PORT}'\npart: ${PORT}0\nname: ${NAME}")
    assert isinstance(value, dict)
    assert {key: each.settled() for key, each in value.items()} == {
        "plain": 80, "quoted": "80", "part": "800", "name": "orders",
    }  # fmt: skip


def test_keys_and_numbers_are_left_alone() -> None:
    value, faults = apply('"${NAME}": 3\nx: [1, true, null]')
    assert (value, faults) == ({"${NAME}": 3, "x": [1, True, None]}, [])
