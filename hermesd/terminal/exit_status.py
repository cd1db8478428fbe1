"""The exit status of every command: scripts branch on it, so that its numbers never change."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """What a command's end means to a script."""

    DONE = 0
    FAILED = 1
    """What was asked failed: a tool answered an error, a reload holds a rejection."""
    USAGE = 2
    UNREACHABLE = 3
    """The daemon cannot be reached."""
    DENIED = 4
    CONFIRMATION_REQUIRED = 5
    INTERRUPTED = 130
    """Ctrl-C, as a shell reports it: 128 + SIGINT."""
