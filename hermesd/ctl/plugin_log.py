"""`ctl plugins logs`: one plugin's lines."""

from __future__ import annotations

import json

import click

from hermesd.api.v1 import admin_pb2
from hermesd.ctl.complete import complete_plugin
from hermesd.ctl.connection import connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json, time_text
from hermesd.terminal.screen import Screen, json_text

#: The field that holds the traceback of an exception.
TRACE = "trace"
_COLOURS = {"error": "red", "critical": "red", "warning": "yellow"}


@click.command(
    cls=CtlCommand,
    help="Show the last lines that a plugin logged; with --follow also those to come, until Ctrl-C.",
    short_help="Show what a plugin logged.",
)
@click.argument("name", shell_complete=complete_plugin)
@click.option("-f", "--follow", is_flag=True, help="Go on with the lines to come.")
@click.option(
    "-n", "--lines", type=click.IntRange(0, 10_000), default=100, show_default=True, help="How many."
)
@click.pass_context
def logs(ctx: click.Context, name: str, follow: bool, lines: int) -> None:
    with connect(ctx) as (daemon, screen):
        for entry in daemon.read_plugin_log(name, lines=lines, follow=follow):
            if screen.as_json:
                screen.record(message_json(entry))
            elif entry.HasField("line"):
                show_log_line(screen, entry.line)
                screen.flush()


def show_log_line(screen: Screen, line: admin_pb2.LogLine) -> None:
    """`time level tool request attempt message fields` on one line; below it the traceback, if any."""
    attempt = f" attempt {line.attempt}" if line.attempt > 1 else ""
    session = f" session {line.session_id}" if line.session_id else ""
    call = f" [{line.tool} {line.request_id}{session}{attempt}]" if line.tool else ""
    fields, trace = _without_trace(line.fields_json)
    screen.line(
        f"{time_text(line.at)} {line.level:<7}{call} {line.message}{fields}",
        style=_COLOURS.get(line.level, ""),
    )
    for each in trace.splitlines():
        screen.line(f"    {each}")


def _without_trace(fields_json: str) -> tuple[str, str]:
    """The fields as they follow a message, and the traceback among them, which nobody can read as JSON."""
    if fields_json in ("", "{}"):
        return "", ""
    fields = json.loads(fields_json)
    trace = fields.get(TRACE)
    if not isinstance(trace, str):
        return f" {fields_json}", ""
    rest = {name: value for name, value in fields.items() if name != TRACE}
    return f" {json_text(rest)}" if rest else "", trace
