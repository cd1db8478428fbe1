"""`ctl agents list`, `add`, `rotate`, `revoke` and `whoami`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from hermesd.api.v1 import agent_pb2
from hermesd.ctl.complete import complete_agent
from hermesd.ctl.connection import connect, whole_list
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json, time_text
from hermesd.terminal.screen import Screen


class Expiry(click.ParamType[datetime]):
    """A date or a date with a time (without an offset: UTC), or how long from now: 12h, 30d."""

    name = "when"
    _UNITS = {"m": 60, "h": 3600, "d": 86_400}  # noqa: RUF012 - never changed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        text = str(value).strip()
        if text[:-1].isascii() and text[:-1].isdigit() and text[-1] in self._UNITS:
            try:
                return datetime.now(UTC) + timedelta(seconds=int(text[:-1]) * self._UNITS[text[-1]])
            except OverflowError:
                self.fail(f"{text!r} is too long", param, ctx)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is no date such as 2027-06-30, and no time from now such as 30d", param, ctx)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@click.command(
    name="list",
    cls=CtlCommand,
    help="List the agents: those of the configuration and those made here.",
    short_help="List the agents with their rights.",
)
@click.pass_context
def list_agents(ctx: click.Context) -> None:
    with connect(ctx) as (daemon, screen):
        answer = whole_list(lambda size, token: daemon.list_agents(page_size=size, page_token=token))
    if screen.as_json:
        screen.document(message_json(answer))
        return
    screen.table(
        ["NAME", "STATE", "ORIGIN", "ROLES", "ALLOW", "DENY", "CEILING", "CONFIRMS", "EXPIRES"],
        [
            [
                each.name, each.state, each.place or each.origin, ",".join(each.roles),
                " ".join(each.tools.allow), " ".join(each.tools.deny), each.ceiling,
                "itself" if each.self_confirm else "",
                time_text(each.expires) if each.HasField("expires") else "never",
            ]
            for each in answer.agents
        ],
        state_column=1,
    )  # fmt: skip


@click.command(
    cls=CtlCommand,
    help="""Make an agent and print its token, which nobody can read again: only its SHA-256 is kept.

Without --allow there is no tool for it. The token alone goes to stdout, so that it can be kept in a file:

    hermesd ctl agents add reporter --allow 'orders.*' > reporter.token""",
    short_help="Make an agent and print its token, this once.",
)
@click.argument("name")
@click.option("--allow", multiple=True, metavar="GLOB", help="Tools that exist for it; * crosses dots.")
@click.option("--deny", multiple=True, metavar="GLOB", help="Tools that do not exist for it; deny wins.")
@click.option("--role", "roles", multiple=True, help="A role that it has.  [default: agent]")
@click.option(
    "--ceiling",
    type=click.Choice(["none", "read", "write", "destructive"]),
    default="write",
    show_default=True,
    help="The worst side effects that it may cause.",
)
@click.option("--self-confirm", is_flag=True, help="It may confirm its own calls.")
@click.option("--expires", type=Expiry(), help="When it ends: 2027-06-30, or 30d from now.")
@click.pass_context
def add(ctx: click.Context, /, name: str, **rights: Any) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.add_agent(name, **rights)
    if not screen.as_json and not rights["allow"]:
        click.echo(f"no tool exists for {name} yet: it has no --allow", err=True)
    _show_token(screen, answer)


@click.command(
    cls=CtlCommand,
    help="Give an agent a new token and print it. The old one is refused at once; what it has open ends.",
    short_help="Replace an agent's token and print the new one.",
)
@click.argument("name", shell_complete=complete_agent)
@click.pass_context
def rotate(ctx: click.Context, name: str) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.rotate_agent(name)
    _show_token(screen, answer)


@click.command(
    cls=CtlCommand,
    help="Remove an agent. Its token is refused at once; its watches and calls in flight end.",
    short_help="Remove an agent; what it has open ends.",
)
@click.argument("name", shell_complete=complete_agent)
@click.pass_context
def revoke(ctx: click.Context, name: str) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.revoke_agent(name)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        screen.line(f"{name} is revoked")


@click.command(
    cls=CtlCommand,
    help="Show who the daemon takes you for, with --token-file or without, and what you may do.",
    short_help="Show who a token makes you, and what you may do.",
)
@click.pass_context
def whoami(ctx: click.Context) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.who_am_i()
    if screen.as_json:
        screen.document(message_json(answer))
        return
    rows = {
        "name": answer.name,
        "kind": answer.kind,
        "roles": " ".join(answer.roles),
        "allow": " ".join(answer.tools.allow),
        "deny": " ".join(answer.tools.deny),
        "ceiling": answer.ceiling,
        "confirms": "its own calls" if answer.self_confirm or answer.kind == "operator" else "",
        "expires": time_text(answer.expires) if answer.HasField("expires") else "never",
    }
    for key, value in rows.items():
        screen.line(f"{key:<8} {value or '-'}")


def _show_token(screen: Screen, answer: agent_pb2.AddAgentResponse | agent_pb2.RotateAgentResponse) -> None:
    """The token alone on stdout; on stderr that it is shown this once."""
    if screen.as_json:
        screen.document(message_json(answer))
        return
    click.echo(f"token of {answer.agent.name}; it is shown this once:", err=True)
    screen.line(answer.token)
