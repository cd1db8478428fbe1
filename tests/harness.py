"""A real daemon in a temporary folder, driven from outside as an operator and an agent would."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import yaml

from hermesd.api.v1 import admin_pb2
from hermesd.client import AsyncClient, Client, UnreachableError

ROOT = Path(__file__).parent.parent
START_S = 20.0


def eventually(condition: Callable[[], Any], timeout_s: float = 10.0, what: str = "the condition") -> Any:
    """The first true answer of `condition`; AssertionError when there is none in time."""
    until = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(f"{what} did not come true within {timeout_s:g} s; last answer: {answer!r}")
        time.sleep(0.02)


class Home:
    """A folder of its own with configuration, plugins, data and socket; outlives daemons."""

    def __init__(self) -> None:
        # Short: a unix socket's path has 107 bytes.
        self.path = Path(tempfile.mkdtemp(prefix="hd-"))
        self.plugins = self.path / "plugins"
        self.data = self.path / "data"
        self.config = self.path / "hermesd.yaml"
        self.log = self.path / "log"
        self.socket = self.path / "s"
        self.plugins.mkdir(mode=0o755)
        self.configure()

    @property
    def address(self) -> str:
        return f"unix:{self.socket}"

    def configure(self, text: Mapping[str, Any] | None = None, **plugins: Any) -> None:
        """Write hermesd.yaml; `plugins` are keys of its `plugins` section."""
        settings: dict[str, Any] = {
            "server": {"listen": [self.address], "drain_timeout_s": 5},
            "data_dir": str(self.data),
            "plugins": {"dirs": [str(self.plugins)], **plugins},
        }
        for key, value in (text or {}).items():
            settings[key] = {**settings[key], **value} if isinstance(settings.get(key), dict) else value
        self.replace(self.config, yaml.safe_dump(settings, allow_unicode=True))

    def follow(self, *names: str, isolation: str = "inprocess", **more: Any) -> None:
        """Trust these plugins whatever their folders hold, as one does while developing them."""
        trusted = {name: {"follow": True, "isolation": isolation} for name in names}
        self.configure(more or None, trusted=trusted)

    def plugin(
        self, name: str, code: str, *, manifest: str = "", version: str = "1.0.0", **files: str
    ) -> Path:
        """Write a plugin's folder; each file is replaced as an editor does. `files`: more modules by stem."""
        folder = self.plugins / name
        folder.mkdir(mode=0o755, exist_ok=True)
        for stem, text in files.items():
            self.replace(folder / f"{stem}.py", dedent(text))
        self.replace(folder / f"{name}.py", dedent(code))
        head = f"name: {name}\nversion: {version}\nentry: {name}.py\n"
        self.replace(folder / "plugin.yaml", head + dedent(manifest))
        return folder

    @staticmethod
    def replace(path: Path, text: str | bytes) -> None:
        """Write by an atomic rename."""
        data = text.encode() if isinstance(text, str) else text
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_bytes(data)
        temporary.chmod(0o644)
        temporary.rename(path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Daemon:
    """`hermesd serve` on a Home, as a process of its own."""

    def __init__(
        self,
        home: Home,
        *options: str,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        config: bool = True,
    ) -> None:
        """`prefix`: words before the command, such as setpriv's. `config` False: no configuration file."""
        self.home = home
        named = ["--config", str(home.config)] if config else []
        with home.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "hermesd", "serve", *named, *options],
                stdout=log,
                stderr=log,
                env={**environment(), **(env or {})},
                cwd=ROOT,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_ready(self) -> Daemon:
        """Return when the API answers and the first pass has committed."""

        def ready() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"the daemon ended with {self.process.returncode}:\n{self.log_text()}")
            if not self.home.socket.exists():
                return False
            try:
                with self.client() as client:
                    return client.get_status().state == "ready"
            except UnreachableError:  # the socket of the one before, which this one is about to replace
                return False

        eventually(ready, START_S, "readiness")
        return self

    def client(self) -> Client:
        return Client(self.home.address)

    def async_client(self) -> AsyncClient:
        return AsyncClient(self.home.address)

    def call(self, tool: str, **arguments: Any) -> Any:
        """The data of one call; AssertionError with the whole result when it failed."""
        with self.client() as client:
            result = client.call_tool(tool, arguments)
        assert result.ok, f"{tool} answered {result.code}: {result.message} {result.detail}"
        return result.data

    def ctl(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run `hermesd ctl`."""
        return cli("ctl", "--address", self.home.address, *words, stdin=stdin)

    def ctl_json(self, *words: str) -> Any:
        """The JSON document of `hermesd ctl --json`, whatever its exit status."""
        return json.loads(self.ctl("--json", *words).stdout)

    def plugin(self, name: str) -> admin_pb2.Plugin | None:
        """What the daemon says of a plugin now; None when it does not know it."""
        with self.client() as client:
            return next((each for each in client.plugins() if each.name == name), None)

    def reload(self, name: str = "", **flags: Any) -> admin_pb2.ReloadResponse:
        """An explicit reload over the API."""
        with self.client() as client:
            return client.reload(name, **flags)

    def status(self) -> admin_pb2.GetStatusResponse:
        with self.client() as client:
            return client.get_status()

    def state(self) -> dict[str, Any]:
        """DumpState: tasks, threads, children."""
        with self.client() as client:
            state: dict[str, Any] = json.loads(client.dump_state().state_json)
            return state

    def events(self, kind: str = "", recent: int = 1000) -> list[admin_pb2.Event]:
        """The kept events, oldest first, of one kind or of all."""
        with self.client() as client:
            entries = list(client.watch_events(recent=recent, follow=False))
        found = [each.event for each in entries if each.HasField("event")]
        return [each for each in found if kind in ("", each.kind)]

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def log_text(self) -> str:
        return self.home.log.read_text(encoding="utf-8", errors="replace")

    def stop(self, timeout_s: float = 20.0) -> int:
        """SIGTERM, then wait; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"the daemon did not stop within {timeout_s:g} s:\n{self.log_text()[-4000:]}"
            ) from None

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self.process.kill()
        self.process.wait()


def refused(home: Home, *options: str, **more: Any) -> tuple[int, str]:
    """Start a daemon that is expected to end by itself: its exit status and what it said."""
    before = home.log.stat().st_size if home.log.exists() else 0
    daemon = Daemon(home, *options, **more)
    try:
        status = daemon.process.wait(START_S)
    finally:
        daemon.kill()
    return status, home.log.read_bytes()[before:].decode(errors="replace")


def environment() -> dict[str, str]:
    """The environment of what a test starts: this checkout, and nothing of the tester's own hermesd.

    Compiled modules are kept, as those of an installed package are: a daemon starts in 0.5 s, not in 0.7 s.
    """
    ours = ("HERMESD_", "XDG_", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return {**kept, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


def cli(
    *words: str, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `hermesd` with these words; the exit status is the caller's to judge."""
    return subprocess.run(
        [sys.executable, "-m", "hermesd", *words],
        input=stdin,
        capture_output=True,
        text=True,
        env={**environment(), **(env or {})},
        cwd=ROOT,
        timeout=60,
        check=False,
    )
