"""The one reader of YAML and JSON texts: bounded, strict, and able to say where anything stands."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from hermesd.config.fault import TextFault, printable
from hermesd.config.json_text import read_json
from hermesd.config.yaml_text import Places, read_yaml
from hermesd.errors import ConfigError, PluginError, Rejection

MAX_BYTES = 1024 * 1024
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\ufeff")
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


class Document:
    """A text's value in JSON types. `is_empty`: nothing but blanks and comments stood there.

    Values are shared where the text uses aliases: treat them as read-only.
    """

    __slots__ = ("_data", "_places", "file", "is_empty", "value")

    def __init__(self, file: str, data: bytes, value: object, is_empty: bool) -> None:
        self.file = file
        self.value = value
        self.is_empty = is_empty
        self._data = data
        self._places: Places | None = None

    def place(self, path: Sequence[str | int]) -> tuple[int, int]:
        """Line and column, from 1, of the key or item at `path`, or of the nearest part above it.

        The text is read again, once, to find out: nobody pays for places while nothing is wrong.
        """
        if self._places is None:
            places: Places = {}
            _parse(self._data, self.file, places)
            self._places = places
        for end in range(len(path), 0, -1):
            found = self._places.get(tuple(path[:end]))
            if found is not None:
                return found
        return 1, 1


def read_document(
    data: bytes,
    file: str,
    *,
    max_bytes: int = MAX_BYTES,
    name: str = "",
    error: type[ConfigError] | type[PluginError] = ConfigError,
) -> Document:
    """Read a whole text: JSON when `file` ends in .json, else YAML. Raises `error` and nothing else.

    `name` is what the rejection is filed under; by default the file.
    """
    try:
        text = _decode(data, max_bytes)
        value, found = _parse(text, file, None)
    except TextFault as fault:
        # A duplicate is worth naming its first place, which only a reading with places knows.
        fault = _with_places(fault, data, file, max_bytes)
        reason, remedy = printable(fault.problem), printable(fault.remedy)
        rejection = Rejection(name or file, reason, remedy, file, fault.line, fault.column)
        raise error([rejection]) from None
    return Document(file, text, value, not found)


def _parse(text: bytes, file: str, places: Places | None) -> tuple[object, bool]:
    if not file.endswith(".json"):
        return read_yaml(text, places)
    if not text.strip():
        return None, False
    return read_json(text.decode("utf-8"), places), True


def _with_places(fault: TextFault, data: bytes, file: str, max_bytes: int) -> TextFault:
    if "twice" not in fault.problem or file.endswith(".json"):
        return fault
    try:
        _parse(_decode(data, max_bytes), file, {})
    except TextFault as placed:
        return placed
    return fault


def _decode(data: bytes, max_bytes: int) -> bytes:
    """The text as UTF-8 bytes without a byte-order mark. Raises TextFault."""
    if len(data) > max_bytes:
        raise TextFault(f"is larger than {_size(max_bytes)}", "split the file, or keep data elsewhere")
    for mark, encoding in _WIDE_MARKS:
        if data.startswith(mark):
            raise TextFault(f"is encoded in {encoding}", "save the file as UTF-8", 1, 1)
    data = data.removeprefix(codecs.BOM_UTF8)
    if b"\0" in data:
        raise TextFault("is a binary file", "give a text file in UTF-8", *_position(data, data.index(b"\0")))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextFault(
            f"holds bytes that are no UTF-8 (0x{data[error.start]:02x})",
            "save the file as UTF-8",
            *_position(data, error.start),
        ) from None
    if (bad := _UNPRINTABLE.search(text)) is not None:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - (text.rfind("\n", 0, bad.start()) + 1) + 1
        raise TextFault(
            f"holds the control character U+{ord(bad.group()):04X}", "remove the character", line, column
        )
    return data


def _position(data: bytes, offset: int) -> tuple[int, int]:
    before = data[:offset]
    line_start = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[line_start:].decode("utf-8", "replace")) + 1


def _size(count: int) -> str:
    return f"{count // (1024 * 1024)} MiB" if count >= 1024 * 1024 else f"{count // 1024} KiB"
