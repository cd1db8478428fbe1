"""A tool's arguments from the command line: `--args`, `key=value` and `key:=JSON`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TextIO

import click

_WORD = re.compile(r"(?P<key>[^=:]+)(?P<kind>:=|=)(?P<value>.*)", re.DOTALL)


def arguments_json(args: str | None, words: Sequence[str], stdin: TextIO) -> str:
    """The JSON object to send. `args` alone goes as it was written, so that nothing of it is lost.

    `args` is JSON text, `@FILE`, or `-` for stdin. A word `key=value` is text, `key:=JSON` any JSON; words
    win over `args`. Raises UsageError for what is no JSON object, and for a key that two words give.
    """
    text = "{}" if args is None else _read(args, stdin)
    given = _parse(text, "--args")
    if not isinstance(given, dict):
        raise click.UsageError(f"--args: expected a JSON object, got {_kind(given)}")
    if not words:
        return _encodable(text)
    said: dict[str, object] = {}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            raise click.UsageError(f"{word!r} is neither key=value nor key:=JSON")
        key = match["key"]
        if key in said:
            raise click.UsageError(f"{key!r} is given twice")
        said[key] = match["value"] if match["kind"] == "=" else _parse(match["value"], key)
    return _encodable(json.dumps(given | said, ensure_ascii=False))


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise click.UsageError("the arguments are not UTF-8 text") from None
    return text


def _read(args: str, stdin: TextIO) -> str:
    try:
        if args == "-":
            return stdin.read()
        return Path(args[1:]).read_text(encoding="utf-8-sig") if args.startswith("@") else args
    except OSError as error:
        raise click.UsageError(f"--args: {args[1:]}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"--args: {args.removeprefix('@')} is not UTF-8 text") from None


def _parse(text: str, name: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{name}: {text[:60]!r} is no JSON: {error}") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _kind(value: object) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), "a number or boolean")
