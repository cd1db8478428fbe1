"""`ctl plugins list` and `show`, and how a plugin's content is shown before it is trusted."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import click

from hermesd.api.v1 import admin_pb2
from hermesd.ctl.complete import complete_plugin
from hermesd.ctl.connection import connect, whole_list
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json, time_text
from hermesd.ctl.rejection import show_rejections
from hermesd.ctl.status import show_plugins
from hermesd.model.status import State
from hermesd.terminal.screen import Screen


@click.command(
    name="list",
    cls=CtlCommand,
    help="List all plugins with their states, those in trouble first, and what was refused with its place.",
    short_help="List the plugins with their states.",
)
@click.option(
    "--state",
    type=click.Choice([each.value for each in State]),
    metavar="STATE",
    help="Only plugins in this state, such as rejected.",
)
@click.pass_context
def list_plugins(ctx: click.Context, state: str | None) -> None:
    with connect(ctx) as (daemon, screen):
        answer = whole_list(
            lambda size, token: daemon.list_plugins(page_size=size, page_token=token, state=state or "")
        )
    if screen.as_json:
        screen.document(message_json(answer))
        return
    show_plugins(screen, answer.plugins, datetime.now(UTC))
    for each in answer.plugins:
        show_rejections(screen, each.rejections)


@click.command(
    name="show",
    cls=CtlCommand,
    help="Show one plugin: where it comes from, its content, what it may do, its tools and its faults.",
    short_help="Show one plugin: content, permissions, tools, faults.",
)
@click.argument("name", shell_complete=complete_plugin)
@click.pass_context
def show_plugin(ctx: click.Context, name: str) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.get_plugin(name)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        show_whole_plugin(screen, answer.plugin)


def show_whole_plugin(screen: Screen, plugin: admin_pb2.Plugin) -> None:
    """The view for people."""
    screen.line(f"{plugin.name} {plugin.version}", style="bold")
    reason = f": {plugin.reason}" if plugin.reason else ""
    screen.line(f"{plugin.state} since {time_text(plugin.since)}{reason}", style=plugin.state)
    if plugin.remedy:
        screen.line(f"    {plugin.remedy}")
    show_rejections(screen, plugin.rejections)
    for each in plugin.warnings:
        screen.line(each, style="yellow")
    changed = plugin.found_digest if plugin.found_digest != plugin.digest else ""
    facts = [
        ("origin", " ".join(each for each in (plugin.origin, plugin.source) if each)),
        ("path", plugin.path),
        ("runs", f"{plugin.isolation}{f', pid {plugin.pid}' if plugin.pid else ''}"),
        ("serves", plugin.digest),
        ("found", changed),
        ("generation", str(plugin.generation or "")),
        ("draining", f"{plugin.draining} replaced instances" if plugin.draining else ""),
        ("threads", f"{plugin.stray_threads} outlived their call" if plugin.stray_threads else ""),
        ("tools", ", ".join(plugin.tools)),
    ]
    for name, text in facts:
        if text:
            screen.line(f"{name:<12} {text}")
    show_files_and_permissions(screen, plugin)


def show_files_and_permissions(screen: Screen, plugin: admin_pb2.Plugin) -> None:
    """What the content is made of, what it wants to be allowed, and what of that it is not."""
    for number, file in enumerate(plugin.files):
        screen.line(f"{'files' if number == 0 else '':<12} {file}")
    asked = json.loads(plugin.permissions_json or "{}")
    granted = json.loads(plugin.granted_json or "{}") if plugin.isolation else asked
    lines = [f"{kind}: {_entries(value, granted.get(kind))}" for kind, value in asked.items() if value]
    for number, text in enumerate(lines or ["none"]):
        screen.line(f"{'permissions' if number == 0 else '':<12} {text}")


def _entries(asked: object, granted: object) -> str:
    if not isinstance(asked, list):
        return f"{asked}" if granted is not None else f"{asked} (not granted)"
    held = granted if isinstance(granted, list) else []
    return ", ".join(f"{each}" if each in held else f"{each} (not granted)" for each in asked)
