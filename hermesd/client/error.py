"""What can go wrong for a client, grouped by what its user can do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from hermesd.errors import HermesdError

if TYPE_CHECKING:
    from hermesd.client.result import CallResult

DETAILS_KEY = "grpc-status-details-bin"
#: How gRPC says that no connection was ever made: the request has not left. If the wording changes,
#: a call is no longer tried again, which is the safe side.
NEVER_CONNECTED = "failed to connect to all addresses"


class ClientError(HermesdError):
    """Base of all errors of the client.

    `code` is the name of the gRPC status, `reason` and `metadata` are the daemon's own words (ErrorInfo).
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        code: str = "",
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})


class UnreachableError(ClientError):
    """No daemon answers; nothing was sent. `addresses` are those that were tried."""

    addresses: tuple[str, ...] = ()


class ConnectionLostError(ClientError):
    """The connection broke after the request was sent: whether it was carried out is not known."""


class NotAllowedError(ClientError):
    """The caller is not known, or may not do that."""


class MissingError(ClientError):
    """What was named does not exist, or is not the caller's."""


class RefusedError(ClientError):
    """The request is malformed, not supported by this daemon, or the object is in the wrong state."""


class RaceLostError(ClientError):
    """What the request was based on has changed; read again."""


class WatchLostError(ClientError):
    """The events asked for are no longer kept; read the present state, then watch again."""


class BusyError(ClientError):
    """The daemon takes no such work now: draining, stopping, or full. Try later."""


class DeadlineError(ClientError):
    """No answer came in time: whether the request was carried out is not known."""


class DaemonFaultError(ClientError):
    """The daemon failed at it; its log has the request_id that the message names."""


class ToolFailedError(ClientError):
    """The tool answered an error; `result` has all of it."""

    def __init__(self, result: CallResult) -> None:
        super().__init__(
            f"{result.tool}: {result.code}: {result.message}",
            remedy=str(result.detail.get("remedy", "")),
            code=result.code,
            reason=str(result.detail.get("reason", "")),
        )
        self.result = result


_KINDS: Mapping[str, type[ClientError]] = {
    "UNAUTHENTICATED": NotAllowedError,
    "PERMISSION_DENIED": NotAllowedError,
    "NOT_FOUND": MissingError,
    "INVALID_ARGUMENT": RefusedError,
    "FAILED_PRECONDITION": RefusedError,
    "ALREADY_EXISTS": RefusedError,
    "UNIMPLEMENTED": RefusedError,
    "ABORTED": RaceLostError,
    "OUT_OF_RANGE": WatchLostError,
    "RESOURCE_EXHAUSTED": BusyError,
    "DEADLINE_EXCEEDED": DeadlineError,
    "CANCELLED": ConnectionLostError,
}


def was_never_sent(error: grpc.RpcError) -> bool:
    """Whether the failure proves that the request never left this process."""
    status: Any = error
    if status.code() is not grpc.StatusCode.UNAVAILABLE or _details_bytes(error):
        return False
    return NEVER_CONNECTED in (status.details() or "")


def is_connection_trouble(error: grpc.RpcError) -> bool:
    """UNAVAILABLE that the daemon did not say itself."""
    status: Any = error
    return status.code() is grpc.StatusCode.UNAVAILABLE and not _details_bytes(error)


def client_error(error: grpc.RpcError, tried: Sequence[str]) -> ClientError:
    """The error that a caller sees for a failed RPC."""
    status: Any = error
    code = status.code().name
    message = status.details() or code
    if was_never_sent(error):
        return unreachable(tried, message)
    if is_connection_trouble(error):
        return ConnectionLostError(
            f"the connection to the daemon broke: {message}",
            remedy="look whether it was carried out before you try again",
            code=code,
        )
    reason, metadata = _error_info(error)
    remedy = metadata.pop("remedy", "")
    kind = BusyError if code == "UNAVAILABLE" else _KINDS.get(code, DaemonFaultError)
    return kind(message, remedy=remedy, code=code, reason=reason, metadata=metadata)


def unreachable(tried: Sequence[str], why: str) -> UnreachableError:
    """No daemon at any of the addresses."""
    error = UnreachableError(
        f"no daemon answers at {', '.join(tried)} ({_short(why)})",
        remedy="start it with `hermesd serve`, or name its address with --address or HERMESD_ADDRESS",
        code="UNAVAILABLE",
    )
    error.addresses = tuple(tried)
    return error


def _short(why: str) -> str:
    """The system's own words out of gRPC's long ones."""
    for words in ("No such file or directory", "Connection refused", "Permission denied"):
        if words.lower() in why.lower():
            return words.lower()
    return why[:200]


def _details_bytes(error: grpc.RpcError) -> bytes:
    status: Any = error
    for key, value in status.trailing_metadata() or ():
        if key == DETAILS_KEY:
            return bytes(value)
    return b""


def _error_info(error: grpc.RpcError) -> tuple[str, dict[str, str]]:
    data = _details_bytes(error)
    if not data:
        return "", {}
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - only a failure pays for these
    from google.rpc.error_details_pb2 import ErrorInfo  # noqa: PLC0415
    from google.rpc.status_pb2 import Status  # noqa: PLC0415

    info = ErrorInfo()
    try:
        for each in Status.FromString(data).details:
            if each.Unpack(info):
                return info.reason, dict(info.metadata)
    except DecodeError:
        return "", {}
    return "", {}
