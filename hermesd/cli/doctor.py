"""`hermesd doctor`: examine this machine before, or while, the daemon runs on it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from hermesd.access.socket_access import folder_fault, group_id
from hermesd.cli import examination, machine
from hermesd.cli.examination import Finding, Listener
from hermesd.config import places
from hermesd.config.configuration import Configuration, Server, Tls
from hermesd.config.load import find_config, load_configuration
from hermesd.errors import HermesdError, PreconditionError, RejectedError
from hermesd.terminal.exit_status import ExitStatus
from hermesd.terminal.screen import Screen

if TYPE_CHECKING:
    from hermesd.client import Client

#: How long the daemon may take to say that it is there.
TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What the daemon would be started with: its file, what that says, and the faults of reading it."""

    path: Path | None
    configuration: Configuration | None
    faults: tuple[str, ...]
    data_dir: Path | None
    listen: tuple[str, ...]


@click.command(
    help="""Examine this machine: interpreter, limits, permissions, disk, clock, addresses, the daemon itself.

Changes nothing. Exit status 1 when anything would keep the daemon from working; warnings are no failure.""",
    short_help="Examine this machine and say what to fix.",
)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Configuration file.")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), metavar="DIR", help="Where the daemon keeps its state."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(config: Path | None, data_dir: Path | None, as_json: bool) -> ExitStatus:
    setting = read_setting(config, data_dir, os.environ, is_root=os.geteuid() == 0)
    findings = list(examine(setting, os.geteuid()))
    screen = Screen.of_process(os.environ, as_json=as_json)
    show_findings(screen, findings)
    failed = any(each.state == "fail" for each in findings)
    return ExitStatus.FAILED if failed else ExitStatus.DONE


def show_findings(screen: Screen, findings: list[Finding]) -> None:
    """A table for people, each remedy below; one document for programs."""
    if screen.as_json:
        ok = all(each.state != "fail" for each in findings)
        screen.document({"ok": ok, "findings": [asdict(each) for each in findings]})
        return
    screen.table(
        ["CHECK", "STATE", "FOUND"],
        [[each.check, each.state, each.message] for each in findings],
        state_column=1,
    )
    for each in findings:
        if each.state != "ok":
            screen.line(f"{each.check}: {each.remedy}", style=each.state)


def read_setting(
    config: Path | None, data_dir: Path | None, environ: Mapping[str, str], *, is_root: bool
) -> Setting:
    """What `serve` would use. A configuration that cannot be read leaves the defaults and its faults."""
    faults: tuple[str, ...] = ()
    configuration = path = None
    try:
        path = find_config(config, environ, is_root)
        usual = {"plugins.dirs": list(places.plugin_dirs(config, environ, is_root))}
        configuration = load_configuration(path, environ=environ, defaults=usual)
    except RejectedError as error:
        faults = tuple(str(each) for each in error.rejections)
    except (HermesdError, OSError) as error:
        faults = (str(error),)
    configured = configuration.data_dir if configuration else None
    address = places.listen_address(environ, is_root)
    return Setting(
        path or config,
        configuration,
        faults,
        data_dir or configured or places.data_dir(environ, is_root),
        (configuration.server.listen if configuration else ()) or ((address,) if address else ()),
    )


def examine(setting: Setting, uid: int) -> Iterator[Finding]:
    """Every check in the order in which a starting daemon would meet it."""
    yield examination.check_python(machine.python_version(), free_threaded=machine.is_free_threaded())
    yield examination.check_open_files(machine.open_files_limit())
    yield examination.check_inotify(
        machine.inotify_limit("max_user_watches"), machine.inotify_limit("max_user_instances")
    )
    yield from _files(setting, uid)
    answer, fault, remedy = _ask_daemon(setting)
    if not setting.listen:
        fault = "nothing says where to listen"
        yield Finding("address", "fail", fault, "set HOME or server.listen, or give --listen unix:PATH")
    if setting.configuration is not None and setting.configuration.server.socket_group:
        yield _socket_group(setting.configuration.server.socket_group)
    for address in _addresses(setting):
        yield examination.check_listener(_listener(address, answer))
    yield examination.check_daemon(answer, fault, remedy)
    if answer is not None and answer["agents"] is not None:
        yield examination.check_agents(**cast("dict[str, Any]", answer["agents"]))


