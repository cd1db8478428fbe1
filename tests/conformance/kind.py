"""The kinds of tools that exist, and the one daemon that serves the probe as each of them.

A new kind joins by a row in KINDS and a way to bring its plugin to the stage; every promise of the suite is
then its own too. What a kind cannot offer by its nature it lists in `lacks`, with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from hermesd.client import CallResult
from tests.conformance.probe import MANIFEST, source
from tests.harness import ROOT, Daemon, Home, eventually

QUEUE_MS = 400
TOKEN = "s3cret-token-of-the-probe"


@dataclass(frozen=True, slots=True)
class Kind:
    """One way in which a tool can run. `plugin` is the name under which the probe is served that way."""

    name: str
    plugin: str
    comes: Literal["folder", "installed", "bundled"]
    isolation: Literal["inprocess", "process"] = "inprocess"
    asynchronous: bool = False
    #: What this kind does not have: aspect → reason.
    lacks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        return self.name


_SHARED = MappingProxyType({"crash": "it shares the daemon's process: that is the documented price"})
_NO_MANIFEST = MappingProxyType({**_SHARED, "grants": "an installed package has no manifest to ask with"})
KINDS = (
    Kind("in process, sync", "insync", "folder", lacks=_SHARED),
    Kind("in process, async", "inasync", "folder", asynchronous=True, lacks=_SHARED),
    Kind("worker, sync", "wksync", "folder", "process"),
    Kind("worker, async", "wkasync", "folder", "process", asynchronous=True),
    Kind("installed, sync", "epsync", "installed", lacks=_NO_MANIFEST),
    Kind("installed, async", "epasync", "installed", asynchronous=True, lacks=_NO_MANIFEST),
    Kind("bundled, sync", "busync", "bundled", lacks=_SHARED),
)


class Stage:
    """A daemon that serves the probe as every kind."""

    def __init__(self, home: Home, **server: Any) -> None:
        """`server`: keys of the configuration's section."""
        self.home = home
        self._server = server
        tree = _tree(home.path / "tree")
        site = home.path / "site"
        for kind in KINDS:
            code = source(kind.plugin, asynchronous=kind.asynchronous)
            if kind.comes == "folder":
                home.plugin(kind.plugin, code, manifest=MANIFEST)
            elif kind.comes == "bundled":
                _folder(tree / "plugins" / kind.plugin, kind.plugin, code)
            else:
                _install(site, kind.plugin, code)
        self._configure()
        path = os.pathsep.join([str(tree), str(site)])
        self.daemon = Daemon(home, env={"PYTHONPATH": path}, prefix=("env", "-C", str(tree))).wait_ready()
        self.client = self.daemon.client()

    def _configure(self) -> None:
        grant = {
            "secrets": ["PROBE_TOKEN"],
            "calls": ["*.echo_arguments", "*.act_*", "*.call_other", "*.sleep_over"],
        }
        self.home.configure(
            {
                "secrets": {"PROBE_TOKEN": TOKEN},
                "defaults": {"queue_ms": QUEUE_MS},
                "server": self._server,
            },
            trusted={
                kind.plugin: {"follow": True, "isolation": kind.isolation, "grant": grant}
                for kind in KINDS
                if kind.comes == "folder"
            },
            entry_points=[f"probe-{kind.plugin}" for kind in KINDS if kind.comes == "installed"],
            settings={kind.plugin: {"greeting": "你好"} for kind in KINDS if kind.comes != "installed"},
        )

    def call(self, kind: Kind, tool: str, /, *, confirm: bool = True, **more: Any) -> CallResult:
        """One call; its arguments are keywords beside the client's own. It confirms where that is asked."""
        own = ("timeout_ms", "timeout_s", "request_id", "session_id", "idempotency_key", "text_of_arguments")
        options = {key: more.pop(key) for key in own if key in more}
        arguments = options.pop("text_of_arguments", more)
        name = tool if "." in tool else f"{kind.plugin}.{tool}"
        result = self.client.call_tool(name, arguments, **options)
        if confirm and result.code == "CONFIRMATION_REQUIRED":
            token = result.detail["confirmation_token"]
            result = self.client.call_tool(name, arguments, confirmation_token=token, **options)
        return result

    @contextmanager
    def calling(self, kind: Kind, tool: str, **more: Any) -> Iterator[list[Any]]:
        """The same on a thread of its own; its result is appended when it ends."""
        results: list[Any] = []

        def call() -> None:
            try:
                results.append(self.call(kind, tool, **more))
            except Exception as error:
                results.append(error)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        yield results
        thread.join(30)
        assert not thread.is_alive()

    def stream(self, kind: Kind, tool: str, **arguments: Any) -> list[Any]:
        return list(self.client.stream_call_tool(f"{kind.plugin}.{tool}", arguments, timeout_s=30))

    def log_of(self, kind: Kind, request_id: str) -> list[Any]:
        """What the operator finds under a call."""
        lines = [each.line for each in self.client.read_plugin_log(kind.plugin, lines=500)]
        return [each for each in lines if each.request_id == request_id]

    def log_line(self, kind: Kind, request_id: str, text: str) -> Any:
        def found() -> Any:
            lines = self.log_of(kind, request_id)
            return next((each for each in lines if text in f"{each.message} {each.fields_json}"), None)

        return eventually(found, what=f"the log line {text!r}")

    def close(self) -> None:
        self.client.close()
        if self.daemon.process.poll() is None:
            assert self.daemon.stop() == 0
        self.home.remove()


def _tree(tree: Path) -> Path:
    """A checkout of its own, so that a plugin can be bundled with it."""
    shutil.copytree(ROOT / "hermesd", tree / "hermesd", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "pyproject.toml").touch()
    (tree / "plugins").mkdir()
    return tree


def _folder(folder: Path, name: str, code: str) -> None:
    folder.mkdir(mode=0o755)
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    (folder / "plugin.yaml").write_text(
        f"name: {name}\nversion: 1.0.0\nentry: {name}.py\n{MANIFEST}", "utf-8"
    )


def _install(site: Path, name: str, code: str) -> None:
    info = site / f"probe_{name}-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: probe-{name}\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text(f"[hermesd]\n{name} = probe_{name}\n")
    (site / f"probe_{name}.py").write_text(code, encoding="utf-8")


def is_json(text: str) -> bool:
    """As strict readers take it."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    json.loads(text.encode(), parse_constant=refuse)
    return True


def elapsed(began: float) -> float:
    return time.monotonic() - began
