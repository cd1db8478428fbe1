"""What plugin code prints or logs becomes lines that name the call they were written in."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import BinaryIO, TextIO

from hermesd.plugin.failure import trace_of

#: (level, message, fields) of one line; any thread.
Line = Callable[[str, str, dict[str, object]], None]
MAX_LINE_CHARS = 8 * 1024


class Printer:
    """Collects what one call prints until a line is whole."""

    __slots__ = ("_parts", "line")

    def __init__(self, line: Line) -> None:
        self.line = line
        self._parts: dict[str, str] = {}

    def write(self, stream: str, text: str) -> None:
        *lines, rest = (self._parts.get(stream, "") + text).split("\n")
        for line in lines:
            self._tell(stream, line)
        if len(rest) > MAX_LINE_CHARS:
            self._tell(stream, rest)
            rest = ""
        self._parts[stream] = rest

    def flush(self) -> None:
        """The call ends: what is no whole line is told as it is."""
        for stream, rest in self._parts.items():
            self._tell(stream, rest)
        self._parts.clear()

    def _tell(self, stream: str, text: str) -> None:
        for start in range(0, len(text), MAX_LINE_CHARS):
            self.line("info", text[start : start + MAX_LINE_CHARS], {"stream": stream})


#: The printer of the call that this thread or task serves.
current_printer: ContextVar[Printer | None] = ContextVar("current_printer", default=None)


class CallStream(io.TextIOBase):
    """Stands for `sys.stdout` or `sys.stderr`: in a call to its printer, else to the stream below."""

    def __init__(self, name: str, below: TextIO) -> None:
        super().__init__()
        self._name = name
        self._below = below

    @property
    def encoding(self) -> str:  # type: ignore[override] # read-only here
        return "utf-8"

    @property
    def buffer(self) -> BinaryIO:
        """Bytes have no call: they go to the stream below."""
        return self._below.buffer

    def reconfigure(self, **_options: object) -> None:
        """Encoding and buffering are fixed; programs that set them as a precaution may go on."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._below.fileno()

    def write(self, text: str) -> int:
        printer = current_printer.get()
        if printer is None:
            return self._below.write(text)
        printer.write(self._name, text)
        return len(text)

    def flush(self) -> None:
        self._below.flush()


class LineHandler(logging.Handler):
    """Standard logging of plugin code, as lines."""

    def __init__(self, line_of: Callable[[], Line]) -> None:
        super().__init__()
        self._line_of = line_of

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields: dict[str, object] = {"logger": record.name}
            if record.exc_info and record.exc_info[1] is not None:
                fields["trace"] = trace_of(record.exc_info[1])
            self._line_of()(record.levelname.lower(), record.getMessage(), fields)
        except Exception:  # noqa: BLE001 - logging must never fail what it logs
            self.handleError(record)


def redirect(line_of: Callable[[], Line]) -> None:
    """Install the streams and the logging handler. `line_of` gives where the current call's lines go."""
    plain = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = CallStream("stdout", plain)
    sys.stderr = CallStream("stderr", plain)
    root = logging.getLogger()
    root.addHandler(LineHandler(line_of))
    root.setLevel(logging.INFO)
