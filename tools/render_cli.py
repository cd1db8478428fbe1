"""Write `docs/cli.md` from the commands themselves.

`python -m tools.render_cli` writes the file; a test renders again and compares, so that the page is never
stale. Text of a command's help goes into the page as it is.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import click

from hermesd.__main__ import cli
from hermesd.terminal.exit_status import ExitStatus
from tools.tree import ROOT

PAGE = ROOT / "docs" / "cli.md"

_STATUS = {
    ExitStatus.DONE: "done",
    ExitStatus.FAILED: "what was asked failed: a tool answered an error, a reload holds a rejection",
    ExitStatus.USAGE: "usage: the command line itself is wrong; nothing was sent",
    ExitStatus.UNREACHABLE: "the daemon cannot be reached, or the connection broke",
    ExitStatus.DENIED: "not allowed",
    ExitStatus.CONFIRMATION_REQUIRED: "a confirmation is required",
    ExitStatus.INTERRUPTED: "interrupted with Ctrl-C",
}

_INTRODUCTION = """\
# Command line

<!-- Written by `python -m tools.render_cli`; change the commands, not this page. -->

One executable, `hermesd`, also as `python -m hermesd`. `hermesd serve` is the daemon; `hermesd ctl` talks
to it.

**Output.** Data goes to stdout, everything else to stderr. Text from plugins is shown without escape
sequences, control, direction and unseen characters. Colours and cut columns appear only on a terminal,
colours never when `NO_COLOR` is set.

**Programs.** `--json` prints exactly one JSON document, the response message of the RPC behind the command
with its own field names; streams (`events`, `plugins logs`, `tools call --stream`) print one document a
line. Lists are complete: every page is in the one document. Scalars and lists are there also when they are
empty. What a terminal would obey is escaped (`\\u202e`), the value stays the same. On failure stdout stays
empty, except where the answer itself is the failure (a rejected reload, a tool's error).

**Flags of `ctl`** stand before or after the verb: `ctl --json tools list` and `ctl tools list --json` are
the same.

**The daemon's address** is `--address`, else `HERMESD_ADDRESS`, else the first of
`$RUNTIME_DIRECTORY/hermesd.sock`, `$XDG_RUNTIME_DIR/hermesd/hermesd.sock` (where that variable is not set:
`~/.local/state/hermesd/hermesd.sock`) and `/run/hermesd/hermesd.sock` that exists; a failure names the ones
tried.

**Completion** of commands and flags, of the names of tools, plugins and agents, and of the ids of calls:
`hermesd completion bash`, `zsh` or `fish` prints the script. Names come from the running daemon within 0.2 s,
or not at all.
"""


def render() -> str:
    """The whole page."""
    statuses = "\n".join(f"| {int(status)} | {_STATUS[status]} |" for status in ExitStatus)
    parts = [_INTRODUCTION, f"**Exit status**\n\n| status | means |\n|---|---|\n{statuses}\n"]
    parts.extend(_sections(cli, click.Context(cli, info_name="hermesd")))
    return "\n".join(parts)


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    yield _section(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _sections(child, click.Context(child, info_name=name, parent=context))


def _section(command: click.Command, context: click.Context) -> str:
    depth = min(4, 2 + context.command_path.count(" "))
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"{'#' * depth} `{context.command_path}`", "", *_paragraphs(command.help or "")]
    lines += ["```", f"{context.command_path} {usage}", "```", ""]
    rows = [
        record
        for parameter in command.params
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)) is not None
    ]
    if rows:
        lines += ["| option | |", "|---|---|"]
        lines += [f"| `{_cell(option)}` | {_cell(text)} |" for option, text in rows]
        lines.append("")
    if isinstance(command, click.Group):
        lines += ["| command | |", "|---|---|"]
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                lines.append(f"| `{context.command_path} {name}` | {child.get_short_help_str(200)} |")
        lines.append("")
    return "\n".join(lines)


def _paragraphs(text: str) -> Iterator[str]:
    """Help text as Markdown; what click keeps as it is (after a `\\b` line) becomes a code block."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ["```", *paragraph.split("\n")[1:], "```", ""]
        else:
            yield from [paragraph, ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
