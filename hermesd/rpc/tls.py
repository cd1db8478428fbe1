"""TLS of the agents' addresses: read once at the start, and again whenever a file was replaced."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from hermesd.errors import PreconditionError

_log = logging.getLogger("hermesd.rpc")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM. With `client_ca` every client needs a certificate of one of its authorities."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.cert, self.key) if self.client_ca is None else (self.cert, self.key, self.client_ca)


class TlsReloader:
    """Credentials that follow their files; while those are half replaced the last good ones serve."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen: tuple[tuple[int, ...], ...] = ()

    def credentials(self) -> Any:
        """For `add_secure_port`. PreconditionError names what cannot be read or used."""
        try:
            self._seen = self._look()
            first = self._read()
        except (OSError, ValueError) as error:
            raise PreconditionError(
                f"server.tls: {error}",
                remedy="name a certificate chain, its private key and authorities, in PEM",
            ) from None
        return grpc.dynamic_ssl_server_credentials(
            first, self._fetch, require_client_authentication=self._files.client_ca is not None
        )

    def _fetch(self) -> Any:
        """Asked by gRPC at each handshake, on a thread of its own; None: nothing has changed."""
        try:
            looked = self._look()
            if looked == self._seen:
                return None
            fresh = self._read()
        except (OSError, ValueError) as error:
            _log.warning(
                "server.tls: the files changed and cannot be used; the last good ones serve: %s", error
            )
            return None
        self._seen = looked
        _log.info("server.tls: new certificates serve")
        return fresh

    def _look(self) -> tuple[tuple[int, ...], ...]:
        found = (path.stat() for path in self._files.paths)
        return tuple((each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns) for each in found)

    def _read(self) -> Any:
        chain, key = self._files.cert.read_bytes(), self._files.key.read_bytes()
        _check_pair(self._files)
        authorities = self._files.client_ca.read_bytes() if self._files.client_ca is not None else None
        return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=authorities)


def _check_pair(files: TlsFiles) -> None:
    """What gRPC only says when somebody connects: whether the key belongs to the certificate."""
    import ssl  # noqa: PLC0415 - only a daemon with TLS pays for it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.cert, files.key, password=_no_password)
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
    except ssl.SSLError as error:
        raise ValueError(
            f"{files.cert} and {files.key} do not belong together, or are no PEM: {error}"
        ) from None


def _no_password() -> str:
    raise ValueError("the private key is encrypted; give one without a passphrase")
