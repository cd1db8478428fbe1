"""`ctl plugins enable`, `disable`, `history` and `rollback`."""

from __future__ import annotations

import click

from hermesd.api.v1 import admin_pb2
from hermesd.ctl.complete import complete_plugin
from hermesd.ctl.connection import connect, whole_list
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json, time_text
from hermesd.terminal.screen import Screen


@click.command(
    cls=CtlCommand,
    help="Serve a plugin that was disabled again.",
    short_help="Serve a disabled plugin again.",
)
@click.argument("name", shell_complete=complete_plugin)
@click.pass_context
def enable(ctx: click.Context, name: str) -> None:
    with connect(ctx) as (daemon, screen):
        _show(screen, daemon.set_plugin(name, enabled=True))


@click.command(
    cls=CtlCommand,
    help="Serve nothing of a plugin until it is enabled again, also after a restart.",
    short_help="Serve nothing of a plugin, also after a restart.",
)
@click.argument("name", shell_complete=complete_plugin)
@click.pass_context
def disable(ctx: click.Context, name: str) -> None:
    with connect(ctx) as (daemon, screen):
        _show(screen, daemon.set_plugin(name, enabled=False))


@click.command(
    cls=CtlCommand,
    help="List the contents of a plugin that were served and are kept, newest first.",
    short_help="List the contents of a plugin that were served.",
)
@click.argument("name", shell_complete=complete_plugin)
@click.pass_context
def history(ctx: click.Context, name: str) -> None:
    with connect(ctx) as (daemon, screen):
        answer = whole_list(
            lambda size, token: daemon.list_plugin_history(name, page_size=size, page_token=token)
        )
    if screen.as_json:
        screen.document(message_json(answer))
        return
    screen.table(
        ["", "VERSION", "FIRST SERVED", "LAST SERVED", "DIGEST"],
        [
            [
                "*" if each.serving else " ",
                each.version,
                time_text(each.first_served_at),
                time_text(each.last_served_at),
                each.digest,
            ]
            for each in answer.contents
        ],
    )


@click.command(
    cls=CtlCommand,
    help="""Serve an earlier content of a plugin again, until it is trusted or rolled back anew.

Without DIGEST the content that served before the present one.""",
    short_help="Serve an earlier content of a plugin again.",
)
@click.argument("name", shell_complete=complete_plugin)
@click.argument("digest", required=False, default="")
@click.pass_context
def rollback(ctx: click.Context, name: str, digest: str) -> None:
    with connect(ctx) as (daemon, screen):
        _show(screen, daemon.rollback_plugin(name, digest=digest))


def _show(screen: Screen, answer: admin_pb2.SetPluginResponse | admin_pb2.RollbackPluginResponse) -> None:
    if screen.as_json:
        screen.document(message_json(answer))
        return
    plugin = answer.plugin
    reason = f": {plugin.reason}" if plugin.reason else ""
    serves = f", serves {plugin.version} {plugin.digest}" if plugin.digest else ""
    screen.line(f"{plugin.name} is {plugin.state}{reason}{serves}", style=plugin.state)
