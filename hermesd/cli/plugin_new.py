"""`hermesd plugin new`: a drop-in plugin that works, as a start."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hermesd.cli.plugin_template import plugin_files
from hermesd.cli.scaffold import write_new_folder
from hermesd.model.name import plugin_name_fault
from hermesd.terminal.screen import Screen


@click.command(
    help="""Write a new plugin NAME: code, manifest and test, in a folder of that name.

The folder is made in DIR (default: here). Nothing that exists is overwritten.""",
    short_help="Write a new plugin: code, manifest, test.",
)
@click.argument("name")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    metavar="DIR",
    help="Folder that the plugin's own folder is made in.",
)
def new(name: str, folder: Path) -> None:
    fault = plugin_name_fault(name)
    if fault is not None:
        raise click.UsageError(fault)
    screen = Screen.of_process(os.environ)
    for path in write_new_folder(folder / name, plugin_files(name)):
        screen.line(str(path))
    screen.note(f"next: hermesd plugin check {folder / name} --trust --call")
    screen.note(f"then put the folder into a plugin folder and say: hermesd ctl plugins trust {name}")
