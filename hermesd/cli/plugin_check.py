"""`hermesd plugin check`: what the daemon would say about one plugin."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from hermesd.cli.check_report import show_report
from hermesd.terminal.screen import Screen


@click.command(
    help="""Load the plugin at PATH as the daemon would, and lint its tools.

PATH is a folder with plugin.yaml or a single .py file. A plugin that is not trusted is linted without being
run, unless you say with --trust that its code may run here. With --call the examples of tools without side
effects are run.
Exit status 1 when the plugin would be rejected; warnings alone are no failure.""",
    short_help="Load a plugin as the daemon would, and lint it.",
)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--call", is_flag=True, help="Run the examples of tools that have no side effects.")
@click.option(
    "--trust", is_flag=True, help="Run its code in a throw-away process though nobody trusts it yet."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def check(path: Path, call: bool, trust: bool, as_json: bool) -> int:
    from hermesd.reload.check import check_plugin  # noqa: PLC0415

    report = asyncio.run(check_plugin(path, call=call, trust=trust))
    return show_report(Screen.of_process(os.environ, as_json=as_json), report)
