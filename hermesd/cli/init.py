"""`hermesd init`: a configuration folder to start from."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hermesd.cli.config_template import EXAMPLE_PLUGIN, starter_files
from hermesd.cli.scaffold import write_new
from hermesd.config.places import config_folder
from hermesd.terminal.screen import Screen


@click.command(
    help="""Write a commented starter configuration, an example plugin and a key file (mode 0600).

DIR is the folder that the daemon looks in by itself: /etc/hermesd for root, ~/.config/hermesd for others.
Nothing that exists is overwritten.""",
    short_help="Write a starter configuration with an example plugin.",
)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path, file_okay=False))
def init(folder: Path | None) -> None:
    screen = Screen.of_process(os.environ)
    default = config_folder(os.environ, is_root=os.geteuid() == 0)
    target = folder or default
    if target is None:
        raise click.UsageError("the environment names no home: name the DIR")
    for path in write_new(target, starter_files()):
        screen.line(str(path))
    given = "" if target == default else f" --config {target / 'hermesd.yaml'}"
    screen.note(f"next: hermesd check{given}, then hermesd serve{given}")
    screen.note(f"and, beside the running daemon: hermesd ctl plugins trust {EXAMPLE_PLUGIN}")
