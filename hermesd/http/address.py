"""The HTTP edge's address: what may be listened on, and who holds it already."""

from __future__ import annotations

import errno
import ipaddress
import socket

import psutil

from hermesd.errors import ConfigError, LockedError, Rejection
from hermesd.model.text import clean

_FORM = 'write HOST:PORT, such as "127.0.0.1:7480", or "" for none'


def bind(address: str) -> socket.socket:
    """A listening socket at `HOST:PORT` (`[HOST]:PORT` for IPv6; port 0: any that is free).

    Raises ConfigError for an address that is malformed, unknown or not loopback, and LockedError, naming
    the holder as far as this user may see it, for one that is in use.
    """
    host, port = parse(address)
    try:
        family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise _refused(f"{address!r}: the host is not known ({error})", _FORM) from None
    if not ipaddress.ip_address(target[0]).is_loopback:
        raise _refused(
            f"{address!r} is not loopback: health and metrics would travel in the clear",
            "listen on 127.0.0.1 and let a TLS proxy on this machine face the network",
        )
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Never SO_REUSEPORT: a second daemon would silently take half of the requests.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise LockedError(
                f"{address} is in use by {holder(port)}", remedy="stop it, or choose another server.http"
            ) from None
        raise _refused(f"{address!r} cannot be listened on: {error}", _FORM) from None
    listener.setblocking(False)
    return listener


def parse(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`. Raises ConfigError."""
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65535):
        raise _refused(f"{address!r} is no address", _FORM)
    return host, int(port)


def holder(port: int) -> str:
    """Who listens on a TCP port, for a message: its process id and name where they may be seen."""
    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and getattr(connection.laddr, "port", 0) == port
            if listens and connection.pid:
                return f"process {connection.pid} ({clean(psutil.Process(connection.pid).name(), 100)})"
    except (psutil.Error, OSError):  # only the text of an error depends on it
        return "another process"
    return "another process"


def _refused(reason: str, remedy: str) -> ConfigError:
    return ConfigError([Rejection("server.http", f"server.http: {reason}", remedy)])
