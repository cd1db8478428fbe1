"""Files with which a client trusts a daemon, and shows who it is itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from hermesd.client.address import Address
from hermesd.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM. `ca` vouches for the daemon, None: gRPC's own list does. `cert`, `key`: ours."""

    ca: Path | str | None = None
    cert: Path | str | None = None
    key: Path | str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """For a channel. InvalidRequestError names a file that cannot be read."""
        if (self.cert is None) != (self.key is None):
            raise InvalidRequestError("a certificate and its key belong together", remedy="name both")
        return grpc.ssl_channel_credentials(_read(self.ca), _read(self.key), _read(self.cert))


def check_private(address: Address, token: str | None, tls: Tls | None) -> None:
    """InvalidRequestError where a token would cross a network in the clear."""
    if token and tls is None and not address.is_loopback:
        raise InvalidRequestError(
            f"a token would travel to {address} in the clear",
            remedy="name the daemon's authority: Tls(ca=FILE)",
        )


def _read(path: Path | str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidRequestError(f"{path}: {error.strerror}", remedy="name a readable file in PEM") from None
