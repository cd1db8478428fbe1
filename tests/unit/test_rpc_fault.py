"""From errors to statuses."""

from __future__ import annotations

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from hermesd import errors
from hermesd.errors import ConfigError, FellBehindError, HermesdError, NotFoundError, Rejection
from hermesd.rpc import fault


def kinds() -> list[type[HermesdError]]:
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    return [each for each in found if issubclass(each, HermesdError) and each is not HermesdError]


@pytest.mark.parametrize("kind", kinds())
def test_every_error_of_ours_has_a_status(kind: type[HermesdError]):
    error = kind([Rejection("a", "b")]) if issubclass(kind, errors.RejectedError) else kind("x")  # type: ignore[arg-type]
    assert fault.status_code(error) is not grpc.StatusCode.INTERNAL


def test_an_error_without_a_status_is_internal():
    assert fault.status_code(HermesdError("x")) is grpc.StatusCode.INTERNAL


def test_the_reason_is_the_class_in_capitals():
    assert fault.reason(FellBehindError("x")) == "FELL_BEHIND"
    assert fault.reason(NotFoundError("x")) == "NOT_FOUND"
    assert fault.reason(ConfigError([Rejection("a", "b")])) == "CONFIG"


def test_details_hold_reason_domain_and_remedy():
    ((key, data),) = fault.trailing(
        grpc.StatusCode.ABORTED, "lost", "CONFLICT", {"remedy": "读", "empty": ""}
    )
    status = Status.FromString(data)
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (key, status.code, status.message) == ("grpc-status-details-bin", 10, "lost")
    assert (info.reason, info.domain, dict(info.metadata)) == ("CONFLICT", "hermesd", {"remedy": "读"})


def test_a_message_travels_as_one_bounded_encodable_line():
    assert fault.wire_text("a\n  b\ud800") == "a b?"
    assert len(fault.wire_text("文" * 5000)) == fault.MAX_MESSAGE
