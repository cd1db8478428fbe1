"""The notification protocol, over real datagram sockets."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesd.systemd.notify import Notifier


class Manager:
    """systemd's end of the socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)

    def heard(self) -> list[bytes]:
        datagrams = []
        while True:
            try:
                datagrams.append(self.socket.recv(4096))
            except BlockingIOError:
                return datagrams


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(str(tmp_path / "notify"))
    yield manager
    manager.socket.close()


@pytest.fixture
def notifier(manager: Manager) -> Notifier:
    return Notifier(manager.address, watchdog_usec=3_000_000, monotonic_ns=lambda: 1_234_567_890)


def test_ready_carries_the_status_in_the_same_datagram(notifier: Notifier, manager: Manager) -> None:
    notifier.ready("3 tools ready")
    assert manager.heard() == [b"READY=1\nSTATUS=3 tools ready"]


@pytest.mark.promise("OPS-1")
def test_reloading_carries_monotonic_usec_and_ready_follows(notifier: Notifier, manager: Manager) -> None:
    """patroni#3598, ergo#2454, sd-notify#17, trapperkeeper#110: a missing MONOTONIC_USEC."""
    notifier.ready()
    with notifier.reloading():
        assert manager.heard() == [b"READY=1", b"RELOADING=1\nMONOTONIC_USEC=1234567"]
    assert manager.heard() == [b"READY=1"]


def test_monotonic_usec_is_the_clock_that_systemd_reads(manager: Manager) -> None:
    """patroni#3598: the stamp must be CLOCK_MONOTONIC in microseconds."""
    notifier = Notifier(manager.address)
    notifier.ready()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    with notifier.reloading():
        stamp = int(manager.heard()[1].rpartition(b"=")[2])
    assert before <= stamp <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


@pytest.mark.promise("OPS-1")
def test_ready_follows_reloading_even_when_the_reload_raises(notifier: Notifier, manager: Manager) -> None:
    """systemd#37515: RELOADING without READY leaves the unit in `reloading` for ever."""
    notifier.ready()
    with pytest.raises(RuntimeError, match="disk"), notifier.reloading():
        raise RuntimeError("disk")
    assert manager.heard()[-1] == b"READY=1"


def test_ready_follows_reloading_even_when_the_reload_is_cancelled(
    notifier: Notifier, manager: Manager
) -> None:
    """systemd#37515."""
    notifier.ready()
    with pytest.raises(KeyboardInterrupt), notifier.reloading():
        raise KeyboardInterrupt
    assert manager.heard()[-1] == b"READY=1"


def test_overlapping_reloads_say_reloading_and_ready_once(notifier: Notifier, manager: Manager) -> None:
    notifier.ready()
    with notifier.reloading():
        with notifier.reloading():
            pass
        assert len(manager.heard()) == 2
    assert manager.heard() == [b"READY=1"]


def test_a_reload_during_the_start_does_not_say_ready_too_early(notifier: Notifier, manager: Manager) -> None:
    with notifier.reloading():
        pass
    assert manager.heard() == []


def test_nothing_says_ready_after_stopping(notifier: Notifier, manager: Manager) -> None:
    notifier.ready()
    with notifier.reloading():
        notifier.stopping("draining", extend_s=35)
    with notifier.reloading():
        pass
    assert manager.heard()[2:] == [b"STOPPING=1\nEXTEND_TIMEOUT_USEC=35000000\nSTATUS=draining"]


def test_status_text_cannot_smuggle_in_another_assignment(notifier: Notifier, manager: Manager) -> None:
    notifier.status("plugin 订单\nMAINPID=1\x1b[2J rejected")
    assert manager.heard() == ["STATUS=plugin 订单 MAINPID=1 rejected".encode()]


def test_the_watchdog_is_for_the_process_that_it_names(manager: Manager) -> None:
    environ = {
        "NOTIFY_SOCKET": manager.address,
        "WATCHDOG_USEC": "30000000",
        "WATCHDOG_PID": str(os.getpid()),
    }
    notifier = Notifier.from_environ(environ)
    assert notifier.watchdog_interval_s == 15.0
    notifier.watchdog()
    assert manager.heard() == [b"WATCHDOG=1"]
    for other in ({"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"NOTIFY_SOCKET": ""}):
        notifier = Notifier.from_environ({**environ, **other})
        assert notifier.watchdog_interval_s is None
        notifier.watchdog()
    assert manager.heard() == []


def test_an_abstract_address_works() -> None:
    manager = Manager(f"@hermesd-test-{os.getpid()}")
    try:
        Notifier.from_environ({"NOTIFY_SOCKET": manager.address}).ready()
        assert manager.heard() == [b"READY=1"]
    finally:
        manager.socket.close()


def test_without_systemd_every_method_is_silent() -> None:
    notifier = Notifier.from_environ({})
    assert not notifier.active
    notifier.ready()
    with notifier.reloading("x"):
        notifier.status("y")
    notifier.watchdog()
    notifier.stopping()


def test_an_address_of_an_unknown_kind_is_named_in_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert not Notifier.from_environ({"NOTIFY_SOCKET": "vsock:2:1234"}).active
    assert "vsock:2:1234" in caplog.text


def test_a_socket_that_is_gone_is_reported_once_and_never_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(str(tmp_path / "gone"))
    with caplog.at_level(logging.WARNING):
        notifier.ready()
        notifier.status("still here")
    assert len(caplog.records) == 1
    assert "gone" in caplog.text


def test_a_full_socket_does_not_block_the_watchdog(notifier: Notifier, manager: Manager) -> None:
    began = time.monotonic()
    for _ in range(2000):
        notifier.watchdog()
    assert time.monotonic() - began < 30
    assert manager.heard()[0] == b"WATCHDOG=1"
