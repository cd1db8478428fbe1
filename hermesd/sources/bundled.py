"""The plugins that hermesd brings along."""

from __future__ import annotations

from pathlib import Path

from hermesd.errors import NotFoundError, Rejection
from hermesd.sources.folder import FolderSource
from hermesd.sources.shipped import shipped
from hermesd.sources.source import Origin, Scan


class BundledSource:
    """The bundled plugins, each a folder or file as a drop-in one would be, with origin `bundled`."""

    def __init__(self, root: Path | None = None) -> None:
        """`root` None: where this installation has them."""
        self._root = root

    def scan(self) -> Scan:
        """An incomplete installation is a fault, never an empty set without a word."""
        try:
            root = self._root or shipped("plugins")
        except NotFoundError as error:
            return Scan(faults=(Rejection("bundled", error.message, error.remedy),))
        return FolderSource([root], origin=Origin.BUNDLED).scan()
