"""`ctl calls replay`: the same again, as a new call."""

from __future__ import annotations

import sys

import click

from hermesd.ctl.arguments import arguments_json
from hermesd.ctl.complete import complete_call
from hermesd.ctl.connection import connect
from hermesd.ctl.flag import MAX_INT32, CtlCommand
from hermesd.ctl.message import message_json
from hermesd.ctl.tool_call import LONGEST_CALL_S, show_result, status_of
from hermesd.terminal.exit_status import ExitStatus


@click.command(
    cls=CtlCommand,
    help="""Call a recorded call's tool again, with the recorded arguments or new ones, and print its data.

What may change something is not run at once: the exit status is 5, and --confirm takes the token shown.
A record whose arguments were redacted or cut needs new ones.""",
    short_help="Call a recorded call's tool again.",
)
@click.argument("request_id", shell_complete=complete_call)
@click.argument("words", nargs=-1, metavar="[key=value | key:=JSON]...")
@click.option("--args", metavar="JSON", help="New arguments as one JSON object, @FILE or - for stdin.")
@click.option("--timeout-ms", type=click.IntRange(1, MAX_INT32), help="Bound of the whole call.")
@click.option("--confirm", default="", metavar="TOKEN", help="Token of a confirmation.")
@click.pass_context
def replay(
    ctx: click.Context,
    *,
    request_id: str,
    words: tuple[str, ...],
    args: str | None,
    timeout_ms: int | None,
    confirm: str,
) -> ExitStatus:
    arguments = arguments_json(args, words, sys.stdin) if args is not None or words else None
    with connect(ctx) as (daemon, screen):
        answer = daemon.replay_call(
            request_id,
            arguments,
            confirmation_token=confirm,
            timeout_ms=timeout_ms,
            timeout_s=LONGEST_CALL_S if timeout_ms is None else None,
        ).response
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        show_result(screen, answer.result)
    return status_of(answer.result)
