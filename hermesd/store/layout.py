"""Where everything lies in the data dir, and that this build may use it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from hermesd.errors import StoreError, UnsafePathError
from hermesd.store.durable import store_error, sweep_temporary, write_atomic

LAYOUT_VERSION = 1


@dataclass(frozen=True, slots=True)
class DataDir:
    """The names in a data dir. Making one touches nothing."""

    root: Path

    @property
    def version(self) -> Path:
        return self.root / "VERSION"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def grants(self) -> Path:
        return self.state / "grants.json"

    @property
    def plugins(self) -> Path:
        return self.root / "plugins"

    @property
    def last_good(self) -> Path:
        return self.plugins / "last-good.json"

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def state_database(self) -> Path:
        return self.store / "state.duckdb"

    @property
    def state_high_water(self) -> Path:
        return self.store / "state.high-water"

    @property
    def calls_database(self) -> Path:
        return self.store / "calls.duckdb"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def output(self) -> Path:
        return self.root / "output"

    def prepare(self) -> None:
        """Make the folders (0700), and refuse a data dir that is another user's or a newer build's.

        A wider mode, as a service manager may have made it, is narrowed, and what a killed writer left
        is removed. Call it with the lock held.
        Raises StoreError or UnsafePathError.
        """
        make_private(self.root)
        self._check_version()
        for folder in (self.state, self.plugins, self.store, self.logs):
            make_private(folder)
        for folder in (self.root, self.state, self.plugins, self.store):
            sweep_temporary(folder)

    def _check_version(self) -> None:
        try:
            text = self.version.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            write_atomic(self.version, f"{LAYOUT_VERSION}\n".encode(), mode=0o600)
            return
        except UnicodeDecodeError:
            text = "binary"
        except OSError as error:
            raise store_error(error, self.version, "read") from error
        if not text.isascii() or not text.isdigit():
            raise StoreError(
                f"{self.version} is damaged: it holds {text[:20]!r}",
                remedy="restore the data dir from a backup, or choose another one",
            )
        if int(text) > LAYOUT_VERSION:
            raise StoreError(
                f"{self.root} was written by a newer hermesd (layout {text}, this build: {LAYOUT_VERSION})",
                remedy="start that hermesd again, or choose another data dir",
            )


def make_private(folder: Path) -> None:
    """Make `folder` with mode 0700, or narrow it to that. Raises StoreError or UnsafePathError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.stat(folder)
        if status.st_uid != os.geteuid():
            raise UnsafePathError(
                f"{folder} belongs to another user",
                remedy=f"chown it to uid {os.geteuid()}, or choose another data dir",
            )
        if stat.S_IMODE(status.st_mode) != 0o700:
            folder.chmod(0o700)
    except FileExistsError as error:
        raise StoreError(f"{folder} is no directory", remedy="move it away") from error
    except OSError as error:
        raise store_error(error, folder, "make") from error
