"""Which addresses the HTTP edge takes."""

from __future__ import annotations

import os
import socket

import pytest

from hermesd.errors import ConfigError, LockedError
from hermesd.http.address import bind, parse


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:7480", ("127.0.0.1", 7480)), ("[::1]:0", ("::1", 0)), ("localhost:80", ("localhost", 80))],
)
def test_an_address_is_host_and_port(address: str, expected: tuple[str, int]) -> None:
    assert parse(address) == expected


@pytest.mark.parametrize(
    "address", ["", "7480", ":7480", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "h:²"]
)
def test_a_malformed_address_is_refused_with_the_right_form(address: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.http.*127\.0\.0\.1:7480"):
        bind(address)


def test_an_address_that_is_not_loopback_is_refused() -> None:
    with pytest.raises(ConfigError, match="not loopback"):
        bind("0.0.0.0:0")


def test_an_address_of_another_machine_is_refused_not_raised_as_it_is() -> None:
    with pytest.raises(ConfigError, match="not known"):
        bind("no-such-host.invalid:80")


@pytest.mark.promise("OPS-10")
def test_an_address_in_use_names_who_holds_it() -> None:
    """grpc#16920: two servers must never share one address silently."""
    with bind("127.0.0.1:0") as first:
        port = first.getsockname()[1]
        with pytest.raises(LockedError, match=rf"in use by process {os.getpid()} \("):
            bind(f"127.0.0.1:{port}")
        assert first.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
