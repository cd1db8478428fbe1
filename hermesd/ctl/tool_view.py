"""`ctl tools list` and `show`."""

from __future__ import annotations

import json

import click

from hermesd.api.v1 import tool_pb2
from hermesd.ctl.complete import complete_tool
from hermesd.ctl.connection import connect, whole_list
from hermesd.ctl.flag import CtlCommand
from hermesd.ctl.message import message_json, time_text
from hermesd.model.deprecation import Deprecation
from hermesd.model.handover import FORMATS, Format, handed_over
from hermesd.terminal.screen import Screen


@click.command(
    name="list",
    cls=CtlCommand,
    help="List all tools with their states, those that cannot be called now too.",
    short_help="List the tools with their states.",
)
@click.option("--ready", is_flag=True, help="Only tools that can be called now.")
@click.option(
    "--source", default="", metavar="KIND", help="Only tools of this kind of source, such as python."
)
@click.option("--domain", default="", metavar="NAME", help="Only tools of this domain.")
@click.option(
    "--format",
    "to",
    type=click.Choice(FORMATS),
    help="Definitions of the tools that can be called now, ready to hand to a model.",
)
@click.pass_context
def list_tools(ctx: click.Context, ready: bool, source: str, domain: str, to: Format | None) -> None:
    with connect(ctx) as (daemon, screen):
        answer = whole_list(
            lambda size, token: daemon.list_tools(
                page_size=size,
                page_token=token,
                include_unavailable=not (ready or to),
                source=source,
                domain=domain,
            )
        )
    if to is not None:
        screen.document([_handed_over(each, to) for each in answer.tools])
        return
    if screen.as_json:
        screen.document(message_json(answer))
        return
    screen.table(
        ["TOOL", "VERSION", "STATE", "EFFECTS", "TOKENS", "PLUGIN", "DESCRIPTION"],
        [
            [
                each.name,
                each.version,
                each.state,
                each.side_effects,
                str(each.tokens),
                each.plugin,
                each.reason or _deprecated(each) or _first_line(each.description),
            ]
            for each in answer.tools
        ],
        state_column=2,
    )
    screen.line(
        f"{len(answer.tools)} tools, about {answer.tokens} tokens for a model that is shown all of them"
    )


def _handed_over(tool: tool_pb2.Tool, to: Format) -> dict[str, object]:
    returns = json.loads(tool.returns_json) if tool.returns_json else None
    return handed_over(tool, json.loads(tool.parameters_json), returns, to)


@click.command(
    name="show",
    cls=CtlCommand,
    help="Show one tool's whole definition and where it stands.",
    short_help="Show one tool's whole definition.",
)
@click.argument("name", shell_complete=complete_tool)
@click.pass_context
def show_tool(ctx: click.Context, name: str) -> None:
    with connect(ctx) as (daemon, screen):
        answer = daemon.get_tool(name)
    if screen.as_json:
        screen.document(message_json(answer))
    else:
        show_definition(screen, answer.tool)


def show_definition(screen: Screen, tool: tool_pb2.Tool) -> None:
    """The view for people: state, texts, parameters, schemas."""
    screen.line(f"{tool.name} {tool.version}", style="bold")
    reason = f": {tool.reason}" if tool.reason else ""
    screen.line(f"{tool.state} since {time_text(tool.since)}{reason}", style=tool.state)
    if tool.remedy:
        screen.line(f"    {tool.remedy}")
    for name, text in _facts(tool):
        if text:
            screen.line(f"{name:<16} {text}")
    _show_parameters(screen, tool)
    for each in tool.examples:
        screen.line(f"example          {each.user_says!r} → {each.arguments_json}")
    if tool.returns_json:
        screen.line(f"returns          {tool.returns_json}")


def _rate(tool: tool_pb2.Tool) -> str:
    rate = tool.rate_limit
    return f"{rate.calls} calls every {rate.per_s:g} s" if tool.HasField("rate_limit") else ""


def _facts(tool: tool_pb2.Tool) -> list[tuple[str, str]]:
    traits = [word for word in ("idempotent", "retryable") if getattr(tool, word)]
    return [
        ("title", tool.title),
        ("description", tool.description),
        ("when to use", tool.when_to_use),
        ("when not to use", tool.when_not_to_use),
        ("side effects", ", ".join([tool.side_effects, *traits])),
        ("confirmed by", tool.confirm.replace("none", "")),
        ("timeout", f"{tool.timeout_ms} ms" if tool.HasField("timeout_ms") else tool.timeout_class),
        ("at once", str(tool.max_concurrency) if tool.HasField("max_concurrency") else ""),
        ("retry", tool.retry_json),
        ("circuit breaker", tool.circuit_breaker_json),
        ("fallback", tool.fallback_json),
        ("rate", _rate(tool)),
        ("depends on", ", ".join(tool.depends_on)),
        ("for roles", ", ".join(tool.roles)),
        ("requires", ", ".join(f"{each.kind} {each.name}" for each in tool.requires)),
        ("deprecated", _deprecated(tool)),
        ("tags", ", ".join(tool.tags)),
        ("tokens", f"about {tool.tokens}"),
        ("plugin", f"{tool.plugin} ({tool.source})"),
        ("digest", tool.digest),
    ]


def _deprecated(tool: tool_pb2.Tool) -> str:
    if not tool.HasField("deprecated"):
        return ""
    said = tool.deprecated
    return str(Deprecation(said.since, said.use, said.remove_after))


def _show_parameters(screen: Screen, tool: tool_pb2.Tool) -> None:
    schema = json.loads(tool.parameters_json or "{}")
    properties = schema.get("properties") or {}
    if not properties:
        return
    required = schema.get("required") or []
    screen.line()
    screen.table(
        ["PARAMETER", "TYPE", "REQUIRED", "DESCRIPTION"],
        [
            [
                name,
                _type_of(each),
                "yes" if name in required else "no",
                tool.parameter_guide.get(name, "") or str(each.get("description", "")),
            ]
            for name, each in properties.items()
            if isinstance(each, dict)
        ],
    )
    screen.line()


def _type_of(schema: dict[str, object]) -> str:
    """What may be given, in a few words: the values where they are listed, else the type or types."""
    for key in ("enum", "const", "type", "$ref"):
        if key in schema:
            value = schema[key]
            if key == "type" and isinstance(value, list):
                return " or ".join(map(str, value))
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        return " or ".join(_type_of(each) if isinstance(each, dict) else "any" for each in choices)
    return "any"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
