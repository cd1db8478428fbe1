"""The probes of `hermesd doctor`: what this machine says about itself. They look and change nothing."""

from __future__ import annotations

import os
import resource
import socket
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import hermesd
from hermesd.access.strict_modes import has_private_group
from hermesd.cli.examination import PathFacts


def python_version() -> tuple[int, int]:
    return sys.version_info[0], sys.version_info[1]


def is_free_threaded() -> bool:
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def open_files_limit() -> int:
    """The soft limit; -1: none."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return -1 if soft == resource.RLIM_INFINITY else soft


def inotify_limit(name: str) -> int | None:
    """`max_user_watches` or `max_user_instances`; None where the kernel does not say."""
    try:
        return int(Path("/proc/sys/fs/inotify", name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def path_facts(path: Path) -> PathFacts:
    """What a file or folder is to us; a path that does not exist has no mode."""
    try:
        status = path.stat()
    except OSError:
        return PathFacts(path, None, writable=False, readable=False)
    return PathFacts(
        path,
        status.st_mode,
        status.st_uid,
        writable=os.access(path, os.W_OK | os.X_OK),
        readable=os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK),
        private_group=has_private_group(path, status),
    )


def nearest_folder(path: Path) -> Path:
    """`path`, or the closest folder above it that exists."""
    return next(each for each in (path, *path.parents) if each.is_dir())


def free_space(path: Path) -> tuple[int, int]:
    """Bytes and inodes still free for us on the file system of `path`; inodes -1: not counted."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize, status.f_favail if status.f_files else -1


def installed_at() -> float:
    """When this hermesd was written to disk, seconds since the epoch."""
    return Path(hermesd.__file__).stat().st_mtime


def newest(paths: Iterable[Path]) -> float:
    """The latest modification of those that exist; 0 when none does."""
    return max((each.stat().st_mtime for each in paths if each.exists()), default=0.0)


def listening_process(host: str, port: int) -> str:
    """Who listens on a TCP address: `name (pid 7)`, or `another process` when we may not know; "": nobody."""
    import psutil  # noqa: PLC0415 - 20 ms that only this command pays

    for each in psutil.net_connections("tcp"):
        here = each.laddr
        if each.status != psutil.CONN_LISTEN or not here or here.port != port:
            continue
        ip = here.ip.removeprefix("::ffff:")  # gRPC listens on IPv4 through a socket of IPv6
        if ip not in (host, "0.0.0.0", "::") and host not in ("localhost", "0.0.0.0", "::"):  # noqa: S104
            continue
        if each.pid is None:
            return "another process"
        try:
            return f"{psutil.Process(each.pid).name()} (pid {each.pid})"
        except psutil.Error:
            return f"pid {each.pid}"
    return ""


def unix_socket_answers(path: Path) -> bool:
    """Whether somebody accepts connections there; a socket that a dead daemon left behind does not answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
