"""`ctl tools enable`, `disable` and `reset`."""

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


@click.command(
    cls=CtlCommand,
    help="Call a tool again at once whose circuit is open because it could not be reached, and close the "
    "circuit that it shares with the other tools of its plugin.",
    short_help="Call a tool again that is held back as unreachable.",
)
@click.argument("name", shell_complete=complete_tool)
@click.pass_context
def reset(ctx: click.Context, name: str) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.reset_circuit(name)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        said = "is called again" if answer.reset else "was not held back"
        screen.line(f"{answer.tool.name} {said}; it is {answer.tool.state}", style=answer.tool.state)


def _switch(ctx: click.Context, name: str, *, enabled: bool) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.set_tool(name, enabled=enabled)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        screen.line(f"{answer.tool.name} is {answer.tool.state}", style=answer.tool.state)
