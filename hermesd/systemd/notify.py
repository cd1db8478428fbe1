"""The notification protocol of systemd (sd_notify): exact datagrams, without a library.

Guarantee: whoever said RELOADING says READY afterwards, whatever happened in between; nothing is sent
before the first READY that would end the start too early, and no READY after STOPPING.
A daemon that was not started by systemd gets an object whose methods send nothing.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from hermesd.model.text import clean

SEND_TIMEOUT_S = 2.0
_STATUS_LIMIT = 500
_log = logging.getLogger("hermesd.systemd")


class Notifier:
    """Says to systemd what the daemon does. Sending never raises: a failure is logged, once.

    Not thread-safe: one thread, the one of the event loop, speaks.
    """

    def __init__(
        self,
        address: str = "",
        *,
        watchdog_usec: int = 0,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._address = address
        self._watchdog_usec = watchdog_usec
        self._monotonic_ns = monotonic_ns
        self._ready = False
        self._stopping = False
        self._reloads = 0
        self._failed = False

    @classmethod
    def from_environ(
        cls,
        environ: Mapping[str, str],
        *,
        pid: int | None = None,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> Notifier:
        """What NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID say; inactive when they say nothing.

        An address that is neither a path nor abstract (`@name`), or a watchdog meant for another process,
        is ignored, the first with a warning.
        """
        address = environ.get("NOTIFY_SOCKET", "")
        if address and address[0] not in "/@":
            _log.warning("NOTIFY_SOCKET %s is no unix socket: systemd is not notified", clean(address, 200))
            address = ""
        usec = environ.get("WATCHDOG_USEC", "")
        meant = environ.get("WATCHDOG_PID", "")
        own = str(os.getpid() if pid is None else pid)
        enabled = bool(address) and usec.isascii() and usec.isdigit() and meant in ("", own)
        return cls(address, watchdog_usec=int(usec) if enabled else 0, monotonic_ns=monotonic_ns)

    @property
    def active(self) -> bool:
        """Whether anybody listens."""
        return bool(self._address)

    @property
    def watchdog_interval_s(self) -> float | None:
        """How often `watchdog` should be called, half of what systemd tolerates; None: no watchdog."""
        return self._watchdog_usec / 2_000_000 if self._watchdog_usec else None

    def ready(self, status: str = "") -> None:
        """The start is over. Say it when every socket accepts with its final mode."""
        self._ready = True
        self._send("READY=1", *_status(status))

    @contextmanager
    def reloading(self, status: str = "") -> Iterator[None]:
        """RELOADING with MONOTONIC_USEC on entry, READY on exit, also when the block raises.

        Hold it no longer than the reconciliation itself: a crash within it is a failed reload to systemd.
        Overlapping blocks send one RELOADING and one READY.
        """
        if not self._ready or self._stopping:
            yield
            return
        self._reloads += 1
        if self._reloads == 1:
            stamp = f"MONOTONIC_USEC={self._monotonic_ns() // 1000}"
            self._send("RELOADING=1", stamp, *_status(status))
        try:
            yield
        finally:
            self._reloads -= 1
            if self._reloads == 0 and not self._stopping:
                self._send("READY=1")

    def stopping(self, status: str = "", *, extend_s: float = 0) -> None:
        """The stop has begun. `extend_s` asks systemd for so long before it kills, for a long drain."""
        self._stopping = True
        extend = [f"EXTEND_TIMEOUT_USEC={int(extend_s * 1_000_000)}"] if extend_s > 0 else []
        self._send("STOPPING=1", *extend, *_status(status))

    def status(self, text: str) -> None:
        """One line for `systemctl status`; text from outside cannot smuggle in another assignment."""
        self._send(*_status(text))

    def watchdog(self) -> None:
        """One ping. Call it only after progress was proved (see `watchdog.keep_alive`)."""
        if self._watchdog_usec:
            self._send("WATCHDOG=1", timeout_s=0)

    def _send(self, *lines: str, timeout_s: float = SEND_TIMEOUT_S) -> None:
        if not self._address or not lines:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.settimeout(timeout_s)
                channel.connect(address)
                channel.send("\n".join(lines).encode("utf-8"))
        except OSError as error:
            if not self._failed:
                _log.warning("systemd cannot be notified at %s: %s", clean(self._address, 200), error)
            self._failed = True


def _status(text: str) -> list[str]:
    return [f"STATUS={clean(text, _STATUS_LIMIT)}"] if text else []
