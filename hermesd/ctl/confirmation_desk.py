"""`ctl confirmations list`, `approve` and `deny`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from hermesd.ctl.complete import complete_confirmation
from hermesd.ctl.connection import connect, whole_list
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json, time_text
from hermesd.ctl.phrase import duration, since
from hermesd.terminal.screen import Screen

if TYPE_CHECKING:
    from hermesd.api.v1 import confirmation_pb2
    from hermesd.client import Client


#: What a confirmation can be in that is listed.
STATES = ("pending", "approved", "denied")


@click.command(
    name="list",
    cls=CtlCommand,
    help="""List the calls that wait for somebody's agreement, or have it and were not made yet.

Each with who asks, what would happen, and how long that holds; those that you decide come first.""",
    short_help="List the calls that need agreement.",
)
@click.option(
    "--state", type=click.Choice(STATES), metavar="STATE",
    help="Only those in this state: pending, approved or denied.",
)  # fmt: skip
@click.pass_context
def list_confirmations(ctx: click.Context, state: str | None) -> None:
    with connect(ctx) as (daemon, screen):
        answer = whole_list(
            lambda size, token: daemon.list_confirmations(page_size=size, page_token=token, state=state or "")
        )
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        show_confirmations(screen, answer, datetime.now(UTC))


@click.command(
    cls=CtlCommand,
    help="""Let the call run that ID names: its caller makes it again, with its token, once.

ID is what `list` shows; the whole token does too.""",
    short_help="Let a call run, once.",
)
@click.argument("identity", metavar="ID", shell_complete=complete_confirmation)
@click.option("--reason", default="", metavar="TEXT", help="Kept with the decision.")
@click.pass_context
def approve(ctx: click.Context, identity: str, reason: str) -> None:
    _resolve(ctx, lambda daemon: daemon.approve_confirmation(identity, reason=reason))


@click.command(
    cls=CtlCommand,
    help="Refuse the call that ID names. Its caller is told so, and the reason.",
    short_help="Refuse a call.",
)
@click.argument("identity", metavar="ID", shell_complete=complete_confirmation)
@click.option("--reason", default="", metavar="TEXT", help="What its caller is told.")
@click.pass_context
def deny(ctx: click.Context, identity: str, reason: str) -> None:
    _resolve(ctx, lambda daemon: daemon.deny_confirmation(identity, reason=reason))


def show_confirmations(
    screen: Screen, answer: confirmation_pb2.ListConfirmationsResponse, now: datetime
) -> None:
    """Each with its summary whole, for that is what is decided by."""
    if not answer.confirmations:
        screen.line("no call waits for agreement")
        return
    ordered = sorted(answer.confirmations, key=lambda each: (each.by != "operator", each.state != "pending"))
    for number, each in enumerate(ordered):
        if number:
            screen.line()
        show_confirmation(screen, each, now)


def show_confirmation(screen: Screen, each: confirmation_pb2.Confirmation, now: datetime) -> None:
    """One, for people."""
    whose = "its caller" if each.by == "caller" else "the operator"
    state = f"waits for {whose}" if each.state == "pending" else f"{each.state} by {each.decided_by}"
    screen.line(f"{each.id} {each.tool} {each.version}: {state}", style=each.state)
    screen.line(f"    {each.summary}")
    session = f" in session {each.session_id}" if each.session_id else ""
    left = (datetime.fromisoformat(time_text(each.expires_at)) - now).total_seconds()
    screen.line(
        f"    asked by {each.agent}{session} {since(each.created_at, now)}, holds for {duration(left)}"
    )
    if each.reason:
        screen.line(f"    {each.reason}")


def _resolve(
    ctx: click.Context, resolve: Callable[[Client], confirmation_pb2.ResolveConfirmationResponse]
) -> None:
    with connect(ctx) as (daemon, screen):
        answer = resolve(daemon)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        show_confirmation(screen, answer.confirmation, datetime.now(UTC))
