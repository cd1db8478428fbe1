"""`hermesd doctor` on a folder of the test's own."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from hermesd.access import socket_access
from hermesd.api.v1 import admin_pb2, agent_pb2
from hermesd.cli import doctor, machine
from hermesd.cli.examination import PathFacts, check_not_writable_by_others
from tests.unit.ctl_double import Ran, run, serving


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's surroundings, without a daemon."""
    for name in ("HERMESD_ADDRESS", "HERMESD_CONFIG", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "plugins").mkdir(mode=0o755)
    return tmp_path


def examine(home: Path, config: str, *more: str) -> Ran:
    file = home / "hermesd.yaml"
    file.write_text(config, encoding="utf-8")
    file.chmod(0o644)
    return run("doctor", "--config", str(file), "--data-dir", str(home / "data"), *more)


def findings(ran: Ran) -> dict[str, dict[str, Any]]:
    return {each["check"]: each for each in ran.json["findings"]}


@pytest.mark.promise("CLI-12")
def test_a_sound_machine_passes_and_a_daemon_that_is_not_there_is_no_failure(home: Path) -> None:
    ran = examine(home, "plugins: {dirs: [plugins]}\n", "--json")
    assert ran.json["ok"] == (ran.status == 0)
    found = findings(ran)
    for check in ("python", "configuration", "configuration file", "plugin folder", "data folder", "clock"):
        assert found[check]["state"] == "ok", found[check]
    assert found["daemon"]["state"] == "warn"
    assert found["daemon"]["remedy"]
    assert found[f"address unix:{home}/run/hermesd.sock"]["message"] == "free"


def test_a_broken_configuration_fails_with_its_place(home: Path) -> None:
    ran = examine(home, "plugins: {dirz: [plugins]}\n")
    assert ran.status == 1
    assert "hermesd.yaml:1:" in ran.out
    assert "hermesd check" in ran.out


@pytest.mark.promise("CLI-12")
def test_a_plugin_folder_that_others_can_write_fails(home: Path) -> None:
    (home / "plugins").chmod(0o777)
    ran = examine(home, "plugins: {dirs: [plugins]}\n")
    assert ran.status == 1
    assert f"chmod go-w {home / 'plugins'}" in ran.out


def test_an_address_that_somebody_else_holds_fails_and_names_the_holder(home: Path) -> None:
    with socket.socket() as busy, socket.socket(socket.AF_UNIX) as other:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        other.bind(str(home / "run" / "hermesd.sock"))
        other.listen()
        port = busy.getsockname()[1]
        config = f'server: {{http: "127.0.0.1:{port}", listen: ["unix:{home}/run/other.sock"]}}\n'
        found = findings(examine(home, config, "--json"))
        assert found[f"address 127.0.0.1:{port}"]["state"] == "fail"
        assert f"(pid {os.getpid()})" in found[f"address 127.0.0.1:{port}"]["message"]
        assert found[f"address unix:{home}/run/other.sock"]["state"] == "ok"


def test_a_running_daemon_is_seen_and_its_socket_is_its_own(home: Path) -> None:
    with serving(home / "run") as double:
        double.answers["GetStatus"] = admin_pb2.GetStatusResponse(
            version="0.1.0", state="ready", pid=7, addresses=[double.address]
        )
        found = findings(examine(home, f'server: {{listen: ["{double.address}"]}}\n', "--json"))
    assert found["daemon"] == {
        "check": "daemon",
        "state": "ok",
        "message": "hermesd 0.1.0, ready",
        "remedy": "",
    }
    assert found[f"address {double.address}"]["message"] == "held by pid 7"


def test_a_socket_that_a_dead_daemon_left_behind_is_free(home: Path) -> None:
    path = home / "run" / "hermesd.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.exists()
    assert not machine.unix_socket_answers(path)
    assert findings(examine(home, "", "--json"))[f"address unix:{path}"]["state"] == "ok"


def test_without_a_home_the_data_folder_has_no_place(tmp_path: Path) -> None:
    setting = doctor.read_setting(None, None, {}, is_root=False)
    assert setting.data_dir is None
    found = {each.check: each for each in doctor.examine(setting, os.geteuid())}
    assert found["data folder"].state == "fail"


