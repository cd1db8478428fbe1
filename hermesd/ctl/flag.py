"""Flags that every `ctl` command takes, before or after the verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hermesd.terminal.command import CONTEXT_SETTINGS, LazyGroup

_META = "hermesd.ctl."
TLS_FILES = (
    ("ca_file", "Authority of the daemon's certificate, in PEM; the connection is then encrypted."),
    ("cert_file", "Our own certificate in PEM, for a daemon that asks for one."),
    ("key_file", "Its private key in PEM."),
)
#: What the API's numbers hold.
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Flags:
    """What was said on the command line; None and False where nothing was said."""

    address: str | None
    token_file: Path | None
    as_json: bool
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    @classmethod
    def of(cls, ctx: click.Context) -> Flags:
        """The flags of this invocation, wherever on the line they stood; the one nearest the end wins."""
        meta = ctx.meta
        return cls(
            meta.get(_META + "address"),
            meta.get(_META + "token_file"),
            bool(meta.get(_META + "as_json")),
            *(meta.get(_META + name) for name in ("ca_file", "cert_file", "key_file")),
        )


def _flags(*, hidden: bool) -> list[click.Parameter]:
    return [
        click.Option(
            ["--address"],
            metavar="ADDR",
            help="The daemon: unix:PATH or HOST:PORT. Default: HERMESD_ADDRESS, else its usual socket.",
            expose_value=False,
            callback=_remember("address"),
            hidden=hidden,
        ),
        click.Option(
            ["--token-file"],
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File that holds the token to show.",
            expose_value=False,
            callback=_remember("token_file"),
            hidden=hidden,
        ),
        *(
            click.Option(
                [f"--{name.replace('_', '-')}"],
                metavar="FILE",
                type=click.Path(path_type=Path, dir_okay=False),
                help=told,
                expose_value=False,
                callback=_remember(name),
                hidden=hidden,
            )
            for name, told in TLS_FILES
        ),
        click.Option(
            ["--json", "as_json"],
            is_flag=True,
            help="Print one JSON document (streams: one a line).",
            expose_value=False,
            callback=_remember("as_json"),
            hidden=hidden,
        ),
    ]


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        # `meta` is one dictionary for the whole line; an absent flag must not undo one said further left.
        if value:
            ctx.meta[_META + name] = value

    return keep


class CtlCommand(click.Command):
    """A command that takes the shared flags; its own help does not repeat them."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        attributes.setdefault("context_settings", CONTEXT_SETTINGS)
        attributes.setdefault("epilog", "Flags of `hermesd ctl --help` may stand here too.")
        super().__init__(*args, **attributes)
        self.params.extend(_flags(hidden=True))


class CtlGroup(LazyGroup):
    """A group whose commands all take the shared flags."""

    command_class = CtlCommand

    def __init__(self, *args: Any, show_flags: bool = False, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params.extend(_flags(hidden=not show_flags))
