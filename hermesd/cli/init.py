"""`hermesd init`: a configuration folder to start from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from hermesd.cli.config_template import EXAMPLE_PLUGIN, starter_files
from hermesd.cli.scaffold import write_new
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
    default = configuration_folder(os.environ, is_root=os.geteuid() == 0)
    target = folder or default
    for path in write_new(target, starter_files()):
        screen.line(str(path))
    given = "" if target == default else f" --config {target / 'hermesd.yaml'}"
    screen.note(f"next: hermesd check{given}, then hermesd serve{given}")
    screen.note(f"and, beside the running daemon: hermesd ctl plugins trust {EXAMPLE_PLUGIN}")


def configuration_folder(environ: Mapping[str, str], *, is_root: bool) -> Path:
    """Where the daemon looks for its configuration by itself."""
    if is_root:
        return Path("/etc/hermesd")
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "hermesd"
