"""What a tool raises because a service could not be reached is known for what it is."""

from __future__ import annotations

import errno
import socket
import urllib.error
from email.message import Message
from email.utils import formatdate
from time import time
from types import SimpleNamespace
from typing import Any

import pytest

from hermesd.plugin.failure import answer_of
from hermesd.plugin.fault import ToolCallError, ToolError
from hermesd.plugin.transport import transport_detail

pytestmark = pytest.mark.promise("RES-18")


class ClientError(Exception):
    """As httpx and requests have them: an error of their own, with a response or a cause."""

    def __init__(self, status: int | None = None, **headers: str) -> None:
        super().__init__("failed")
        if status is not None:
            told = {key.replace("_", "-"): value for key, value in headers.items()}
            self.response = SimpleNamespace(status_code=status, headers=told)


def caused(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


def of_urllib(status: int, **headers: str) -> urllib.error.HTTPError:
    message = Message()
    for key, value in headers.items():
        message[key.replace("_", "-")] = value
    error = urllib.error.HTTPError("http://h/", status, "x", message, None)
    error.close()
    return error


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (ConnectionRefusedError(), {"reason": "connection"}),
        (ConnectionResetError("by peer"), {"reason": "connection"}),
        (BrokenPipeError(), {"reason": "connection"}),
        (socket.gaierror(-2, "Name or service not known"), {"reason": "connection"}),
        (OSError(errno.EHOSTUNREACH, "No route to host"), {"reason": "connection"}),
        (TimeoutError(), {"reason": "timeout"}),
        (urllib.error.URLError(ConnectionRefusedError()), {"reason": "connection"}),
        (urllib.error.URLError(TimeoutError()), {"reason": "timeout"}),
        (urllib.error.URLError("unknown url type"), {}),
        (of_urllib(503, Retry_After="2"), {"status": 503, "retry_after_ms": 2000}),
        (of_urllib(404), {"status": 404}),
        (ClientError(502), {"status": 502}),
        (ClientError(429, Retry_After="1"), {"status": 429, "retry_after_ms": 1000}),
        (ClientError(503, Retry_After="soon"), {"status": 503}),
        (ClientError(503, Retry_After="９"), {"status": 503}),
        (ClientError(503, Retry_After="99999999"), {"status": 503, "retry_after_ms": 86_400_000}),
        (caused(ClientError(), ConnectionRefusedError()), {"reason": "connection"}),
        (caused(ClientError(), caused(ClientError(), TimeoutError())), {"reason": "timeout"}),
        (ValueError("no"), {}),
        (FileNotFoundError(errno.ENOENT, "no such file"), {}),
        (SystemExit(503), {}),
    ],
)
def test_clients_of_every_kind_are_understood(error: BaseException, detail: dict[str, Any]) -> None:
    assert transport_detail(error) == detail


def test_a_date_is_a_time_to_wait() -> None:
    found = transport_detail(ClientError(503, Retry_After=formatdate(time() + 100, usegmt=True)))
    assert 97_000 <= found["retry_after_ms"] <= 100_000
    assert transport_detail(ClientError(503, Retry_After=formatdate(0)))["retry_after_ms"] == 0


def test_a_loop_of_causes_ends() -> None:
    first, second = ClientError(), ClientError()
    first.__cause__, second.__cause__ = second, first
    assert transport_detail(first) == {}


def test_an_exception_that_breaks_when_looked_at_says_nothing() -> None:
    class BrokenError(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError("no")

    assert transport_detail(BrokenError()) == {}


def test_an_answer_carries_it() -> None:
    answer = answer_of(ConnectionRefusedError(111, "Connection refused"))
    assert (answer["code"], answer["detail"]) == ("TOOL_ERROR", {"reason": "connection"})
    assert "detail" not in answer_of(ValueError("no"))


def test_a_tool_error_that_was_raised_from_it_carries_it_beside_its_own() -> None:
    error = caused(ToolError("the shop is closed", detail={"shop": 1}), ConnectionRefusedError())
    assert answer_of(error)["detail"] == {"reason": "connection", "shop": 1}
    said = caused(ToolError("wait", detail={"reason": "closed on Sundays"}), ConnectionRefusedError())
    assert answer_of(said)["detail"] == {"reason": "closed on Sundays"}


def test_the_way_of_a_tool_that_was_called_is_not_the_callers() -> None:
    answer = answer_of(ToolCallError("TIMEOUT", "slow"))
    assert (answer["code"], answer["detail"]) == ("DEPENDENCY_FAILED", {"reason": "TIMEOUT"})
