"""Which commit the configuration is, where it lies in a git work tree."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from hermesd.clock import Clock
from hermesd.errors import LauncherError
from hermesd.supervise.launcher import Launcher

TIMEOUT_S = 3.0
#: An answer is given again for so long: `status` in a loop must not start processes in a loop.
FRESH_S = 5.0
MAX_OUTPUT = 64 * 1024


class WorkTree:
    """The git work tree that the configuration file lies in, if it does."""

    def __init__(self, configuration: Path | None, launcher: Launcher, clock: Clock) -> None:
        self._folder = configuration.resolve().parent if configuration is not None else None
        self._launcher = launcher
        self._clock = clock
        self._answer: Mapping[str, object] | None = None
        self._until = float("-inf")

    async def state(self) -> Mapping[str, object] | None:
        """`{commit, dirty}`, at most 5 s old; None outside of a work tree or when git does not answer."""
        if self._folder is not None and self._clock.monotonic() >= self._until:
            self._answer = await _state(self._folder, self._launcher)
            self._until = self._clock.monotonic() + FRESH_S
        return self._answer


async def _state(folder: Path, launcher: Launcher) -> Mapping[str, object] | None:
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
        child.close()
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
