"""`ctl tools enable` and `disable`."""

from __future__ import annotations

import click

from hermesd.ctl.complete import complete_tool
from hermesd.ctl.connection import connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json


@click.command(
    cls=CtlCommand,
    help="Let a tool that was disabled be called again.",
    short_help="Let a disabled tool be called again.",
)
@click.argument("name", shell_complete=complete_tool)
@click.pass_context
def enable(ctx: click.Context, name: str) -> None:
    _switch(ctx, name, enabled=True)


@click.command(
    cls=CtlCommand,
    help="Refuse calls of a tool until it is enabled again, also after a restart.",
    short_help="Refuse calls of a tool, also after a restart.",
)
@click.argument("name", shell_complete=complete_tool)
@click.pass_context
def disable(ctx: click.Context, name: str) -> None:
    _switch(ctx, name, enabled=False)


def _switch(ctx: click.Context, name: str, *, enabled: bool) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.set_tool(name, enabled=enabled)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        screen.line(f"{answer.tool.name} is {answer.tool.state}", style=answer.tool.state)
