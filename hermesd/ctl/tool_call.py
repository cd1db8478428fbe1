"""`ctl tools call`: one call, its data on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import click

from hermesd.api.v1 import tool_pb2
from hermesd.client.error import MissingError
from hermesd.ctl.arguments import arguments_json
from hermesd.ctl.complete import complete_tool
from hermesd.ctl.connection import connect, whole_list
from hermesd.ctl.flag import MAX_INT32, CtlCommand
from hermesd.ctl.message import message_json
from hermesd.model.deprecation import FIELDS, Deprecation
from hermesd.model.handover import model_name
from hermesd.terminal.exit_status import ExitStatus
from hermesd.terminal.screen import Screen, escape_json, json_text

if TYPE_CHECKING:
    from hermesd.client import Client

_STATUSES = {
    "OK": ExitStatus.DONE,
    "PERMISSION_DENIED": ExitStatus.DENIED,
    "CONFIRMATION_REQUIRED": ExitStatus.CONFIRMATION_REQUIRED,
}

#: Longer than any call that a daemon allows.
LONGEST_CALL_S = 24 * 3600.0


class Options(TypedDict):
    """What a call may be given beside its arguments."""

    session_id: str
    timeout_ms: int | None
    timeout_s: float | None
    idempotency_key: str
    confirmation_token: str
    request_id: str


@click.command(
    cls=CtlCommand,
    help="""Call the tool NAME and print its data as JSON.

\b
Arguments:  --args '{"id": 7}'   a JSON object
            --args @FILE         from a file
            --args -             from stdin
            key=value            a text; key:=JSON anything else

