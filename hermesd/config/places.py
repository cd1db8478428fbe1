"""Where things are when nobody says: pure functions of the environment and of being root.

Imports nothing heavy: `hermesd ctl` uses it on every start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SOCKET = "hermesd.sock"
CONFIG_NAMES = ("hermesd.yaml", "hermesd.yml", "hermesd.json")


def config_path(explicit: Path | None, environ: Mapping[str, str], is_root: bool) -> tuple[Path, ...]:
    """The candidates for the configuration file, best first.

    One alone when it was named, by an option or `HERMESD_CONFIG`: then it must exist.
    """
    named = explicit or (Path(environ["HERMESD_CONFIG"]) if environ.get("HERMESD_CONFIG") else None)
    if named is not None:
        return (named,)
    folder = config_folder(environ, is_root)
    return tuple(folder / name for name in CONFIG_NAMES) if folder is not None else ()


def is_config_named(explicit: Path | None, environ: Mapping[str, str]) -> bool:
    """Whether somebody named the file, so that its absence is an error."""
    return explicit is not None or bool(environ.get("HERMESD_CONFIG"))


def config_folder(environ: Mapping[str, str], is_root: bool) -> Path | None:
    """`/etc/hermesd`, or the user's own; None when the environment names no home."""
    return Path("/etc/hermesd") if is_root else _user_folder(environ, "XDG_CONFIG_HOME", ".config")


def data_dir(environ: Mapping[str, str], is_root: bool) -> Path | None:
    """Where the data is kept unless an option or the configuration says; None when nothing names a place."""
    state = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if state:
        return Path(state)
    return Path("/var/lib/hermesd") if is_root else _user_folder(environ, "XDG_STATE_HOME", ".local/state")


def listen_address(environ: Mapping[str, str], is_root: bool) -> str | None:
    """The socket that `serve` listens on unless it is told; None when nothing names a place for it."""
    runtime = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    if runtime:
        return f"unix:{Path(runtime) / SOCKET}"
    if is_root:
        return f"unix:/run/hermesd/{SOCKET}"
    return _user_socket(environ)


def plugin_dirs(explicit: Path | None, environ: Mapping[str, str], is_root: bool) -> tuple[str, ...]:
    """Where plugins are dropped when nobody says: `plugins` in the usual folder of the configuration.

    None when a configuration file was named: then it alone says where plugins are.
    """
    folder = config_folder(environ, is_root)
    return () if is_config_named(explicit, environ) or folder is None else (str(folder / "plugins"),)


def client_addresses(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where a client looks for the daemon, in order: the first whose socket exists.

    One alone when `HERMESD_ADDRESS` names it.
    """
    if environ.get("HERMESD_ADDRESS"):
        return (environ["HERMESD_ADDRESS"],)
    found = []
    if runtime := environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]:
        found.append(f"unix:{Path(runtime) / SOCKET}")
    if user := _user_socket(environ):
        found.append(user)
    found.append(f"unix:/run/hermesd/{SOCKET}")
    return tuple(dict.fromkeys(found))


def _user_socket(environ: Mapping[str, str]) -> str | None:
    """In the user's runtime folder; where no login made one, as in a container, with the user's state."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return f"unix:{Path(runtime) / 'hermesd' / SOCKET}"
    state = _user_folder(environ, "XDG_STATE_HOME", ".local/state")
    return f"unix:{state / SOCKET}" if state is not None else None


def _user_folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    """The XDG folder. A relative value is to be ignored, says the XDG specification."""
    named = environ.get(variable, "")
    if named.startswith("/"):
        return Path(named) / "hermesd"
    home = environ.get("HOME", "")
    return Path(home) / below_home / "hermesd" if home.startswith("/") else None
