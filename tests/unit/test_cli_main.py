"""The executable as a whole: what a shell sees of it."""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hermesd.__main__ import cli
from hermesd.api.v1 import admin_pb2
from hermesd.terminal.command import LazyGroup
from hermesd.terminal.table import width_of
from hermesd.version import __version__
from tests.unit.ctl_double import Double, run, serving

ROOT = Path(__file__).parents[2]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Double]:
    with serving(tmp_path) as double:
        yield double


def start(*words: str, **options: object) -> subprocess.Popen[str]:
    """`python -m hermesd WORDS` as a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "hermesd", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def commands(group: LazyGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below `group`, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, LazyGroup):
            yield from commands(command, (*path, name))


ALL = dict(commands(cli))


def test_the_version_is_said() -> None:
    assert run("--version").out == f"hermesd {__version__}\n"


def test_every_command_of_this_build_is_there() -> None:
    expected = {
        "serve", "check", "init", "plugin", "plugin new", "plugin check", "doctor", "completion", "ctl",
        "ctl status", "ctl config", "ctl reload", "ctl drain", "ctl resume", "ctl stop", "ctl events",
        "ctl dump",
        *(f"ctl confirmations{each}" for each in ("", " list", " approve", " deny")),
        *(f"ctl agents{each}" for each in ("", " list", " add", " rotate", " revoke", " whoami")),
        *(f"ctl tools{each}" for each in ("", " list", " show", " call", " enable", " disable", " reset")),
        *(
            f"ctl calls{each}"
            for each in ("", " list", " show", " stats", " replay", " watch", " output", " cancel")
        ),
        *(
            f"ctl plugins{each}"
            for each in (
                "", " list", " show", " trust", " untrust", " grant", " revoke", " enable", " disable",
                " logs", " history", " rollback",
            )
        ),
    }  # fmt: skip
    assert {" ".join(path) for path in ALL} == expected


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    command = ALL[path]
    assert command.name == path[-1]
    assert command.help
    ran = run(*path, "--help")
    assert ran.status == 0
    assert ran.out.startswith("Usage: hermesd ")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{path} {parameter.name} has no help"


def test_a_summary_says_what_the_command_says_of_itself() -> None:
    for path, command in ALL.items():
        parent = ALL[path[:-1]] if path[:-1] else cli
        assert isinstance(parent, LazyGroup)
        if command.short_help:
            assert parent.lazy[path[-1]].summary == command.short_help


@pytest.mark.promise("CLI-7")
def test_help_imports_neither_grpc_nor_the_daemon() -> None:
    heavy = (
        "grpc",
        "google.protobuf",
        "asyncio",
        "yaml",
        "jsonschema_rs",
        "hermesd.client",
        "hermesd.config",
    )
    code = (
        "import sys\nfrom hermesd.__main__ import cli\n"
        "try:\n    cli.main(['ctl', '--help'])\nexcept SystemExit: pass\n"
        f"print([each for each in {heavy!r} if each in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stderr == "[]\n"
    assert "Talk to a running daemon" in done.stdout


@pytest.mark.promise("CLI-7")
def test_ctl_loads_nothing_of_the_daemon_itself(daemon: Double) -> None:
    daemon.answers["GetStatus"] = admin_pb2.GetStatusResponse()
    heavy = (
        "yaml",
        "jsonschema_rs",
        "psutil",
        "pluggy",
        "watchdog",
        "starlette",
        "uvicorn",
        "prometheus_client",
    )
    code = (
        "import sys\nfrom hermesd.__main__ import cli\n"
        f"try:\n    cli.main(['ctl', 'status', '--address', {daemon.address!r}])\nexcept SystemExit: pass\n"
        f"print([each for each in {heavy!r} if each in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stderr == "[]\n"


@pytest.mark.promise("CLI-8")
def test_whoever_stops_reading_ends_the_command_without_a_traceback(daemon: Double) -> None:
    answer = admin_pb2.GetConfigResponse()
    for number in range(20_000):
        answer.values.add(key=f"key.{number}", value_json='"some value"', origin="default")
    daemon.answers["GetConfig"] = answer
    child = start("ctl", "--address", daemon.address, "config", "--effective", stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr is not None
    assert child.stderr.read() == ""
    child.stderr.close()
    assert child.wait(20) == 1


@pytest.mark.promise("CLI-8")
def test_ctrl_c_ends_a_stream_with_130_and_no_traceback(daemon: Double) -> None:
    go = threading.Event()

    def events(_request: admin_pb2.WatchEventsRequest) -> Iterator[admin_pb2.WatchEventsResponse]:
        entry = admin_pb2.WatchEventsResponse(seq=1)
        entry.event.kind = "plugin.ready"
        yield entry
        go.wait(20)

    daemon.answers["WatchEvents"] = events
    child = start("ctl", "--address", daemon.address, "events", "--follow", stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert "plugin.ready" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        try:
            _out, err = child.communicate(timeout=5)
        except (
            subprocess.TimeoutExpired
        ):  # it came while gRPC's own code ran, which swallows it: a second one
            child.send_signal(signal.SIGINT)
            _out, err = child.communicate(timeout=20)
    finally:
        go.set()
        child.kill()
        child.wait()
    assert child.returncode == 130
    assert "Traceback" not in err


def test_text_that_the_terminal_cannot_show_does_not_end_the_command(daemon: Double) -> None:
    daemon.answers["GetStatus"] = admin_pb2.GetStatusResponse(version="订单", state="ready")
    done = subprocess.run(
        [sys.executable, "-m", "hermesd", "ctl", "--address", daemon.address, "status"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert b"\\u8ba2\\u5355" in done.stdout


def test_a_command_without_arguments_shows_its_help_and_is_a_usage_error() -> None:
    assert run().status == 2
    assert run("ctl").status == 2
    assert importlib.import_module("hermesd.ctl.group").ctl.name == "ctl"


def on_a_terminal(*words: str, **environ: str) -> str:
    """What `hermesd WORDS` writes to a terminal of 72 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    child = subprocess.Popen(
        [sys.executable, "-m", "hermesd", *words],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")} | environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # Linux reports the end of a terminal as EIO
        pass
    finally:
        os.close(ours)
    assert child.wait(20) == 0
    return written.decode("utf-8")


@pytest.mark.promise("CLI-6")
def test_colours_appear_on_a_terminal_only_and_no_color_is_honoured(daemon: Double) -> None:
    answer = admin_pb2.ListPluginsResponse()
    answer.plugins.add(name="orders", state="rejected", reason="很长的原因" * 20)
    daemon.answers["ListPlugins"] = answer
    words = ("ctl", "--address", daemon.address, "plugins", "list")
    coloured, plain = on_a_terminal(*words), on_a_terminal(*words, NO_COLOR="1")
    assert "\x1b[31mrejected" in coloured
    assert "\x1b" not in plain
    assert all(width_of(line) <= 72 for line in plain.splitlines())
    assert "\x1b" not in daemon.run("plugins", "list").out


def test_json_is_indented_on_a_terminal_and_still_one_document(daemon: Double) -> None:
    daemon.answers["ListPlugins"] = admin_pb2.ListPluginsResponse(generation=3)
    text = on_a_terminal("ctl", "--json", "plugins", "list", "--address", daemon.address)
    assert json.loads(text)["generation"] == 3
    assert text.count("\n") > 1
