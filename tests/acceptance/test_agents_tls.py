"""Agents over TLS: who the certificates say they are, and certificates that change while the daemon runs."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermesd.access.identity import token_sha256
from hermesd.client import Client, ClientError, NotAllowedError, Tls
from tests.certificates import Authority
from tests.harness import Daemon, Home, cli, eventually, refused

RIGHTS = {"tools": {"allow": ["time.*"]}}


@pytest.fixture
def authority(home: Home) -> Authority:
    return Authority(home.path)


def configure(home: Home, cert: Path, key: Path, *, agents: Any = None, **tls: Any) -> None:
    server = {
        "agents_listen": ["127.0.0.1:0"], "tls": {"cert": str(cert), "key": str(key), **tls}
    }  # fmt: skip
    home.configure({"server": server, "agents": agents or {}})


def port(daemon: Daemon) -> str:
    [address] = daemon.status().agents_addresses
    return address


@pytest.mark.promise("IDN-10")
def test_a_token_over_tls(home: Home, serve: Callable[..., Daemon], authority: Authority) -> None:
    agents = {"zhang": {"token_sha256": token_sha256("geheim"), **RIGHTS}}
    configure(home, *authority.certify("server"), agents=agents)
    daemon = serve()
    address = port(daemon)
    with Client(address, token="geheim", tls=Tls(authority.ca)) as client:
        assert client.who_am_i().name == "zhang"
        assert client.call_tool("time.get_now").code == "OK"
    with Client(address, tls=Tls(authority.ca)) as client, pytest.raises(NotAllowedError):
        client.who_am_i()
    (home.path / "token").write_text("geheim")
    words = ("ctl", "--address", address, "--token-file", str(home.path / "token"))
    shown = cli(*words, "--ca-file", str(authority.ca), "agents", "whoami")
    assert (shown.returncode, shown.stdout.split()[:2]) == (0, ["name", "zhang"])
    for wrong in (None, Tls(Authority(home.path, "other").ca)):  # in the clear, and another authority
        with Client(address, token="geheim", tls=wrong, timeout_s=3) as client, pytest.raises(ClientError):
            client.who_am_i()


@pytest.mark.promise("IDN-1")
def test_a_certificate_says_who_it_is(home: Home, serve: Any, authority: Authority) -> None:
    agents = {"zhang": RIGHTS, "reporter": {"token_sha256": token_sha256("geheim"), **RIGHTS}}
    configure(home, *authority.certify("server"), agents=agents, client_ca=str(authority.ca))
    daemon = serve()
    zhang, stranger = (
        Tls(authority.ca, *authority.certify("zhang")),
        Tls(authority.ca, *authority.certify("x")),
    )
    with Client(port(daemon), tls=zhang) as client:
        assert client.who_am_i().name == "zhang"
        assert next(each.name for each in client.tools()).startswith("time.")
    with Client(port(daemon), tls=stranger) as client, pytest.raises(NotAllowedError):
        client.who_am_i()
    with Client(port(daemon), tls=stranger, token="geheim") as client:
        assert client.who_am_i().name == "reporter"
    both = Client(port(daemon), tls=zhang, token="geheim")
    with both, pytest.raises(NotAllowedError, match="two agents"):
        both.who_am_i()
    forged = Authority(home.path, "other").certify("zhang", "forged")
    for tls in (Tls(authority.ca), Tls(authority.ca, *forged)):
        with Client(port(daemon), tls=tls, token="geheim", timeout_s=3) as client, pytest.raises(ClientError):
            client.who_am_i()


def presented(address: str, authority: Authority) -> bytes:
    host, _, number = address.rpartition(":")
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((host, int(number)), 5) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as wrapped,
    ):
        shown = wrapped.getpeercert(binary_form=True)
        assert shown is not None
        return shown


@pytest.mark.promise("IDN-11")
def test_new_certificates_serve_at_once_and_broken_ones_change_nothing(
    home: Home, serve: Any, authority: Authority
) -> None:
    cert, key = authority.certify("server")
    agents = {"zhang": {"token_sha256": token_sha256("geheim"), **RIGHTS}}
    configure(home, cert, key, agents=agents)
    daemon = serve()
    first = presented(port(daemon), authority)
    assert presented(port(daemon), authority) == first
    fresh_cert, fresh_key = authority.certify("server", "fresh")
    for broken in (b"", b"-----BEGIN CERTIFICATE-----\nxx\n"):
        home.replace(cert, broken)
        assert presented(port(daemon), authority) == first
    home.replace(cert, fresh_cert.read_bytes())  # the key is still the old one: half replaced
    assert presented(port(daemon), authority) == first
    home.replace(key, fresh_key.read_bytes())
    eventually(lambda: presented(port(daemon), authority) != first, what="the new certificate")
    with Client(port(daemon), token="geheim", tls=Tls(authority.ca)) as client:
        assert client.who_am_i().name == "zhang"


def test_certificates_that_cannot_be_used_keep_the_daemon_from_starting(
    home: Home, authority: Authority
) -> None:
    cert, _ = authority.certify("server")
    _, other = authority.certify("x")
    for key in (other, home.path / "absent", cert):
        configure(home, cert, key)
        status, told = refused(home)
        assert (status, "server.tls" in told) == (1, True)
        assert "Traceback" not in told


@pytest.mark.promise("IDN-10")
@pytest.mark.parametrize("address", ["0.0.0.0:7443", "[::]:7443", "example.com:7443", "10.0.0.1:7443"])
def test_an_address_that_others_reach_needs_tls(home: Home, address: str) -> None:
    home.configure({"server": {"agents_listen": [address]}})
    checked = cli("check", "--config", str(home.config))
    assert checked.returncode == 1
    assert "needs server.tls" in checked.stdout + checked.stderr
    status, told = refused(home)
    assert (status, "needs server.tls" in told) == (1, True)
    shutil.rmtree(home.data, ignore_errors=True)
