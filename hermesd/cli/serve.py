"""`hermesd serve`: the daemon in the foreground, as a service manager wants it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Literal

import click

from hermesd.daemon.options import ServeOptions

LEVELS = ("debug", "info", "warning", "error")


@click.command(
    help="""Run the daemon in the foreground until SIGTERM or Ctrl-C; SIGHUP reloads.

Without any configuration file it listens on its own unix socket and serves the bundled tools.
Command-line flags win over the configuration.""",
    short_help="Run the daemon in the foreground.",
)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Configuration file.")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), metavar="DIR", help="Where the daemon keeps its state."
)
@click.option(
    "--listen",
    multiple=True,
    metavar="ADDR",
    help="Address instead of server.listen: unix:PATH or HOST:PORT; may be repeated.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="How log lines look; text when nothing is said."
)
@click.option(
    "--log-level", type=click.Choice(LEVELS, case_sensitive=False), help="The least level that is logged."
)
def serve(
    config: Path | None,
    data_dir: Path | None,
    listen: tuple[str, ...],
    log_format: Literal["text", "json"] | None,
    log_level: str | None,
) -> int:
    """Returns the daemon's own exit status."""
    # Until the daemon answers them, these two ask for what its start does anyway; by default they would
    # end it. Handlers, not SIG_IGN, which children would inherit.
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    # The daemon's modules cost 300 ms and more: `--help` and a usage error do not pay for them.
    from hermesd.daemon import run  # noqa: PLC0415

    options = ServeOptions(config, data_dir, listen, log_format, log_level)
    return int(run(options))
