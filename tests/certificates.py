"""Certificates of a test's own authority, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


class Authority:
    """An authority in `folder`; each certificate is `NAME.pem` with `NAME.key`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        if shutil.which("openssl") is None:
            pytest.skip("needs openssl")
        self.folder = folder
        self.ca = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl(
            "req", "-x509", *_fresh_key(self._key), "-out", self.ca, "-days", "30", "-subj", f"/CN={name}",
            "-addext", "keyUsage=critical,keyCertSign",
        )  # fmt: skip

    def certify(self, common_name: str, name: str = "") -> tuple[Path, Path]:
        """A certificate for `common_name` and this machine, and its key; replaces what has that file name."""
        stem = name or common_name
        cert, key, request = (self.folder / f"{stem}{end}" for end in (".pem", ".key", ".csr"))
        _openssl("req", *_fresh_key(key), "-out", request, "-subj", f"/CN={common_name}")
        extensions = self.folder / f"{stem}.ext"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._key, "-CAcreateserial",
            "-days", "30", "-out", cert, "-extfile", extensions,
        )  # fmt: skip
        return cert, key


def _fresh_key(path: Path) -> tuple[str | Path, ...]:
    return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=30)
