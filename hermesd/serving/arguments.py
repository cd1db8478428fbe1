"""The text of a call's arguments as values; what is no usable JSON object is an answer, not an error."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import NoReturn, cast

from hermesd.model.call import Code
from hermesd.model.schema import MAX_DEPTH, SchemaFault, depth_fault
from hermesd.serving.course import Refused

#: More values hold up everybody: a million of them take 50 ms to read and 100 MB to hold.
MAX_VALUES = 100_000
#: Below this there is no need to count.
LARGE_CHARS = 64 * 1024
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.S)


def parse_arguments(text: str) -> Mapping[str, object]:
    """The arguments of `arguments_json`. Refused: INVALID_ARGUMENT with the fault."""
    try:
        if len(text) > LARGE_CHARS:
            _refuse_too_many(text)
        arguments = _decode(text or "{}")
        if text.count("{") + text.count("[") > MAX_DEPTH:  # with fewer it cannot be too deep
            depth_fault(arguments)
        if "\\u" in text:  # half a character can come as an escape
            json.dumps(arguments, ensure_ascii=False).encode()
        elif not text.isascii():
            text.encode()  # or as it is, from another tool in this process
    except (ValueError, RecursionError, SchemaFault) as error:
        raise _malformed("is no JSON that can be used", str(error) or type(error).__name__) from None
    if not isinstance(arguments, dict):
        raise _malformed("must be a JSON object", type(arguments).__name__)
    return arguments


def _refuse_too_many(text: str) -> None:
    """Values, not characters, are what takes time and memory: a long text is one."""
    if text.count(",") > MAX_VALUES and _STRING.sub("", text).count(",") > MAX_VALUES:
        raise ValueError(
            f"it has more than {MAX_VALUES} values; pass a part of them, or a text that holds them"
        )


def _malformed(problem: str, got: str) -> Refused:
    fault = {"path": "", "problem": problem, "expected": "a JSON object", "got": got[:200]}
    return Refused(Code.INVALID_ARGUMENT, f"arguments_json {problem}: {got[:200]}", faults=[fault])


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


# Made once: json.loads makes a decoder for each call that has options.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _decode(text: str) -> object:
    """The value of a JSON text. `decode` looks for blanks around it, which takes longer than the rest."""
    if text.startswith("{"):
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return cast("object", value)
    return cast("object", _DECODER.decode(text))
