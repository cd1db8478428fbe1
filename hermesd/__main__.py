"""The executable: `hermesd`, also as `python -m hermesd`."""

from __future__ import annotations

import os
import sys
import threading
import time

import click

from hermesd.terminal.command import Lazy, RootGroup
from hermesd.version import __version__

LAZY = {
    "serve": Lazy("hermesd.cli.serve:serve", "Run the daemon in the foreground."),
    "check": Lazy("hermesd.cli.check:check", "Check the configuration and all plugins without a daemon."),
    "init": Lazy("hermesd.cli.init:init", "Write a starter configuration with an example plugin."),
    "plugin": Lazy("hermesd.cli.plugin:plugin", "Write and check plugins."),
    "doctor": Lazy("hermesd.cli.doctor:doctor", "Examine this machine and say what to fix."),
    "completion": Lazy("hermesd.cli.completion:completion", "Print a shell completion script."),
    "ctl": Lazy("hermesd.ctl.group:ctl", "Talk to a running daemon."),
}

#: The daemon has stopped in good order by then: nothing is lost with what is still running.
LAST_S = 2.0

cli = RootGroup(
    name="hermesd",
    lazy=LAZY,
    help="Hosts tools for AI agents: reloads them without losing a call, and serves them over gRPC.",
)
click.version_option(__version__, "--version", prog_name="hermesd", message="%(prog)s %(version)s")(cli)


def main() -> None:
    """Run one command; never returns. Exit status: 0 done, 1 failed, 2 usage, 3 unreachable, 4 not allowed,
    5 confirmation required, 130 interrupted."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A path or a message that the terminal's encoding cannot show must not end the command.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # real streams have it
    try:
        cli.main()
    except SystemExit as end:
        if "hermesd.daemon" in sys.modules:
            _bound_the_end(end.code if isinstance(end.code, int) else 1)
        raise


def _open_closed_streams() -> None:
    """Whoever starts us with a standard stream closed gets an empty one: else the next file that is opened,
    a socket or a database, would take its number, and every print would write into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    # Python has no object for a stream that was closed.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(("stdin", "stdout", "stderr").index(name), mode, closefd=False))  # noqa: SIM115


def _bound_the_end(status: int) -> None:
    """Exit handlers and threads that plugins left behind may finish; after a bound the process ends."""

    def end() -> None:
        time.sleep(LAST_S)
        os._exit(status)

    threading.Thread(target=end, name="hermesd-end", daemon=True).start()


if __name__ == "__main__":
    main()
