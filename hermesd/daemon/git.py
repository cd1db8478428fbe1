"""Which commit the configuration is, where it lies in a git work tree."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from hermesd.errors import LauncherError
from hermesd.supervise.launcher import Launcher

TIMEOUT_S = 3.0
MAX_OUTPUT = 64 * 1024


async def git_state(folder: Path, launcher: Launcher) -> Mapping[str, object] | None:
    """`{commit, dirty}`, or None outside of a work tree, without git, or when it does not answer in 3 s."""
    if not any((above / ".git").exists() for above in (folder, *folder.parents)):
        return None
    commit = await _git(folder, launcher, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = await _git(folder, launcher, "status", "--porcelain", "--", ".")
    return {"commit": commit.strip(), "dirty": bool((changed or "").strip())}


async def _git(folder: Path, launcher: Launcher, *words: str) -> str | None:
    # Nothing of the work tree's own configuration may run a program (hooks, fsmonitor, pagers).
    argv = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *words]
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0",
           "GIT_CONFIG_NOSYSTEM": "1"}  # fmt: skip
    try:
        child = await launcher.spawn(argv, env=env, cwd=folder, name="git", stdin="null", stdout="pipe")
    except LauncherError:
        return None
    output = bytearray()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await _read(child.stdout_fd, output)
            status = await child.wait()
    except TimeoutError:
        await child.kill_tree(0.0)
        return None
    finally:
        os.close(child.stdout_fd)
    return output.decode("utf-8", "replace") if status.code == 0 else None


async def _read(descriptor: int, output: bytearray) -> None:
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    while len(output) < MAX_OUTPUT:
        ready = asyncio.Event()
        loop.add_reader(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(descriptor)
        data = os.read(descriptor, MAX_OUTPUT)
        if not data:
            return
        output += data
