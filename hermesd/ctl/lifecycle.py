"""`ctl drain`, `resume`, `stop` and `dump`."""

from __future__ import annotations

import json

import click
from google.protobuf.message import Message

from hermesd.ctl.connection import connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json
from hermesd.terminal.screen import Screen


@click.command(
    cls=CtlCommand,
    help="Take no new calls; those in flight go on. `ctl resume` takes this back.",
    short_help="Take no new calls.",
)
@click.pass_context
def drain(ctx: click.Context) -> None:
    with connect(ctx) as (daemon, screen):
        _done(screen, daemon.drain(), "draining: no new calls are taken")


@click.command(cls=CtlCommand, help="Take calls again after a drain.", short_help="Take calls again.")
@click.pass_context
def resume(ctx: click.Context) -> None:
    with connect(ctx) as (daemon, screen):
        _done(screen, daemon.resume(), "calls are taken again")


@click.command(
    cls=CtlCommand,
    help="""Drain, bounded by server.drain_timeout_s, and end the daemon.

Returns when the daemon has begun to stop. A service manager may start it again: stop the unit instead.""",
    short_help="Drain and end the daemon.",
)
@click.pass_context
def stop(ctx: click.Context) -> None:
    with connect(ctx) as (daemon, screen):
        _done(screen, daemon.shutdown(), "stopping")


@click.command(
    cls=CtlCommand,
    help="""Print the daemon's inner state as JSON: instances, leases, tasks, threads, children.

It is for people who look for a fault; its content may change with every version.""",
    short_help="Print the daemon's inner state, to find a fault.",
)
@click.pass_context
def dump(ctx: click.Context) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.dump_state()
    screen.document(message_json(answer) if screen.as_json else json.loads(answer.state_json))


def _done(screen: Screen, answer: Message, text: str) -> None:
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        screen.line(text)
