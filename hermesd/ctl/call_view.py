"""`ctl calls list` and `show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from hermesd.api.v1 import call_pb2
from hermesd.ctl.complete import complete_agent, complete_call, complete_plugin, complete_tool
from hermesd.ctl.connection import PAGE_SIZE, connect
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json, time_text
from hermesd.ctl.moment import Moment
from hermesd.model.call import Code
from hermesd.terminal.screen import Screen

Command = Callable[..., Any]


class CodeName(click.Choice[str]):
    """A code, in any letter case; completed as the table shows it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(str(value).upper(), param, ctx)


def filters(command: Command) -> Command:
    """The options that `list` and `stats` share."""
    for option in (
        click.option("--until", type=Moment(), help="Only calls that began before this time."),
        click.option("--since", type=Moment(), help="Only calls since then: 2030-01-31, or 15m, 2h, 7d ago."),
        click.option(
            "--plugin", default="", metavar="NAME", shell_complete=complete_plugin,
            help="Only calls of this plugin's tools.",
        ),
        click.option("--session", default="", metavar="ID", help="Only calls of this session."),
        click.option(
            "--agent", default="", metavar="NAME", shell_complete=complete_agent,
            help="Only calls of this agent.",
        ),
        click.option(
            "--tool", default="", metavar="GLOB", shell_complete=complete_tool,
            help="Only calls of these tools, such as 'orders.*'.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command(
    name="list",
    cls=CtlCommand,
    help="""List calls: those in flight first, then those that ended, the last one first.

Secrets are redacted before a call is recorded.""",
    short_help="List calls: in flight, then the last ones.",
)
@filters
@click.option(
    "--code",
    type=CodeName([each.value for each in Code]),
    metavar="CODE",
    help="Only calls that ended so, such as TIMEOUT.",
)
@click.option("--failed", is_flag=True, help="Only calls that did not end with OK.")
@click.option("--parent", default="", metavar="ID", help="Only calls that were made within this one.")
@click.option("--trace", default="", metavar="ID", help="Only calls of this trace.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1, 1_000_000),
    default=50,
    show_default=True,
    help="How many at most.",
)
@click.pass_context
def list_calls(
    ctx: click.Context,
    *,
    tool: str,
    agent: str,
    session: str,
    plugin: str,
    since: datetime | None,
    until: datetime | None,
    code: str | None,
    failed: bool,
    parent: str,
    trace: str,
    lines: int,
) -> None:
    with connect(ctx) as (daemon, screen):
        whole = call_pb2.ListCallsResponse()
        while len(whole.calls) < lines:
            page = daemon.list_calls(
                page_size=min(PAGE_SIZE, lines - len(whole.calls)),
                page_token=whole.next_page_token,
                tool=tool,
                agent=agent,
                code=code or "",
                session_id=session,
                plugin=plugin,
                parent_request_id=parent,
                trace_id=trace,
                since=since,
                until=until,
                failed=failed,
            )
            whole.calls.extend(page.calls)
            whole.next_page_token = page.next_page_token
            if not page.next_page_token:
                break
        del whole.calls[lines:]
    if screen.as_json:
        screen.document(message_json(whole))
        return
    rows = [
        (
            time_text(each.at)[:23].rstrip("Z") + "Z",
            each.tool,
            each.code or each.state,
            each.effect,
            f"{each.duration_ms:.1f}",
            f"{each.agent}{f' ({each.caller})' if each.caller else ''}",
            each.request_id,
        )
        for each in whole.calls
    ]
    if rows:
        screen.table(("AT", "TOOL", "CODE", "EFFECT", "MS", "BY", "REQUEST"), rows)
    else:
        screen.note("no calls")


@click.command(
    name="show",
    cls=CtlCommand,
    help="Show one call by its request id: what was asked and by whom, how it went, and where its time went.",
    short_help="Show one call: what was asked, how it went.",
)
@click.argument("request_id", shell_complete=complete_call)
@click.pass_context
def show_call(ctx: click.Context, request_id: str) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.get_call(request_id)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        show_whole_call(screen, answer.call)


def show_whole_call(screen: Screen, call: call_pb2.CallRecord) -> None:
    """The view for people."""
    screen.line(f"{call.tool} {call.version}".rstrip(), style="bold")
    told = f": {call.message}" if call.message else ""
    screen.line(f"{call.code or call.state}{told}", style="ok" if call.code == "OK" else "warn")
    times = (("queued", call.queued_ms), ("running", call.run_ms), ("in other tools", call.downstream_ms))
    split = ", ".join(f"{value:.1f} {name}" for name, value in times)
    reason = "" if call.reason in call.message else call.reason
    marks = [name for name in ("truncated", "degraded", "replayed") if getattr(call, name)]
    facts = [
        ("reason", reason),
        ("request", call.request_id),
        ("within", call.parent_request_id),
        ("by", f"{call.agent}{f', through the plugin {call.caller}' if call.caller else ''}"),
        ("session", call.session_id),
        ("at", time_text(call.at)),
        ("took", f"{call.duration_ms:.1f} ms: {split}"),
        ("attempts", str(call.attempts)),
        ("effect", call.effect),
        ("answer", ", ".join(marks)),
        ("served by", f"{call.plugin or call.source} in generation {call.generation}"),
        ("trace", f"{call.trace_id} span {call.span_id}"),
        (
            "metadata",
            json.dumps(dict(sorted(call.metadata.items())), ensure_ascii=False) if call.metadata else "",
        ),
        ("fingerprint", call.fingerprint),
        ("arguments", _content(call.arguments, call.arguments_bytes, call.arguments_whole)),
        ("result", _content(call.result, call.result_bytes, call.result_whole)),
    ]
    for name, text in facts:
        if text:
            screen.line(f"{name:<12} {text}")


def _content(text: str, size: int, whole: bool) -> str:
    if not text and not whole:
        return "not kept"
    return text if whole else f"{text} (of {size} bytes, redacted or cut)"
