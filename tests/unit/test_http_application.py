"""What the HTTP edge answers, without a socket."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from starlette.requests import Request

from hermesd.http.application import is_local


def _request(client: str | None, host: str, headers: Mapping[str, str] | None = None) -> Request:
    every = {"host": host, **(headers or {})}
    return Request(
        {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": "/metrics",
            "query_string": b"",
            "server": ("127.0.0.1", 7480),
            "client": (client, 5555) if client else None,
            "headers": [(key.encode(), value.encode()) for key, value in every.items()],
        }
    )


@pytest.mark.parametrize(
    ("client", "host"),
    [("127.0.0.1", "127.0.0.1:7480"), ("127.0.0.1", "localhost:7480"), ("::1", "[::1]:7480")],
)
def test_a_client_on_this_machine_is_local(client: str, host: str) -> None:
    assert is_local(_request(client, host))


@pytest.mark.parametrize(
    ("client", "host", "headers"),
    [
        ("10.0.0.9", "127.0.0.1:7480", {}),
        (None, "127.0.0.1:7480", {}),
        ("127.0.0.1", "evil.example:7480", {}),
        ("127.0.0.1", "127.0.0.1:7480", {"x-forwarded-for": "10.0.0.9"}),
        ("127.0.0.1", "127.0.0.1:7480", {"forwarded": "for=10.0.0.9"}),
    ],
)
def test_neither_a_proxy_nor_a_rebound_name_makes_a_stranger_local(
    client: str | None, host: str, headers: Mapping[str, str]
) -> None:
    assert not is_local(_request(client, host, headers))
