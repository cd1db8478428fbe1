"""Addresses: how they are written, and which one is meant when none is given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from hermesd.config.places import client_addresses
from hermesd.errors import InvalidRequestError

#: sun_path of Linux holds 108 bytes, one of them the final zero.
MAX_UNIX_PATH = 107


@dataclass(frozen=True, slots=True)
class Address:
    """A unix socket (`path`) or TCP (`host`, `port`)."""

    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def is_unix(self) -> bool:
        return bool(self.path)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.is_unix or self.host in ("localhost", "::1") or self.host.startswith("127.")

    @property
    def target(self) -> str:
        """As gRPC wants it."""
        if self.is_unix:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.target


def parse_address(text: str) -> Address:
    """`unix:PATH`, `unix:///PATH`, an absolute PATH, `HOST:PORT` or `[IPV6]:PORT`.

    InvalidRequestError says what is wrong with anything else.
    """
    remedy = "write unix:/path/to/hermesd.sock or 127.0.0.1:7443"
    if text.startswith(("unix:", "/")):
        path = text.removeprefix("unix:").removeprefix("//")
        if not path or "\0" in path:
            raise InvalidRequestError(f"address {text!r} has no path", remedy=remedy)
        path = os.path.abspath(path)
        if len(os.fsencode(path)) > MAX_UNIX_PATH:
            raise InvalidRequestError(
                f"address {text!r} is longer than the {MAX_UNIX_PATH} bytes that a unix socket can have",
                remedy="use a shorter path",
            )
        return Address(path=path)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidRequestError(f"address {text!r} is neither a unix socket nor HOST:PORT", remedy=remedy)
    return Address(host=host, port=int(port))


@dataclass(frozen=True, slots=True)
class Choice:
    """The address that was chosen, and all that were looked at."""

    address: Address
    tried: tuple[str, ...]


def choose_address(explicit: str | None, environ: Mapping[str, str]) -> Choice:
    """The address given, else HERMESD_ADDRESS, else the first usual place where a socket is.

    Where there is none the first place is chosen: connecting fails and names all of them.
    """
    given = explicit or environ.get("HERMESD_ADDRESS", "")
    if given:
        address = parse_address(given)
        return Choice(address, (str(address),))
    candidates = [parse_address(each) for each in client_addresses(environ)]
    tried = tuple(str(each) for each in candidates)
    for each in candidates:
        if os.path.exists(each.path):
            return Choice(each, tried)
    return Choice(candidates[0], tried)
