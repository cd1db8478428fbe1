"""`ctl reload`: read everything again, and say what came of it."""

from __future__ import annotations

import click

from hermesd.api.v1 import admin_pb2
from hermesd.ctl.complete import complete_plugin
from hermesd.ctl.connection import connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json
from hermesd.ctl.rejection import show_rejections
from hermesd.terminal.exit_status import ExitStatus
from hermesd.terminal.screen import Screen

_SHOWN = 10


@click.command(
    cls=CtlCommand,
    help="""Read the configuration and the plugins again and serve what changed.

Returns when additions are ready or have failed and what was replaced has drained. What is refused changes
nothing: the last good version goes on serving, and the exit status is 1. With NAME only that plugin.""",
    short_help="Read configuration and plugins again.",
)
@click.argument("name", required=False, default="", shell_complete=complete_plugin)
@click.option("--dry-run", is_flag=True, help="Say what would change, change nothing.")
@click.option("--atomic", is_flag=True, help="All or nothing: any rejection keeps everything as it is.")
@click.option("--no-wait", is_flag=True, help="Return when the pass has committed.")
@click.option(
    "--if-revision",
    default="",
    metavar="R",
    help="Only if the daemon still has revision R, whole or as status shows it.",
)
@click.pass_context
def reload(
    ctx: click.Context, *, name: str, dry_run: bool, atomic: bool, no_wait: bool, if_revision: str
) -> ExitStatus:
    with connect(ctx) as (daemon, screen):
        answer = daemon.reload(name, dry_run=dry_run, atomic=atomic, no_wait=no_wait, if_revision=if_revision)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        show_reload(screen, answer)
    return ExitStatus.FAILED if answer.rejected else ExitStatus.DONE


def show_reload(screen: Screen, answer: admin_pb2.ReloadResponse) -> None:
    """The diff for people: what changed by name, what stayed by number, what was refused with its place."""
    show_rejections(screen, answer.rejected)
    show_rejections(screen, answer.notices, style="yellow", kind="warning: ")
    for word, names in (
        ("added", answer.added),
        ("changed", answer.changed),
        ("removed", answer.removed),
        ("pending", answer.pending),
    ):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            screen.line(f"{word:<8} {', '.join(names[:_SHOWN])}{more}")
    counts = ", ".join(
        f"{len(names)} {word}"
        for word, names in (
            ("added", answer.added),
            ("changed", answer.changed),
            ("removed", answer.removed),
            ("kept", answer.kept),
            ("pending", answer.pending),
            ("rejected", answer.rejected),
        )
        if names or word != "pending"
    )
    verdict = (
        f"nothing changed; a reload would give: {counts}"
        if answer.dry_run
        else f"generation {answer.generation}: {counts} ({answer.duration_ms:.0f} ms)"
    )
    screen.line(verdict, style="red" if answer.rejected else "green")
