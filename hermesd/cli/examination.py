"""What `hermesd doctor` examines: each check is a function of what a probe saw; tests need no machine.

A check answers one finding. `fail` means that the daemon cannot work or that its promises cannot hold here;
`warn` means that it works but something will hurt later. Both carry a remedy.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 14)
MIN_OPEN_FILES = 256
GOOD_OPEN_FILES = 4096
GOOD_WATCHES = 8192
GOOD_INSTANCES = 64
MIN_FREE_BYTES = 100 * 1024**2
GOOD_FREE_BYTES = 1024**3


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do unless it is ok."""

    check: str
    state: Literal["ok", "warn", "fail"]
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class PathFacts:
    """What is known of a path: None for `mode` means that it does not exist. Uids are numbers.

    `private_group`: nobody but the owner is in its group.
    """

    path: Path
    mode: int | None
    uid: int = 0
    writable: bool = False
    readable: bool = True
    private_group: bool = False


@dataclass(frozen=True, slots=True)
class Listener:
    """An address that the configuration asks for, and who holds it now ("": nobody).

    `ours`: the holder is the daemon that answers us. `fault`: why nobody could listen there. `weakness`:
    who else could take its place; each with its remedy.
    """

    address: str
    holder: str = ""
    ours: bool = False
    fault: str = ""
    weakness: str = ""
    remedy: str = "make the folder, or choose another address"


def check_python(version: tuple[int, int], *, free_threaded: bool) -> Finding:
    """Only interpreters that grpc supports with a global lock."""
    said = ".".join(map(str, version))
    if free_threaded:
        return Finding(
            "python",
            "fail",
            f"Python {said} without the global interpreter lock",
            "use the usual build: grpc does not support a free-threaded one yet",
        )
    if not OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        return Finding("python", "fail", f"Python {said} is not supported", "use Python 3.11 to 3.14")
    return Finding("python", "ok", f"Python {said}")


def check_open_files(soft: int) -> Finding:
    """Sockets, plugin files and worker pipes need descriptors. `soft` < 0: unlimited."""
    message = "no limit of open files" if soft < 0 else f"{soft} open files allowed"
    if 0 <= soft < MIN_OPEN_FILES:
        return Finding(
            "open files", "fail", message, f"raise it: ulimit -n {GOOD_OPEN_FILES}, or LimitNOFILE="
        )
    if 0 <= soft < GOOD_OPEN_FILES:
        return Finding(
            "open files", "warn", message, f"raise it: ulimit -n {GOOD_OPEN_FILES}, or LimitNOFILE="
        )
    return Finding("open files", "ok", message)


def check_inotify(watches: int | None, instances: int | None) -> Finding:
    """Without enough watches edits are seen only by the rescan, every 10 s."""
    if watches is None or instances is None:
        return Finding(
            "file watching",
            "warn",
            "the kernel does not say what inotify allows",
            "edits may be seen only by the rescan; `hermesd ctl reload` always sees them",
        )
    message = f"{watches} inotify watches and {instances} instances a user"
    if watches < GOOD_WATCHES or instances < GOOD_INSTANCES:
        return Finding(
            "file watching",
            "warn",
            message,
            f"sysctl fs.inotify.max_user_watches={GOOD_WATCHES * 8} fs.inotify.max_user_instances=512",
        )
    return Finding("file watching", "ok", message)


def check_config(path: Path | None, faults: Sequence[str], warnings: Sequence[str]) -> Finding:
    """The configuration as the daemon would read it; `faults` are refusals with their places."""
    where = str(path) if path else "no file: built-in defaults"
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return Finding("configuration", "fail", faults[0] + more, "hermesd check lists them all")
    if warnings:
        return Finding("configuration", "warn", f"{where}: {warnings[0]}", "hermesd check lists them all")
    return Finding("configuration", "ok", where)


def check_not_writable_by_others(check: str, facts: PathFacts, uid: int) -> Finding:
    """Whoever can write here decides what the daemon runs: root or our own user, and nobody else."""
    if facts.mode is None:
        return Finding(check, "warn", f"{facts.path} does not exist", f"mkdir -p -m 0755 {facts.path}")
    if not facts.readable:
        return Finding(check, "fail", f"{facts.path} cannot be read", f"chmod u+rX {facts.path}")
    if facts.uid not in (0, uid):
        return Finding(
            check, "fail", f"{facts.path} belongs to uid {facts.uid}", f"chown it to root or to uid {uid}"
        )
    others = stat.S_IWOTH if facts.private_group else stat.S_IWGRP | stat.S_IWOTH
    if facts.mode & others and not facts.mode & stat.S_ISVTX:
        return Finding(
            check,
            "fail",
            f"{facts.path} can be written by others (mode {stat.S_IMODE(facts.mode):04o})",
            f"chmod go-w {facts.path}",
        )
    return Finding(check, "ok", str(facts.path))


