"""The way to the daemon: one client for one command, opened late and closed always."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from hermesd.ctl.flag import Flags
from hermesd.errors import HermesdError, InvalidRequestError
from hermesd.terminal.command import Failure
from hermesd.terminal.exit_status import ExitStatus
from hermesd.terminal.screen import Screen

if TYPE_CHECKING:
    from hermesd.client import Client

#: A page of a list is as large as the daemon allows.
PAGE_SIZE = 1000
#: Of calls a completion offers no more than a person would read.
LAST_CALLS = 50
MAX_TOKEN_BYTES = 16 * 1024


@contextlib.contextmanager
def connect(ctx: click.Context) -> Iterator[tuple[Client, Screen]]:
    """A client for the daemon that the flags and the environment name, and the screen to answer on.

    Raises Failure with the exit status of the contract for whatever the client raises, UsageError for an
    address or token file that is none.
    """
    from hermesd.client import (  # noqa: PLC0415 - grpc: 90 ms that --help and usage errors do not pay
        ClientError,
        ConnectionLostError,
        NotAllowedError,
        UnreachableError,
    )

    flags = Flags.of(ctx)
    screen = Screen.of_process(os.environ, as_json=flags.as_json)
    try:
        with _client(flags) as client:
            yield client, screen
    except UnicodeEncodeError as error:
        # A shell hands bytes over; what is no UTF-8 among them cannot travel.
        raise click.UsageError(f"{error.object[:100]!r} is no UTF-8") from None
    except (UnreachableError, ConnectionLostError) as error:
        raise Failure(error.message, error.remedy, ExitStatus.UNREACHABLE) from error
    except NotAllowedError as error:
        raise Failure(error.message, error.remedy, ExitStatus.DENIED) from error
    except ClientError as error:
        raise Failure(error.message, error.remedy) from error


def whole_list(fetch: Callable[[int, str], Any]) -> Any:
    """One response that holds every page's items: `fetch(page_size, page_token)` gives one page."""
    whole = fetch(PAGE_SIZE, "")
    while whole.next_page_token:
        page = fetch(PAGE_SIZE, whole.next_page_token)
        whole.next_page_token = ""
        whole.MergeFrom(page)
    return whole


Kind = Literal["tools", "plugins", "confirmations", "agents", "calls", "calls in flight"]


def names(ctx: click.Context, kind: Kind, timeout_s: float) -> list[str]:
    """What all of a kind are called, for completion: [] when no daemon answers in `timeout_s`."""
    # A shell shows whatever a completion writes in the middle of the line that somebody types.
    silent = contextlib.suppress(HermesdError, click.ClickException, OSError)
    with silent, _client(Flags.of(ctx), timeout_s) as client:
        return list(_NAMES[kind](client))
    return []


_NAMES: Mapping[Kind, Callable[[Client], Iterable[str]]] = {
    "tools": lambda client: (each.name for each in client.tools(include_unavailable=True)),
    "plugins": lambda client: (each.name for each in client.plugins()),
    "agents": lambda client: (each.name for each in client.agents()),
    "confirmations": lambda client: (each.id for each in client.confirmations()),
    "calls": lambda client: (each.request_id for each in client.list_calls(page_size=LAST_CALLS).calls),
    "calls in flight": lambda client: (
        each.request_id for each in client.list_calls(page_size=LAST_CALLS).calls if each.state != "ended"
    ),
}


def _client(flags: Flags, timeout_s: float | None = None) -> Client:
    from hermesd.client import Client, Tls  # noqa: PLC0415 - see above

    token = _token(flags.token_file) if flags.token_file else None
    files = (flags.ca_file, flags.cert_file, flags.key_file)
    tls = Tls(*files) if any(files) else None
    try:
        if timeout_s is not None:
            return Client(flags.address, token=token, tls=tls, timeout_s=timeout_s)
        return Client(flags.address, token=token, tls=tls)
    except InvalidRequestError as error:
        raise click.UsageError(f"{error.message}; {error.remedy}") from None


def _token(path: Path) -> str:
    """The token in a file, without the line break that editors add."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_TOKEN_BYTES + 1)
        text = data.decode("ascii").strip()
    except OSError as error:
        raise click.UsageError(f"--token-file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"--token-file: {path} holds no token") from None
    if not text or len(data) > MAX_TOKEN_BYTES or not text.isprintable() or " " in text:
        raise click.UsageError(f"--token-file: {path} holds no token")
    return text