def _files(setting: Setting, uid: int) -> Iterator[Finding]:
    configuration = setting.configuration
    warnings = [str(each) for each in configuration.warnings] if configuration else []
    yield examination.check_config(setting.path, setting.faults, warnings)
    files = list(configuration.files) if configuration else []
    for file in files:
        yield examination.check_not_writable_by_others("configuration file", machine.path_facts(file), uid)
    for folder in configuration.plugins.dirs if configuration else ():
        yield examination.check_not_writable_by_others("plugin folder", machine.path_facts(folder), uid)
    if setting.data_dir is None:
        yield Finding(
            "data folder", "fail", "the environment names no place for it", "set HOME, or give --data-dir"
        )
    else:
        parent = machine.nearest_folder(setting.data_dir.absolute())
        yield examination.check_private(
            "data folder",
            machine.path_facts(setting.data_dir),
            uid,
            parent=machine.path_facts(parent),
        )
        yield examination.check_disk(parent, *machine.free_space(parent))
    tls = configuration.server.tls if configuration else Tls()
    for name, path in (("cert", tls.cert), ("key", tls.key), ("client_ca", tls.client_ca)):
        if path is not None:
            facts = machine.path_facts(path)
            yield examination.check_key_file(f"server.tls.{name}", facts, secret=name == "key")
    yield examination.check_clock(time.time(), machine.installed_at(), machine.newest(files))


def _addresses(setting: Setting) -> list[str]:
    server = setting.configuration.server if setting.configuration else Server()
    return [*setting.listen, *server.agents_listen, *([server.http] if server.http else [])]


def _listener(address: str, answer: Mapping[str, object] | None) -> Listener:
    if address.startswith("unix:"):
        return _unix_listener(address, Path(address.removeprefix("unix:")), answer)
    host, _, port = address.rpartition(":")
    if port == "0":
        return Listener(address)
    holder = machine.listening_process(host.strip("[]"), int(port))
    ours = answer is not None and f"(pid {answer['pid']})" in holder
    return Listener(address, holder, ours)


def _socket_group(group: str) -> Finding:
    try:
        group_id(group)
    except PreconditionError as error:
        return examination.check_socket_group(group, error.message, error.remedy)
    return examination.check_socket_group(group, "", "")


def _unix_listener(address: str, path: Path, answer: Mapping[str, object] | None) -> Listener:
    fault = folder_fault(path.parent) if path.parent.is_dir() else None
    if fault is not None and fault.fatal:
        return Listener(address, fault=fault.reason, remedy=fault.remedy)
    holder, ours = "", False
    if machine.unix_socket_answers(path):
        ours = answer is not None and address in str(answer["addresses"])
        holder = f"pid {answer['pid']}" if ours and answer else "another process"
    elif not machine.path_facts(folder := machine.nearest_folder(path.parent)).writable:
        return Listener(address, fault=f"{folder} cannot be written")
    if fault is not None:
        return Listener(address, holder, ours, weakness=fault.reason, remedy=fault.remedy)
    return Listener(address, holder, ours)


def _ask_daemon(setting: Setting) -> tuple[Mapping[str, object] | None, str, str]:
    """The daemon's state, version, pid and addresses; or None, why, and what to do."""
    from hermesd.client import Client  # noqa: PLC0415 - grpc: 90 ms that `doctor --help` does not pay

    address = setting.listen[0] if setting.listen else None
    try:
        with Client(address, timeout_s=TIMEOUT_S) as client:
            status = client.get_status()
            agents = _agents(client, listening=bool(status.agents_addresses))
    except HermesdError as error:
        return None, error.message, error.remedy or "hermesd serve"
    return (
        {
            "version": status.version,
            "state": status.state,
            "pid": status.pid,
            "addresses": [*status.addresses, *status.agents_addresses],
            "agents": agents,
            "rejected": len(status.reload.rejected),
        },
        "",
        "",
    )


def _agents(client: Client, *, listening: bool) -> dict[str, object] | None:
    """What there is to say of the agents; None for a daemon that knows none of such things."""
    try:
        known = list(client.agents())
    except HermesdError:
        return None
    expired = [each.name for each in known if each.state == "expired"]
    return {"active": len(known) - len(expired), "expired": expired, "listening": listening}