def check_private(check: str, facts: PathFacts, uid: int, *, parent: PathFacts) -> Finding:
    """The data dir: ours, mode 0700, or one that we can make."""
    if facts.mode is None:
        if parent.writable:
            return Finding(check, "ok", f"{facts.path} will be made")
        return Finding(
            check,
            "fail",
            f"{facts.path} does not exist and {parent.path} cannot be written",
            f"install -d -m 0700 -o {uid} {facts.path}, or give --data-dir",
        )
    if facts.uid != uid:
        return Finding(
            check, "fail", f"{facts.path} belongs to uid {facts.uid}", f"chown -R {uid} {facts.path}"
        )
    if not facts.writable:
        return Finding(check, "fail", f"{facts.path} cannot be written", f"chmod u+rwx {facts.path}")
    if facts.mode & 0o077:
        return Finding(
            check,
            "warn",
            f"{facts.path} is open to others (mode {stat.S_IMODE(facts.mode):04o})",
            f"chmod 0700 {facts.path}",
        )
    return Finding(check, "ok", str(facts.path))


def check_key_file(check: str, facts: PathFacts, *, secret: bool) -> Finding:
    """A file of `server.tls`. Whoever reads a private key can pass for this daemon."""
    if facts.mode is None or not facts.readable:
        return Finding(check, "fail", f"{facts.path} cannot be read", "name a readable file in PEM")
    if secret and facts.mode & 0o077 and not facts.private_group:
        message = f"{facts.path} is open to others (mode {stat.S_IMODE(facts.mode):04o})"
        return Finding(check, "warn", message, f"chmod 0600 {facts.path}")
    return Finding(check, "ok", str(facts.path))


def check_agents(active: int, expired: Sequence[str], *, listening: bool) -> Finding:
    """The agents that the running daemon knows."""
    message = f"{active} active" + (f", expired: {', '.join(expired)}" if expired else "")
    if expired:
        return Finding("agents", "warn", message, "hermesd ctl agents revoke NAME, or give it a later end")
    if active and not listening:
        remedy = "set server.agents_listen, so that they need not come to the operator's socket"
        return Finding("agents", "warn", f"{message}, and no address is theirs", remedy)
    return Finding("agents", "ok", message)


def check_disk(path: Path, free_bytes: int, free_inodes: int) -> Finding:
    """A full disk stops every reload. `free_inodes` < 0: the file system does not count them."""
    message = f"{free_bytes // 1024**2} MiB free at {path}"
    if free_bytes < MIN_FREE_BYTES or 0 <= free_inodes < 1000:
        return Finding("disk", "fail", f"{message}, {free_inodes} inodes", "free some space")
    if free_bytes < GOOD_FREE_BYTES:
        return Finding("disk", "warn", message, "free some space, or put data_dir elsewhere")
    return Finding("disk", "ok", message)


def check_clock(now: float, installed_at: float, newest_file_at: float) -> Finding:
    """Seconds since the epoch. A clock that lags makes certificates and records lie."""
    if now < installed_at:
        return Finding(
            "clock",
            "fail",
            "the clock is before the moment hermesd was installed",
            "set the clock (timedatectl)",
        )
    if now + 60 < newest_file_at:
        return Finding(
            "clock",
            "warn",
            "the configuration was modified in the future",
            "set the clock, or touch the file",
        )
    return Finding("clock", "ok", "the clock agrees with the files")


def check_listener(listener: Listener) -> Finding:
    """An address that somebody else holds keeps the daemon from starting."""
    check = f"address {listener.address}"
    if listener.fault:
        return Finding(check, "fail", listener.fault, listener.remedy)
    if listener.holder and not listener.ours:
        return Finding(check, "fail", f"held by {listener.holder}", "stop it, or choose another address")
    if listener.weakness:
        return Finding(check, "warn", listener.weakness, listener.remedy)
    if not listener.holder:
        return Finding(check, "ok", "free")
    return Finding(check, "ok", f"held by {listener.holder}")


def check_socket_group(group: str, fault: str, remedy: str) -> Finding:
    """The group that may use the socket must exist; `fault` says why it does not."""
    if fault:
        return Finding("socket group", "fail", fault, remedy)
    return Finding("socket group", "ok", group)


def check_daemon(answer: Mapping[str, object] | None, fault: str, remedy: str) -> Finding:
    """`answer`: the daemon's state and version; None: it did not answer, `fault` says why."""
    if answer is None:
        return Finding("daemon", "warn", fault, remedy)
    message = f"hermesd {answer.get('version')}, {answer.get('state')}"
    if answer.get("rejected"):
        return Finding("daemon", "warn", f"{message}, the last reload holds rejections", "hermesd ctl status")
    return Finding("daemon", "ok", message)
