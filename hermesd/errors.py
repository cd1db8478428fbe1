"""What can go wrong, grouped by what the caller can do about it.

Every error carries a one-line message that says what and where, and a remedy that says what to do.
The edges translate these classes and nothing else: gRPC status, exit status, log level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_TEXT = 2000
#: Whoever has more faults fixes these first.
MAX_REJECTIONS = 100


@dataclass(frozen=True, slots=True)
class Rejection:
    """One refused input: what it is, why it was refused, where it stands and what to do.

    `line` and `column` count from 1; 0 means that the place is unknown. Texts are cut at 2,000 characters:
    many rejections travel in one answer, and what a plugin raises may be of any length.
    """

    name: str
    reason: str
    remedy: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def __post_init__(self) -> None:
        for field in ("name", "reason", "remedy", "file"):
            text = getattr(self, field)
            if len(text) > MAX_TEXT:
                object.__setattr__(self, field, text[: MAX_TEXT - 1] + "…")

    @property
    def place(self) -> str:
        """`file:line:column` as compilers print it, as far as it is known."""
        known = [self.file] if self.file else []
        if self.file and self.line:
            known.append(str(self.line))
            if self.column:
                known.append(str(self.column))
        return ":".join(known)

    @property
    def fault(self) -> str:
        """Where and what, for whoever gets the remedy beside it."""
        return f"{self.place}: {self.reason}" if self.place else self.reason

    def __str__(self) -> str:
        return f"{self.fault} ({self.remedy})" if self.remedy else self.fault


class HermesdError(Exception):
    """Base of all errors that hermesd raises on purpose."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class RejectedError(HermesdError):
    """Input was refused as a whole; `rejections` lists every fault that was found."""

    def __init__(self, rejections: Sequence[Rejection]) -> None:
        if not rejections:
            raise ValueError("a RejectedError needs at least one rejection")
        super().__init__(
            "; ".join(str(each) for each in rejections[:MAX_REJECTIONS]), remedy=rejections[0].remedy
        )
        self.rejections = tuple(rejections)
        if (more := len(rejections) - MAX_REJECTIONS) > 0:
            last = Rejection(rejections[0].name, f"and {more} more", "fix the first ones, then look again")
            self.rejections = (*self.rejections[:MAX_REJECTIONS], last)


class ConfigError(RejectedError):
    """The operator's configuration is at fault: fix the file."""


class PluginError(RejectedError):
    """A plugin's manifest, content or code is at fault: fix the plugin."""


class LockedError(HermesdError):
    """Another process holds the data dir or an address."""


class UnsafePathError(HermesdError):
    """A path could be written by somebody who must not, or leaves the folder that it belongs to."""


class StoreError(HermesdError):
    """The data dir cannot be read or written (full, read-only, damaged)."""


class LauncherError(HermesdError):
    """A child process could not be started or the launcher is gone."""


class NotFoundError(HermesdError):
    """What was named does not exist, or is not the caller's: the two look alike."""


class InvalidRequestError(HermesdError):
    """The request itself is malformed."""


class PreconditionError(HermesdError):
    """The object is in the wrong state for what was asked."""


class ConflictError(HermesdError):
    """The caller lost a race: what it based its request on has changed since."""


class AlreadyExistsError(HermesdError):
    """The id is in use by something that is still going on."""


class DeniedError(HermesdError):
    """This caller may never do that."""


class UnauthenticatedError(HermesdError):
    """Nobody can tell who calls, or the token is wrong, expired or taken back."""


class FellBehindError(HermesdError):
    """A watcher asked for events that are no longer kept."""


class ExhaustedError(HermesdError):
    """A quota or queue is full; try again later."""


class DrainingError(HermesdError):
    """The daemon takes no new work."""
