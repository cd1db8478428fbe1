"""Pages over named things: a token says after which name to go on.

Names are stable where positions are not: what is added or removed between two pages shifts nothing, so
that every item which exists throughout is seen exactly once.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from hermesd.errors import InvalidRequestError

MessageT = TypeVar("MessageT", bound=Message)
DEFAULT_SIZE = 100
MAX_SIZE = 1000
MAX_TOKEN = 1024


def page_size(asked: int) -> int:
    """How many items to give. 0 is the default; more than 1,000 is 1,000. Negative: InvalidRequestError."""
    if asked < 0:
        raise InvalidRequestError(f"page_size {asked} is negative", remedy="leave it out or give 1 to 1000")
    return min(asked or DEFAULT_SIZE, MAX_SIZE)


def page_token(last: str, question: str) -> str:
    """An opaque token: the next page of `question` (list and filters) begins after `last`."""
    text = json.dumps([zlib.crc32(question.encode()), last], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def after(token: str, question: str) -> str:
    """What the token stands for; "" for no token. InvalidRequestError for a forged one or another list's."""
    if not token:
        return ""
    remedy = "pass next_page_token unchanged, with the same filters, or start again without it"
    try:
        padded = token + "=" * (-len(token) % 4)
        if len(token) > MAX_TOKEN:
            raise ValueError("too long")
        asked, last = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if type(asked) is not int or type(last) is not str:
            raise ValueError("wrong shape")
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise InvalidRequestError("the page_token is not one of ours", remedy=remedy) from None
    if asked != zlib.crc32(question.encode()):
        raise InvalidRequestError("the page_token belongs to a list with other filters", remedy=remedy)
    return last


def slice_names(names: Sequence[str], size: int, last: str) -> tuple[Sequence[str], bool]:
    """At most `size` of the sorted `names` after `last`, and whether more follow."""
    start = bisect_right(names, last) if last else 0
    return names[start : start + size], start + size < len(names)


def fitting(names: Sequence[str], build: Callable[[str], MessageT], room: int) -> list[MessageT]:
    """The messages of as many of `names` as fit into `room` bytes, the first one whatever its size."""
    built: list[MessageT] = []
    for name in names:
        message = build(name)
        room -= message.ByteSize()
        if room < 0 and built:
            break
        built.append(message)
    return built
