"""`ctl calls stats`: how calls went."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import click

from hermesd.api.v1 import call_pb2
from hermesd.ctl.call_view import filters
from hermesd.ctl.connection import connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json, time_text
from hermesd.terminal.screen import Screen

#: As many tools as a person reads; --json has them all.
SHOWN = 30


@click.command(
    cls=CtlCommand,
    help="""Show how calls went: durations (p50, p95, p99), success and every kind of failure, by tool; which
tools nobody calls, and which are called wrongly most often.""",
    short_help="Show how calls went, by tool and by failure.",
)
@filters
@click.pass_context
def stats(
    ctx: click.Context,
    *,
    tool: str,
    agent: str,
    session: str,
    plugin: str,
    since: datetime | None,
    until: datetime | None,
) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.get_call_stats(
            tool=tool, agent=agent, session_id=session, plugin=plugin, since=since, until=until
        )
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        show_stats(screen, answer)


def show_stats(screen: Screen, stats: call_pb2.GetCallStatsResponse) -> None:
    """The view for people."""
    if not stats.calls:
        screen.line("no calls")
    else:
        first = f" since {time_text(stats.first)}" if stats.HasField("first") else ""
        screen.line(f"{stats.calls} calls{first}, {_success(stats.codes, stats.calls)}", style="bold")
        screen.line(f"p50 {stats.p50_ms:.1f} ms, p95 {stats.p95_ms:.1f} ms, p99 {stats.p99_ms:.1f} ms")
    if stats.tools:
        screen.line()
        rows = [
            (
                each.tool, str(each.calls), f"{100 * each.codes.get('OK', 0) / each.calls:.0f}%",
                f"{each.p50_ms:.1f}", f"{each.p95_ms:.1f}", f"{each.p99_ms:.1f}", _failures(each.codes),
            )
            for each in stats.tools[:SHOWN]
        ]  # fmt: skip
        screen.table(("TOOL", "CALLS", "OK", "P50", "P95", "P99", "FAILURES"), rows)
        _more(screen, len(stats.tools))
    if stats.miscalled:
        screen.line()
        screen.line("called wrongly", style="bold")
        wrong = [
            (each.tool, each.code, f"{each.count} of {each.calls}", each.example) for each in stats.miscalled
        ]
        screen.table(("NAME", "CODE", "COUNT", "MOST OFTEN"), wrong)
    if stats.unused_tools:
        screen.line()
        shown = ", ".join(stats.unused_tools[:SHOWN])
        screen.line(f"never called ({len(stats.unused_tools)}): {shown}")
        _more(screen, len(stats.unused_tools))


def _success(codes: Mapping[str, int], calls: int) -> str:
    failures = _failures(codes)
    share = f"{100 * codes.get('OK', 0) / calls:.1f}% OK"
    return f"{share}; {failures}" if failures else share


def _failures(codes: Mapping[str, int]) -> str:
    failed = sorted(((count, code) for code, count in codes.items() if code != "OK"), reverse=True)
    return ", ".join(f"{code} {count}" for count, code in failed)


def _more(screen: Screen, count: int) -> None:
    if count > SHOWN:
        screen.line(f"and {count - SHOWN} more: --json has them all")
