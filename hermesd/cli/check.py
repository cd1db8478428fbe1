"""`hermesd check`: what a reload would say, without a daemon and without touching anything."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from hermesd.cli.check_report import show_report
from hermesd.terminal.screen import Screen


@click.command(
    help="""Check the configuration and every plugin as a reload would, without a daemon.

Nothing is started or changed. Trusted code is imported in a throw-away process, untrusted code is only read.
Exit status 1 when anything would be rejected.""",
    short_help="Check the configuration and all plugins without a daemon.",
)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Configuration file.")
@click.option("--effective", is_flag=True, help="Also print each value in force with its origin.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def check(config: Path | None, effective: bool, as_json: bool) -> int:
    from hermesd.reload.check import check_configuration  # noqa: PLC0415

    report = asyncio.run(check_configuration(config, os.environ, effective=effective))
    return show_report(Screen.of_process(os.environ, as_json=as_json), report)