NAME may also be the name that `tools list --format` gave the tool for a model.
A result that is too long for a model is printed as far as a model would see it, unless --full is given.
On failure the code, every fault of the arguments and the remedy go to stderr, and the exit status is 1
(4 not allowed, 5 a confirmation is required).""",
    short_help="Call a tool and print its data.",
)
@click.argument("name", shell_complete=complete_tool)
@click.argument("words", nargs=-1, metavar="[key=value | key:=JSON]...")
@click.option("--args", metavar="JSON", help="All arguments as one JSON object, @FILE or - for stdin.")
@click.option("--session", default="", metavar="ID", help="Session that the call belongs to.")
@click.option("--timeout-ms", type=click.IntRange(1, MAX_INT32), help="Bound of the whole call.")
@click.option(
    "--idempotency-key",
    default="",
    metavar="KEY",
    help="The same key again brings the same answer and runs nothing.",
)
@click.option(
    "--confirm", default="", metavar="TOKEN", help="Token of the confirmation that a call asked for."
)
@click.option("--stream", is_flag=True, help="Show log lines on the way and, on a terminal, progress.")
@click.option("--full", is_flag=True, help="Print all of a result that was cut.")
@click.option(
    "--detach", is_flag=True, help="Print the call's id at once and let it go on; see `calls watch`."
)
@click.option(
    "--request-id", default="", metavar="ID", help="Name of the call; default: the daemon makes one."
)
@click.pass_context
def call(
    ctx: click.Context,
    *,
    name: str,
    words: tuple[str, ...],
    args: str | None,
    session: str,
    timeout_ms: int | None,
    idempotency_key: str,
    confirm: str,
    stream: bool,
    full: bool,
    detach: bool,
    request_id: str,
) -> ExitStatus:
    if stream and detach:
        raise click.UsageError(
            "--stream and --detach exclude each other: `calls watch` shows a detached call"
        )
    arguments = arguments_json(args, words, sys.stdin)
    options: Options = {
        "session_id": session,
        "timeout_ms": timeout_ms,
        # The daemon bounds every call; a shorter deadline here would cut tools that may take longer.
        "timeout_s": LONGEST_CALL_S if timeout_ms is None else None,
        "idempotency_key": idempotency_key,
        "confirmation_token": confirm,
        "request_id": request_id,
    }
    with connect(ctx) as (daemon, screen):
        if "." not in name:
            name = _own_name(daemon, name)
        if stream:
            events = daemon.stream_call_tool(name, arguments, **options)
            result = followed(screen, events, lambda each: _complete(daemon, each, full))
        else:
            answer = daemon.call_tool(name, arguments, detach=detach, **options).response
            result = answer.result
            _complete(daemon, result, full)
            if screen.as_json:
                screen.document(message_json(answer))
    if not screen.as_json:
        if detach and result.code == "OK" and json.loads(result.detail_json).get("detached"):
            screen.line(result.request_id)
        else:
            show_result(screen, result)
    return status_of(result)


def status_of(result: tool_pb2.Result) -> ExitStatus:
    """The exit status that tells how a call ended."""
    return _STATUSES.get(result.code, ExitStatus.FAILED)


def _complete(daemon: Client, result: tool_pb2.Result, full: bool) -> None:
    """Put what was cut back, as far as it was kept."""
    if not full or not result.truncated:
        return
    try:
        data = daemon.call_output(result.request_id)
        content = daemon.call_output(result.request_id, part="content") if result.content else "[]"
    except MissingError:
        return
    result.data_json = data
    for part, whole in zip(result.content, json.loads(content), strict=True):
        part.text = whole.get("text", "")
    result.truncated = False


def _own_name(daemon: Client, given: str) -> str:
    """The tool that a model knows as `given`: what `tools list --format` handed out comes back here."""
    tools = whole_list(lambda size, token: daemon.list_tools(page_size=size, page_token=token)).tools
    return next((each.name for each in tools if model_name(each.name) == given), given)


def show_result(screen: Screen, result: tool_pb2.Result) -> None:
    """Data on stdout when the tool answered; otherwise what was wrong and what to do, on stderr."""
    if result.code == "OK":
        if result.data_json != "null" or not result.content:
            show_data(screen, result.data_json)
            for text in content_lines(result):
                screen.note(text)
        else:
            for text in content_lines(result):
                screen.line(text)
        for text in remark_lines(result):
            screen.note(text)
        return
    for text in failure_lines(result):
        screen.note(text)


def remark_lines(result: tool_pb2.Result) -> Iterable[str]:
    """What the data alone does not say: that the tool did not run for it, and what is missing."""
    detail = json.loads(result.detail_json or "{}")
    if detail.get("replayed"):
        yield f"nothing ran: this is the answer of the call {detail.get('replayed_from')}, which had this key"
    if detail.get("degraded"):
        yield f"not the tool's own answer, its fallback ({detail.get('fallback')}): {detail.get('reason')}"
    if leaving := detail.get("deprecated"):
        yield f"{result.tool} is {Deprecation(*(str(leaving.get(key, '')) for key in FIELDS))}"
    if result.truncated:
        lost = (detail.get("output") or {}).get("lost")
        whole = f"all of it: hermesd ctl calls output {result.request_id}"
        yield f"the result was cut; {f'the rest is lost: {lost}' if lost else whole}"


def content_lines(result: tool_pb2.Result) -> Iterable[str]:
    """What the tool shows, as far as lines can show it."""
    for part in result.content:
        if part.type == "text":
            yield from part.text.splitlines()
        elif part.type == "image":
            yield f"[{part.mime_type}, {len(part.data)} bytes]"
        else:
            yield f"[{part.title or part.name}: {part.uri}]"


def show_data(screen: Screen, data_json: str) -> None:
    """JSON: indented on a terminal, as the tool answered it in a pipe."""
    if screen.interactive:
        screen.raw(json_text(json.loads(data_json), indent=2))
    else:
        screen.raw(escape_json(data_json))


def failure_lines(result: tool_pb2.Result) -> Iterable[str]:
    """What a person needs to make the next call right."""
    detail = json.loads(result.detail_json or "{}")
    own = f" ({detail['code']})" if detail.get("code") else ""  # the code that the tool itself gave
    yield f"{result.code}{own}: {result.message}"
    for fault in detail.get("faults") or []:
        yield from _fault_lines(fault)
    if detail.get("nearest"):
        yield f"  did you mean {', '.join(map(str, detail['nearest']))}?"
    for key in ("reason", "summary", "confirmation_token", "expires_at", "retry_after_ms", "remedy"):
        if detail.get(key):
            yield f"  {key}: {detail[key]}"
    if detail.get("confirmation_token"):
        yield "  with ctl: the same command, and --confirm with the token"
    if result.attempts > 1:
        yield f"  attempts: {result.attempts}"
    if result.effect == "unknown":
        yield "  effect: unknown; the tool may have done its work, look before you call again"
    elif result.effect == "done":
        yield "  effect: done; the tool has done its work, do not call again"
    yield f"  request_id: {result.request_id}"


def _fault_lines(fault: Mapping[str, Any]) -> Iterable[str]:
    problem, got = str(fault.get("problem")), json.dumps(fault.get("got"), ensure_ascii=False)
    said = "" if got == "null" or got in problem else f" (got {got})"
    yield f"  {fault.get('path') or '/'}: {problem}{said}"
    if fault.get("ask_user"):
        yield "      do not make it up: ask the user"
    if fault.get("hint"):
        yield f"      {fault['hint']}"


def followed(
    screen: Screen,
    events: Iterable[tool_pb2.StreamCallToolResponse | tool_pb2.WatchCallResponse],
    complete: Callable[[tool_pb2.Result], None] | None = None,
) -> tool_pb2.Result:
    """Show what a call says, and return its result; `complete` may add to that before it is shown."""
    result = tool_pb2.Result()
    for event in events:
        if complete is not None and event.HasField("result"):
            complete(event.result)
        if screen.as_json:
            screen.record(message_json(event))
        elif event.HasField("progress"):
            screen.progress(_progress(event.progress))
        elif event.HasField("log"):
            fields = f" {event.log.fields_json}" if event.log.fields_json not in ("", "{}") else ""
            screen.note(f"{event.log.level}: {event.log.message}{fields}")
        if event.HasField("result"):
            result = event.result
    screen.progress("")
    return result


def _progress(progress: tool_pb2.CallProgress) -> str:
    if progress.HasField("total") and progress.total > 0:
        share = min(100, int(100 * progress.done / progress.total))
        return f"{share:3d}% {progress.message}".rstrip()
    return f"{progress.done:g} {progress.message}".rstrip()
