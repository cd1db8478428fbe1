"""The way to the daemon: one client for one command, opened late and closed always."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import click

from hermesd.ctl.flag import Flags
from hermesd.errors import HermesdError, InvalidRequestError
from hermesd.terminal.screen import Screen

if TYPE_CHECKING:
    from hermesd.client import Client


@contextmanager
def connect(ctx: click.Context) -> Iterator[tuple[Client, Screen]]:
    """A client for the daemon that the flags and the environment name, and the screen to answer on."""
    flags = Flags.of(ctx)
    with _client(flags) as client:
        yield client, Screen.of_process(os.environ, as_json=flags.as_json)
