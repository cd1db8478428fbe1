"""Commands that are imported only when they run, and flags that may stand before or after the verb."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import click

from hermesd.errors import HermesdError, RejectedError
from hermesd.model.name import nearest
from hermesd.model.text import clean
from hermesd.terminal.exit_status import ExitStatus

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is defined (`module:attribute`), and its one line in the help of its group."""

    target: str
    summary: str

    def load(self) -> click.Command:
        module, _, attribute = self.target.partition(":")
        return cast("click.Command", getattr(importlib.import_module(module), attribute))


class LazyGroup(click.Group):
    """A group that lists its commands without importing them, in the order in which they were given."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy] | None = None, **attributes: Any) -> None:
        attributes.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*args, **attributes)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.lazy, *(name for name in self.commands if name not in self.lazy)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = self.commands.get(cmd_name)
        if known is None and cmd_name in self.lazy:
            known = self.commands[cmd_name] = self.lazy[cmd_name].load()
        return known

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.list_commands(ctx) and not name.startswith("-") and not ctx.resilient_parsing:
            near = nearest(name, self.list_commands(ctx), 1)
            ctx.fail(f"no command {name!r}" + (f", did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self._summary(name)) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def _summary(self, name: str) -> str:
        if name in self.lazy:
            return self.lazy[name].summary
        return self.commands[name].get_short_help_str(80)


class RootGroup(LazyGroup):
    """The executable: turns whatever a command returns or raises into the exit status of the contract."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        try:
            answer = super().main(args, prog_name or "hermesd", complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
            status = int(answer) if isinstance(answer, int) else ExitStatus.DONE
        except BrokenPipeError:
            _abandon_stdout()
            status = ExitStatus.FAILED
        except Exception as error:  # noqa: BLE001 - the boundary: known errors become a status, others raise
            status = status_of(error)
        sys.exit(int(status))


class Failure(click.ClickException):
    """What was asked failed: the message, what to do about it, and the exit status."""

    def __init__(self, message: str, remedy: str = "", status: ExitStatus = ExitStatus.FAILED) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.status = status


def status_of(error: Exception) -> int:
    """Say on stderr what went wrong, with its remedy, and give the exit status. Unknown errors are raised."""
    if isinstance(error, click.exceptions.Abort):
        interrupted = isinstance(error.__cause__, KeyboardInterrupt)
        return ExitStatus.INTERRUPTED if interrupted else ExitStatus.FAILED
    if isinstance(error, Failure):
        report(error.message, error.remedy)
        return error.status
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, RejectedError):
        for each in error.rejections:
            report(str(each))
        return ExitStatus.FAILED
    if isinstance(error, HermesdError):
        report(error.message, error.remedy)
        return ExitStatus.FAILED
    if isinstance(error, OSError) and error.filename is not None:
        report(f"{error.filename}: {error.strerror}")
        return ExitStatus.FAILED
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        _abandon_stdout()
        report(f"the output cannot be written: {error.strerror}")
        return ExitStatus.FAILED
    raise error


def report(message: str, remedy: str = "") -> None:
    """An error and what to do about it, on stderr."""
    click.echo(f"hermesd: {clean(message)}", err=True)
    if remedy:
        click.echo(f"  {clean(remedy)}", err=True)


def _abandon_stdout() -> None:
    """Let the interpreter's last flush go nowhere: whoever read us has gone, as `| head` does, or is full."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
