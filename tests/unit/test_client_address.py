"""Addresses, and which one is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesd.client.address import choose_address, parse_address
from hermesd.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("unix:/run/h.sock", "unix:/run/h.sock"),
        ("unix:///run/h.sock", "unix:/run/h.sock"),
        ("/run/h.sock", "unix:/run/h.sock"),
        ("unix:/运行/h.sock", "unix:/运行/h.sock"),
        ("unix:/a/../b", "unix:/b"),
        ("127.0.0.1:7443", "127.0.0.1:7443"),
        ("[::1]:7443", "[::1]:7443"),
        ("host.example:1", "host.example:1"),
    ],
)
def test_addresses_are_written_as_people_write_them(text: str, target: str):
    assert parse_address(text).target == target


@pytest.mark.parametrize(
    "text",
    ["", "unix:", "host", "host:", ":1", "::1:5", "host:70000", "host:-1", "host:x", "unix:/a\0b", "h:١"],
)
def test_what_is_no_address_is_refused_with_an_example(text: str):
    with pytest.raises(InvalidRequestError) as caught:
        parse_address(text)
    assert "127.0.0.1:7443" in caught.value.remedy


@given(st.text(max_size=200))
def test_no_text_does_worse_than_being_refused(text: str):
    try:
        address = parse_address(text)
    except InvalidRequestError:
        return
    assert address.target


def test_only_this_machine_reaches_a_loopback_address():
    for each in ("unix:/a", "127.0.0.5:1", "localhost:1", "[::1]:1"):
        assert parse_address(each).is_loopback
    for each in ("0.0.0.0:1", "[::]:1", "host:1"):
        assert not parse_address(each).is_loopback


def test_the_address_given_wins_over_the_environment_and_that_over_the_places(tmp_path: Path):
    environ = {"HERMESD_ADDRESS": "unix:/env", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert str(choose_address("unix:/given", environ).address) == "unix:/given"
    assert str(choose_address(None, environ).address) == "unix:/env"
    assert choose_address("", environ).tried == ("unix:/env",)


def test_the_first_place_that_exists_is_meant(tmp_path: Path):
    (tmp_path / "hermesd").mkdir()
    (tmp_path / "hermesd" / "hermesd.sock").touch()
    environ = {"RUNTIME_DIRECTORY": "/nowhere", "XDG_RUNTIME_DIR": str(tmp_path)}
    choice = choose_address(None, environ)
    assert str(choice.address) == f"unix:{tmp_path}/hermesd/hermesd.sock"
    assert len(choice.tried) == 3
