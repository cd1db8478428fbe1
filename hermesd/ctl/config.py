"""`ctl config`: what is in force, and who said so."""

from __future__ import annotations

import click

from hermesd.ctl.connection import connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json


@click.command(
    cls=CtlCommand,
    help="""Show the configuration in force: its digest and files.

With --effective each value with its origin; secrets are masked.""",
    short_help="Show the configuration in force.",
)
@click.option("--effective", is_flag=True, help="Each value with its origin.")
@click.pass_context
def config(ctx: click.Context, effective: bool) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.get_config()
    if screen.as_json:
        screen.document(message_json(answer))
        return
    if effective:
        screen.table(
            ["KEY", "VALUE", "ORIGIN"],
            [[each.key, each.value_json, each.origin] for each in answer.values],
        )
        return
    screen.line(answer.digest)
    for file in answer.files:
        screen.line(file)
    if not answer.files:
        screen.note("no file: built-in defaults")
