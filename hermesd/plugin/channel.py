"""The runner's end of the line to the daemon: frames on a descriptor that plugin code cannot stumble over."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections import deque

from hermesd.plugin.frames import READ_BYTES, Frame, FrameDecoder, Head, encode_frame


class Channel:
    """Sends from any thread, whole frames only; receives in one thread at a time.

    Both raise OSError or EOFError when the daemon's end is closed.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._lock = threading.Lock()
        self._decoder = FrameDecoder()
        self._frames: deque[Frame] = deque()

    def send(self, head: Head, body: bytes = b"") -> None:
        """Write one frame. Raises FrameFault, before anything is written, when it is too large."""
        data = encode_frame(head, body)
        with self._lock:
            written = os.write(self._write_fd, data)
            if written < len(data):
                self._send_rest(memoryview(data)[written:])

    def receive(self) -> Frame:
        """The next frame; blocks. Raises FrameFault for garbage."""
        while not self._frames:
            data = os.read(self._read_fd, READ_BYTES)
            if not data:
                raise EOFError("the daemon closed the channel")
            self._frames.extend(self._decoder.feed(data))
        return self._frames.popleft()

    def _send_rest(self, rest: memoryview) -> None:
        while rest:
            rest = rest[os.write(self._write_fd, rest) :]


def claim_stdio() -> Channel:
    """Move the protocol away from descriptors 0 and 1, so that no `print` and no `input` can touch it.

    Descriptor 0 is a socket that carries both directions, or 0 and 1 are a pipe each. Afterwards 0 reads
    nothing and 1 is where 2 goes. The protocol's descriptors are not inherited by what the plugin starts.
    """
    read_fd = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 10)
    write_fd = read_fd
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        write_fd = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 10)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return Channel(read_fd, write_fd)
