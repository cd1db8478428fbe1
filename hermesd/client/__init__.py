"""The Python client: `Client` blocks, `AsyncClient` does not."""

from hermesd.client.async_client import AsyncClient
from hermesd.client.client import Client
from hermesd.client.error import (
    BusyError,
    ClientError,
    ConnectionLostError,
    DaemonFaultError,
    DeadlineError,
    MissingError,
    NotAllowedError,
    RaceLostError,
    RefusedError,
    ToolFailedError,
    UnreachableError,
    WatchLostError,
)
from hermesd.client.result import CallResult
from hermesd.client.tls import Tls

__all__ = [
    "AsyncClient",
    "BusyError",
    "CallResult",
    "Client",
    "ClientError",
    "ConnectionLostError",
    "DaemonFaultError",
    "DeadlineError",
    "MissingError",
    "NotAllowedError",
    "RaceLostError",
    "RefusedError",
    "Tls",
    "ToolFailedError",
    "UnreachableError",
    "WatchLostError",
]
