"""Credentials that systemd handed over, read once.

The folder belongs to one start of the unit: what is read from it later, while a reload goes on, may be gone
or half replaced. So its content is taken at the start, and a secret changes with a restart only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from hermesd.errors import StoreError

MAX_CREDENTIALS = 256
MAX_BYTES = 1024 * 1024  # systemd's own bound for all of them together


class Credentials:
    """The files of CREDENTIALS_DIRECTORY as they were at the start; none when the variable is not set."""

    def __init__(self, directory: Path | None, contents: Mapping[str, bytes]) -> None:
        self._directory = directory
        self._contents = contents

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Credentials:
        """Read them all, once. Raises StoreError when the folder that was promised cannot be read."""
        name = environ.get("CREDENTIALS_DIRECTORY", "")
        if not name:
            return cls(None, {})
        directory = Path(name)
        try:
            return cls(directory, _read_all(directory))
        except OSError as error:
            raise StoreError(
                f"the credentials in {directory} cannot be read: {error.strerror or error}",
                remedy="look at LoadCredential= and SetCredential= of the unit",
            ) from None

    def read(self, path: Path) -> bytes | None:
        """What the credential at `path` held at the start; None for a path that is no credential.

        A path is looked up by its text: `${file:/run/credentials/hermesd.service/NAME}` names one.
        """
        if self._directory is None or path.parent != self._directory:
            return None
        return self._contents.get(path.name)


def _read_all(directory: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    total = 0
    for entry in sorted(os.listdir(directory)):
        path = directory / entry
        if not stat.S_ISREG(path.stat().st_mode):
            continue
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        total += len(data)
        if total > MAX_BYTES or len(contents) == MAX_CREDENTIALS:
            raise OSError("more than 1 MiB or 256 files")
        contents[entry] = data
    return contents
