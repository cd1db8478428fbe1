"""`ctl calls watch|output|cancel`: a call after it was begun."""

from __future__ import annotations

import click

from hermesd.ctl.complete import complete_call, complete_call_in_flight
from hermesd.ctl.connection import connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json
from hermesd.ctl.tool_call import followed, show_data, show_result, status_of
from hermesd.terminal.exit_status import ExitStatus


@click.command(
    cls=CtlCommand,
    help="""Follow a detached call (`tools call --detach`) and print its data when it has ended.

Ctrl-C ends the watch and not the call. The exit status is that of `tools call`.""",
    short_help="Follow a detached call to its result.",
)
@click.argument("request_id", shell_complete=complete_call)
@click.option("--after-seq", type=click.IntRange(0), help="Resume after this event.")
@click.pass_context
def watch(ctx: click.Context, request_id: str, after_seq: int | None) -> ExitStatus:
    with connect(ctx) as (daemon, screen):
        result = followed(screen, daemon.watch_call(request_id, after_seq=after_seq))
    if not screen.as_json:
        show_result(screen, result)
    return status_of(result)


@click.command(
    cls=CtlCommand,
    help="""Print the whole JSON of a result that was cut, or of a detached call, until it expires.

`defaults.result.keep_s` says how long it is kept. Of a detached call that failed it is null:
`calls watch` says why.""",
    short_help="Print the whole of a result that was cut.",
)
@click.argument("request_id", shell_complete=complete_call)
@click.option("--content", is_flag=True, help="The content parts instead of the data.")
@click.pass_context
def output(ctx: click.Context, request_id: str, content: bool) -> None:
    part = "content" if content else "data"
    with connect(ctx) as (daemon, screen):
        if screen.as_json:
            whole = daemon.read_call_output(request_id, part=part)
            while whole.next_offset < whole.total:
                page = daemon.read_call_output(request_id, offset=whole.next_offset, part=part)
                whole.data, whole.next_offset = whole.data + page.data, page.next_offset
            screen.document(message_json(whole))
            return
        show_data(screen, daemon.call_output(request_id, part=part) or "null")


@click.command(
    cls=CtlCommand,
    help="Cancel a call in flight. Its tool is told, and its caller is answered CANCELLED.",
    short_help="Cancel a call in flight.",
)
@click.argument("request_id", shell_complete=complete_call_in_flight)
@click.pass_context
def cancel(ctx: click.Context, request_id: str) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.cancel_call(request_id)
        if screen.as_json:
            screen.document(message_json(answer))
        else:
            screen.line(f"cancelled {request_id}")
