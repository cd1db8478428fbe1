"""`ctl status`: what runs, and first what needs attention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import click

from hermesd.api.v1 import admin_pb2
from hermesd.ctl.connection import connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json
from hermesd.ctl.phrase import duration, short_digest, since, size
from hermesd.ctl.rejection import show_rejections
from hermesd.terminal.screen import Screen

_TROUBLE = frozenset({"degraded", "unavailable", "rejected"})


@click.command(
    cls=CtlCommand,
    help="Show what the daemon is, what it serves, and first of all what needs attention.",
    short_help="Show what runs, and what needs attention first.",
)
@click.pass_context
def status(ctx: click.Context) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.get_status()
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        show_status(screen, answer, datetime.now(UTC))


def show_status(screen: Screen, answer: admin_pb2.GetStatusResponse, now: datetime) -> None:
    """The view for people."""
    screen.line(
        f"hermesd {answer.version}: {answer.state}, up {duration(answer.uptime_s)}, pid {answer.pid}",
        style="ready" if answer.state == "ready" else "degraded",
    )
    _show_attention(screen, answer, now)
    _show_facts(screen, answer, now)
    if answer.plugins:
        screen.line()
        show_plugins(screen, answer.plugins, now)
    if answer.processes:
        screen.line()
        _show_processes(screen, answer)


def show_plugins(screen: Screen, plugins: Iterable[admin_pb2.Plugin], now: datetime) -> None:
    """One line a plugin, those in trouble first, then by name."""
    ordered = sorted(plugins, key=lambda each: (each.state not in _TROUBLE, each.name))
    screen.table(
        ["PLUGIN", "VERSION", "STATE", "TOOLS", "SINCE", "RUNS", "CONTENT", "REASON"],
        [
            [
                each.name,
                each.version,
                each.state,
                str(len(each.tools)),
                since(each.since, now),
                each.isolation,
                short_digest(each.digest),
                each.reason,
            ]
            for each in ordered
        ],
        state_column=2,
    )


def _show_attention(screen: Screen, answer: admin_pb2.GetStatusResponse, now: datetime) -> None:
    # A ready one with a reason waits for the operator: its content changed, or its folder is unsafe.
    troubled = [
        each
        for each in answer.plugins
        if each.state in _TROUBLE or each.rejections or (each.state == "ready" and each.reason)
    ]
    shown = {_key(each) for plugin in troubled for each in plugin.rejections}
    others = [each for each in answer.reload.rejected if _key(each) not in shown]
    stray = [each for each in answer.plugins if each.stray_threads and each not in troubled]
    if not (troubled or others or answer.warnings or stray or answer.confirmations):
        return
    screen.line()
    screen.line("Needs attention", style="bold")
    for each in [*troubled, *stray]:
        reason = f": {each.reason}" if each.reason else ""
        when = f" since {since(each.since, now).removesuffix(' ago')}" if each.HasField("since") else ""
        screen.line(f"  {each.name} is {each.state}{when}{reason}", style=each.state)
        if each.remedy and each.remedy not in {refused.remedy for refused in each.rejections}:
            screen.line(f"      {each.remedy}")
        if each.stray_threads:
            screen.line(f"      {each.stray_threads} threads outlived the deadline of their call")
        show_rejections(screen, each.rejections, indent="    ")
    if answer.confirmations:
        calls = "1 call waits" if answer.confirmations == 1 else f"{answer.confirmations} calls wait"
        screen.line(f"  {calls} for your agreement: hermesd ctl confirmations list", style="yellow")
    show_rejections(screen, others, indent="  ")
    show_rejections(screen, answer.warnings, style="yellow", indent="  ", kind="warning: ")


def _key(each: admin_pb2.Rejection) -> tuple[str, str, int, str]:
    return (each.name, each.file, each.line, each.reason)


def _show_facts(screen: Screen, answer: admin_pb2.GetStatusResponse, now: datetime) -> None:
    screen.line()
    for address in answer.addresses:
        _fact(screen, "address", address)
    for address in answer.agents_addresses:
        _fact(screen, "for agents", address)
    files = ", ".join(answer.config_files) or "no file: built-in defaults"
    _fact(screen, "config", f"{files} ({short_digest(answer.config_digest)}){_git(answer)}")
    if answer.reload.last_result:
        _fact(screen, "reload", f"{answer.reload.last_result}, {since(answer.reload.at, now)}")
    _fact(screen, "generation", f"{answer.generation}, revision {short_digest(answer.revision)}")
    _fact(screen, "tools", _counts(answer.tools) or "none")
    waiting = f", {answer.calls.waiting} of them waiting" if answer.calls.waiting else ""
    _fact(screen, "calls", f"{answer.calls.inflight} in flight{waiting}, {answer.calls.total} in all")
    for each in answer.crowded:
        behind = f", {each.waiting} waiting" if each.waiting else ""
        _fact(screen, "full", f"{each.scope} {each.name}: {each.running} of {each.places} run{behind}")


def _git(answer: admin_pb2.GetStatusResponse) -> str:
    if not answer.HasField("git"):
        return ""
    return f", commit {answer.git.commit[:12]}{', with changes' if answer.git.dirty else ''}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[state]} {state}" for state in sorted(counts) if counts[state])


def _fact(screen: Screen, name: str, text: str) -> None:
    screen.line(f"{name:<11} {text}")


def _show_processes(screen: Screen, answer: admin_pb2.GetStatusResponse) -> None:
    screen.table(
        ["PROCESS", "PID", "MEMORY", "CPU", "FILES", "THREADS"],
        [
            [
                each.name,
                str(each.pid),
                size(each.rss_bytes),
                f"{each.cpu_percent:.0f}%",
                str(each.fds),
                str(each.threads),
            ]
            for each in answer.processes
        ],
    )
