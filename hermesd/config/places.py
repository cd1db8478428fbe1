"""Where things are when nobody says. Imports next to nothing, so that clients start fast."""

from __future__ import annotations

from collections.abc import Mapping

SOCKET_NAME = "hermesd.sock"


def client_addresses(environ: Mapping[str, str], is_root: bool) -> list[str]:
    """Where a client looks for the daemon, in this order: the first that exists is meant.

    Root and others look at the same places; which of them a daemon chose depended on who it is.
    """
    folders = [each for each in environ.get("RUNTIME_DIRECTORY", "").split(":") if each.startswith("/")]
    session = environ.get("XDG_RUNTIME_DIR", "")
    if session.startswith("/"):
        folders.append(f"{session.rstrip('/')}/hermesd")
    folders.append("/run/hermesd")
    return [f"unix:{folder.rstrip('/')}/{SOCKET_NAME}" for folder in folders]