def test_the_probes_answer_on_this_machine(tmp_path: Path) -> None:
    assert machine.python_version() >= (3, 11)
    assert machine.open_files_limit() != 0
    assert machine.inotify_limit("no such limit") is None
    assert machine.path_facts(tmp_path / "absent").mode is None
    assert machine.nearest_folder(tmp_path / "a" / "b") == tmp_path
    assert machine.free_space(tmp_path)[0] > 0
    assert machine.newest([tmp_path / "absent"]) == 0
    assert machine.installed_at() > 0
    assert machine.listening_process("127.0.0.1", 1) == ""


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no socket here speaks both")
def test_an_ipv4_address_that_a_socket_of_ipv6_holds_is_not_free() -> None:
    with socket.create_server(("::ffff:127.0.0.1", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        assert str(os.getpid()) in machine.listening_process("127.0.0.1", server.getsockname()[1])


@pytest.mark.promise("CLI-12")
def test_an_environment_that_names_no_socket_fails_as_serve_would(home: Path) -> None:
    setting = doctor.read_setting(None, home / "data", {}, is_root=False)
    found = {each.check: each for each in doctor.examine(setting, os.geteuid())}
    assert found["address"].state == "fail"
    assert "set HOME" in found["address"].remedy


def test_the_owners_private_group_is_nobody_else(home: Path) -> None:
    mode = 0o40775
    mine = PathFacts(home, mode, os.geteuid(), private_group=True)
    assert check_not_writable_by_others("plugin folder", mine, os.geteuid()).state == "ok"
    shared = PathFacts(home, mode, os.geteuid())
    assert check_not_writable_by_others("plugin folder", shared, os.geteuid()).state == "fail"


@pytest.mark.promise("API-15")
def test_a_socket_folder_that_others_can_write_fails_or_warns(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = f"address unix:{home}/run/hermesd.sock"
    (home / "run").chmod(0o777)
    found = findings(examine(home, "", "--json"))[check]
    assert (found["state"], found["remedy"]) == ("fail", f"chmod go-w {home}/run")
    monkeypatch.setattr(socket_access, "has_private_group", lambda *_: False)
    (home / "run").chmod(0o770)
    assert findings(examine(home, "", "--json"))[check]["state"] == "warn"


@pytest.mark.promise("CLI-12")
def test_a_socket_group_that_does_not_exist_fails(home: Path) -> None:
    found = findings(examine(home, "server: {socket_group: no such group}\n", "--json"))
    assert found["socket group"]["state"] == "fail"


def test_files_of_tls_are_looked_at(home: Path) -> None:
    (home / "cert.pem").write_text("x")
    (home / "key.pem").write_text("x")
    (home / "key.pem").chmod(0o644)
    config = (
        "server: {agents_listen: ['127.0.0.1:0'], tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}\n"
    )
    found = findings(examine(home, config, "--json"))
    assert found["server.tls.cert"]["state"] == "ok"
    assert found["server.tls.key"]["state"] == "warn"
    assert found["server.tls.client_ca"]["state"] == "fail"
    assert found["address 127.0.0.1:0"]["state"] == "ok"


@pytest.mark.parametrize(
    ("agents", "addresses", "state"),
    [
        ({"a": "active"}, ["127.0.0.1:1"], "ok"),
        ({}, [], "ok"),
        ({"a": "active"}, [], "warn"),
        ({"a": "active", "b": "expired"}, ["127.0.0.1:1"], "warn"),
    ],
)
def test_agents_of_a_running_daemon_are_looked_at(
    home: Path, agents: dict[str, str], addresses: list[str], state: str
) -> None:
    with serving(home / "run") as double:
        double.answers["GetStatus"] = admin_pb2.GetStatusResponse(
            version="0.1.0", state="ready", pid=7, addresses=[double.address], agents_addresses=addresses
        )
        double.answers["ListAgents"] = agent_pb2.ListAgentsResponse(
            agents=[agent_pb2.Agent(name=name, state=each) for name, each in agents.items()]
        )
        found = findings(examine(home, f'server: {{listen: ["{double.address}"]}}\n', "--json"))
    assert found["agents"]["state"] == state
    assert bool(found["agents"]["remedy"]) is (state == "warn")
