"""The executable: `hermesd`, also as `python -m hermesd`."""

from __future__ import annotations

import sys

import click

from hermesd.terminal.command import Lazy, RootGroup
from hermesd.version import __version__

LAZY = {
    "serve": Lazy("hermesd.cli.serve:serve", "Run the daemon in the foreground."),
    "check": Lazy("hermesd.cli.check:check", "Check the configuration and all plugins without a daemon."),
    "init": Lazy("hermesd.cli.init:init", "Write a starter configuration with an example plugin."),
    "plugin": Lazy("hermesd.cli.plugin:plugin", "Write and check plugins."),
    "doctor": Lazy("hermesd.cli.doctor:doctor", "Examine this machine and say what to mend."),
    "completion": Lazy("hermesd.cli.completion:completion", "Print a shell completion script."),
    "ctl": Lazy("hermesd.ctl.group:ctl", "Talk to a running daemon."),
}

cli = RootGroup(
    name="hermesd",
    lazy=LAZY,
    help="Hosts tools for AI agents: reloads them without losing a call, and serves them over gRPC.",
)
click.version_option(__version__, "--version", prog_name="hermesd", message="%(prog)s %(version)s")(cli)


def main() -> None:
    """Run one command; never returns. Exit status: 0 done, 1 failed, 2 usage, 3 unreachable, 4 not allowed,
    5 confirmation required, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # A path or a message that the terminal's encoding cannot show must not end the command.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # real streams have it
    cli.main()


if __name__ == "__main__":
    main()
