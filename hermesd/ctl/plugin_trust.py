"""`ctl plugins trust`, `untrust`, `grant` and `revoke`: what may run, and what it may do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import click

from hermesd.api.v1 import admin_pb2
from hermesd.ctl.complete import complete_plugin
from hermesd.ctl.connection import connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json
from hermesd.ctl.plugin_view import show_files_and_permissions
from hermesd.terminal.command import Failure
from hermesd.terminal.screen import Screen


@click.command(
    cls=CtlCommand,
    help="""Pin a plugin's content as trusted: it then runs with the daemon's own rights.

Without --digest the content that the source holds now is shown and, on a terminal, you are asked. In a pipe
give --digest, or --yes to trust whatever is there. When the content changes, the trusted one goes on serving
and the new one waits for trust.""",
    short_help="Pin a plugin's present content as trusted.",
)
@click.argument("name", shell_complete=complete_plugin)
@click.option(
    "--digest", default="", metavar="DIGEST", help="The content to pin; refused when it is not there."
)
@click.option(
    "--isolation",
    type=click.Choice(["inprocess", "process"]),
    help="In the daemon's process, or in a worker process of its own.",
)
@click.option("--follow", is_flag=True, help="Trust every later change too: for development only.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def trust(
    ctx: click.Context, *, name: str, digest: str, isolation: str | None, follow: bool, yes: bool
) -> None:
    with connect(ctx) as (daemon, screen):
        if not digest:
            digest = _agreed(screen, daemon.get_plugin(name).plugin, follow=follow, yes=yes)
        answer = daemon.trust_plugin(name, digest=digest, isolation=isolation or "", follow=follow)
    if screen.as_json:
        screen.document(message_json(answer))
        return
    pinned = answer.plugin
    screen.line(f"trusted {pinned.name} {pinned.version}, runs {pinned.isolation}", style="green")
    screen.line(f"{'pinned':<12} {digest}{' and whatever follows' if follow else ''}")
    show_files_and_permissions(screen, pinned)
    _show_standing(screen, pinned)


@click.command(
    cls=CtlCommand,
    help="Take a plugin's trust back: it stops running with the daemon's own rights.",
    short_help="Take a plugin's trust back.",
)
@click.argument("name", shell_complete=complete_plugin)
@click.pass_context
def untrust(ctx: click.Context, name: str) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.untrust_plugin(name)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        _show_standing(screen, answer.plugin)


def _permission_options(function: Callable[..., None]) -> Callable[..., None]:
    for option, metavar, text in reversed(
        (
            ("--network", "HOST:PORT", "An address that may be reached."),
            ("--secret", "NAME", "A secret that may be read."),
            ("--read", "PATH", "A path that may be read."),
            ("--write", "PATH", "A path that may be written."),
            ("--call", "GLOB", "Tools that may be called."),
        )
    ):
        function = click.option(option, multiple=True, metavar=metavar, help=f"{text} May be repeated.")(
            function
        )
    return function


@click.command(
    cls=CtlCommand,
    help="Grant permissions to a plugin, those named or, with --all, all that its manifest asks for.",
    short_help="Grant permissions to a plugin.",
)
@click.argument("name", shell_complete=complete_plugin)
@_permission_options
@click.option("--memory-mb", type=click.IntRange(1), help="Memory that it may use.")
@click.option("--all", "everything", is_flag=True, help="All that the manifest asks for.")
@click.pass_context
def grant(
    ctx: click.Context, /, name: str, everything: bool, memory_mb: int | None, **named: tuple[str, ...]
) -> None:
    wanted = _permissions(named, memory_mb)
    if bool(wanted) == everything:
        raise click.UsageError("name the permissions to grant, or give --all")
    with connect(ctx) as (daemon, screen):
        if everything:
            wanted = json.loads(daemon.get_plugin(name).plugin.permissions_json or "{}")
            if not any(wanted.values()):
                raise Failure(f"{name} asks for no permissions")
        answer = daemon.grant_plugin(name, wanted)
    _show_granted(screen, answer)


@click.command(
    cls=CtlCommand,
    help="Take permissions of a plugin back, those named or, with --all, every one.",
    short_help="Take permissions back.",
)
@click.argument("name", shell_complete=complete_plugin)
@_permission_options
@click.option("--all", "everything", is_flag=True, help="Every permission.")
@click.pass_context
def revoke(ctx: click.Context, /, name: str, everything: bool, **named: tuple[str, ...]) -> None:
    wanted = _permissions(named, None)
    if bool(wanted) == everything:
        raise click.UsageError("name the permissions to take back, or give --all")
    with connect(ctx) as (daemon, screen):
        answer = daemon.revoke_plugin(name, None if everything else wanted)
    _show_granted(screen, answer)


def _agreed(screen: Screen, plugin: admin_pb2.Plugin, *, follow: bool, yes: bool) -> str:
    """The digest that the operator has seen and agreed to; pinning it cannot race with an edit."""
    digest = plugin.found_digest or plugin.digest
    if not digest:
        reason = plugin.reason or "its content is not settled yet"
        raise Failure(f"{plugin.name} has no content to trust: {reason}")
    if yes:
        return digest
    if screen.as_json or not (sys.stdin.isatty() and screen.interactive):
        raise click.UsageError(
            f"not on a terminal, so nothing can be confirmed: give --yes, or --digest {digest}"
        )
    screen.line(f"{plugin.name} {plugin.version} from {plugin.path}", style="bold")
    screen.line(f"{'digest':<12} {digest}")
    show_files_and_permissions(screen, plugin)
    later = " and every later change" if follow else ""
    if not click.confirm(f"Trust this content{later} with the daemon's own rights?", default=False, err=True):
        raise click.Abort
    return digest


def _permissions(named: dict[str, tuple[str, ...]], memory_mb: int | None) -> dict[str, object]:
    keys = {"network": "network", "secret": "secrets", "read": "read", "write": "write", "call": "calls"}
    wanted: dict[str, object] = {keys[option]: list(values) for option, values in named.items() if values}
    return wanted | ({"memory_mb": memory_mb} if memory_mb is not None else {})


def _show_granted(screen: Screen, answer: admin_pb2.GrantPluginResponse) -> None:
    if screen.as_json:
        screen.document(message_json(answer))
        return
    _show_standing(screen, answer.plugin)
    show_files_and_permissions(screen, answer.plugin)


def _show_standing(screen: Screen, plugin: admin_pb2.Plugin) -> None:
    reason = f": {plugin.reason}" if plugin.reason else ""
    screen.line(f"{plugin.name} is {plugin.state}{reason}", style=plugin.state)
    if plugin.remedy:
        screen.line(f"    {plugin.remedy}")
