"""`ctl events`: what happened, and what happens."""

from __future__ import annotations

import json

import click

from hermesd.api.v1 import admin_pb2
from hermesd.ctl.connection import connect
from hermesd.ctl.flag import MAX_INT64, CtlCommand
from hermesd.ctl.message import message_json, time_text
from hermesd.model.text import pairs
from hermesd.terminal.screen import Screen


@click.command(
    cls=CtlCommand,
    help="""Show the last events that the daemon keeps; with --follow also those to come, until Ctrl-C.

With --json one document a line; the first is `started`.""",
    short_help="Show what happened, and what happens.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with the events to come.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 1000),
    default=100,
    show_default=True,
    help="How many of the last events.",
)
@click.option("--after-seq", type=click.IntRange(0, MAX_INT64), help="Resume after this event instead.")
@click.pass_context
def events(ctx: click.Context, follow: bool, lines: int, after_seq: int | None) -> None:
    recent = None if after_seq is not None else lines
    with connect(ctx) as (daemon, screen):
        for entry in daemon.watch_events(after_seq=after_seq, recent=recent, follow=follow):
            if screen.as_json:
                screen.record(message_json(entry))
            elif entry.HasField("event"):
                show_event(screen, entry.event)
                screen.flush()


def show_event(screen: Screen, event: admin_pb2.Event) -> None:
    """`time kind subject: message` on one line; without a message the fields tell what happened."""
    told = event.message or pairs(_fields(event))
    what = ": ".join(each for each in (event.subject, told) if each)
    screen.line(f"{time_text(event.at)} {event.kind:<18} {what}".rstrip())


def _fields(event: admin_pb2.Event) -> dict[str, object]:
    fields = json.loads(event.fields_json or "{}")
    return fields if isinstance(fields, dict) else {}
