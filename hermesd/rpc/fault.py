"""From an exception to a gRPC status with google.rpc.ErrorInfo. Nothing else of it reaches a caller."""

from __future__ import annotations

import re
from collections.abc import Mapping

import grpc

from hermesd.errors import (
    AlreadyExistsError,
    ConflictError,
    DeniedError,
    DrainingError,
    ExhaustedError,
    FellBehindError,
    HermesdError,
    InvalidRequestError,
    LauncherError,
    LockedError,
    NotFoundError,
    PreconditionError,
    RejectedError,
    StoreError,
    UnauthenticatedError,
    UnsafePathError,
)

DOMAIN = "hermesd"
DETAILS_KEY = "grpc-status-details-bin"
MAX_MESSAGE = 1000
MAX_METADATA = 1000


class UnsupportedError(HermesdError):
    """The request uses a field whose feature this build lacks."""


#: The first class that an error is an instance of decides.
CODES: tuple[tuple[type[HermesdError], grpc.StatusCode], ...] = (
    (NotFoundError, grpc.StatusCode.NOT_FOUND),
    (InvalidRequestError, grpc.StatusCode.INVALID_ARGUMENT),
    (PreconditionError, grpc.StatusCode.FAILED_PRECONDITION),
    (ConflictError, grpc.StatusCode.ABORTED),
    (AlreadyExistsError, grpc.StatusCode.ALREADY_EXISTS),
    (DeniedError, grpc.StatusCode.PERMISSION_DENIED),
    (FellBehindError, grpc.StatusCode.OUT_OF_RANGE),
    (ExhaustedError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (DrainingError, grpc.StatusCode.UNAVAILABLE),
    (StoreError, grpc.StatusCode.UNAVAILABLE),
    (LauncherError, grpc.StatusCode.UNAVAILABLE),
    (RejectedError, grpc.StatusCode.FAILED_PRECONDITION),
    (LockedError, grpc.StatusCode.FAILED_PRECONDITION),
    (UnsafePathError, grpc.StatusCode.FAILED_PRECONDITION),
    (UnsupportedError, grpc.StatusCode.UNIMPLEMENTED),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
)

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def status_code(error: HermesdError) -> grpc.StatusCode:
    """The gRPC status of an error; INTERNAL for a class that nobody gave one."""
    for kind, code in CODES:
        if isinstance(error, kind):
            return code
    return grpc.StatusCode.INTERNAL


def reason(error: HermesdError) -> str:
    """The machine-readable reason: FellBehindError is FELL_BEHIND."""
    return _WORD.sub("_", type(error).__name__.removesuffix("Error")).upper()


def trailing(
    code: grpc.StatusCode, message: str, why: str, metadata: Mapping[str, str]
) -> tuple[tuple[str, bytes], ...]:
    """Trailing metadata with a google.rpc.Status that holds one ErrorInfo; empty metadata is left out."""
    from google.protobuf.any_pb2 import Any  # noqa: PLC0415 - 31 ms that only a failure pays
    from google.rpc.error_details_pb2 import ErrorInfo  # noqa: PLC0415
    from google.rpc.status_pb2 import Status  # noqa: PLC0415

    packed = Any()
    known = {key: wire_text(value, MAX_METADATA) for key, value in metadata.items() if value}
    packed.Pack(ErrorInfo(reason=why, domain=DOMAIN, metadata=known))
    status = Status(code=code.value[0], message=message, details=[packed])
    return ((DETAILS_KEY, status.SerializeToString()),)


def wire_text(text: str, limit: int = MAX_MESSAGE) -> str:
    """`text` as it may travel: encodable, one line, bounded."""
    encodable = text.encode("utf-8", "replace").decode("utf-8")
    line = " ".join(encodable.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
