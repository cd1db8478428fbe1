"""Where a command's words go: data on stdout, everything else on stderr, nothing raw on a terminal."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

import click

from hermesd.model.text import clean
from hermesd.terminal.table import GAP, cut, lay_out

#: What a terminal would obey, hide or reorder, and what a stream cannot encode. The controls below U+0020
#: are missing here because JSON escapes them anyway; all others can stand only inside its strings.
_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_STATE_COLOURS = {
    "ready": "green",
    "ok": "green",
    "pending": "yellow",
    "degraded": "yellow",
    "draining": "yellow",
    "warn": "yellow",
    "unavailable": "yellow",
    "disabled": "bright_black",
    "rejected": "red",
    "fail": "red",
}


class Screen:
    """Prints for people or for programs.

    Text from outside passes `clean` here and nowhere else, so that no command can forget it. Colours and
    cut columns appear only when stdout is a terminal, colours not under NO_COLOR.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        as_json: bool = False,
        colour: bool = False,
        width: int | None = None,
    ) -> None:
        self._out = out
        self._err = err
        self.as_json = as_json
        self.colour = colour
        self.width = width

    @classmethod
    def of_process(cls, environ: Mapping[str, str], *, as_json: bool = False) -> Screen:
        """The screen of this process: its stdout and stderr as they are now."""
        terminal = sys.stdout.isatty()
        return cls(
            sys.stdout,
            sys.stderr,
            as_json=as_json,
            colour=terminal and not environ.get("NO_COLOR"),
            width=shutil.get_terminal_size().columns if terminal else None,
        )

    @property
    def interactive(self) -> bool:
        """Whether a person reads stdout."""
        return self.width is not None

    def line(self, text: str = "", *, style: str = "") -> None:
        """One line for people on stdout. `style` is a colour, a state's name, or `bold`."""
        print(self._styled(clean(text), style), file=self._out)

    def note(self, text: str) -> None:
        """One line on stderr: what is not data."""
        print(clean(text), file=self._err, flush=True)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]], *, state_column: int = -1) -> None:
        """A table for people; the words of the column `state_column` are coloured by their meaning."""
        safe = [[clean(cell) or "-" for cell in row] for row in rows]
        for number, cells in enumerate(lay_out([list(headers), *safe], self.width)):
            painted = [
                self._styled(cell, "bold" if number == 0 else safe[number - 1][index])
                if number == 0 or index == state_column
                else cell
                for index, cell in enumerate(cells)
            ]
            print(GAP.join(painted).rstrip(), file=self._out)

    def document(self, value: object) -> None:
        """The one JSON document of a command under --json; indented on a terminal."""
        print(json_text(value, indent=2 if self.interactive else None), file=self._out)

    def record(self, value: object) -> None:
        """One JSON line of a stream, flushed so that a reader sees it at once."""
        print(json_text(value), file=self._out, flush=True)

    def raw(self, text: str) -> None:
        """Text that is safe already, such as `json_text` gives, on stdout as it is."""
        print(text, file=self._out)

    def progress(self, text: str) -> None:
        """How far long work is, in place on a terminal's stderr; quiet in a pipe. "" wipes it."""
        if self._err.isatty():
            self._err.write(f"\r{cut(clean(text), (self.width or 80) - 1)}\x1b[K")
            self._err.flush()

    def flush(self) -> None:
        self._out.flush()

    def _styled(self, text: str, style: str) -> str:
        if not self.colour or not style:
            return text
        if style == "bold":
            return click.style(text, bold=True)
        colour = _STATE_COLOURS.get(style, style if style in _STATE_COLOURS.values() else "")
        return click.style(text, fg=colour) if colour else text


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON that loses nothing and is safe to show: what a terminal would obey is written as an escape."""
    return escape_json(json.dumps(value, ensure_ascii=False, indent=indent))


def escape_json(text: str) -> str:
    """JSON text with every character that a terminal would obey as `\\uXXXX`; its value stays the same."""
    return _UNSAFE_IN_JSON.sub(lambda match: json.dumps(match.group())[1:-1], text)
