"""The parts of a result's content, as JSON: text, image, resource link."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

#: Of each kind its keys: those that must be there, and those that may.
KINDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "text": (frozenset({"text"}), frozenset()),
    "image": (frozenset({"data", "mime_type"}), frozenset()),
    "resource_link": (
        frozenset({"uri", "name"}),
        frozenset({"title", "description", "mime_type", "size"}),
    ),
}


def check_content(parts: object) -> None:
    """Raise ValueError for what is no list of content parts, naming the place."""
    if not isinstance(parts, list):
        raise ValueError("the content is no list")
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or part.get("type") not in KINDS:
            raise ValueError(f"content/{index} is no text, image or resource_link")
        needed, allowed = KINDS[part["type"]]
        given = part.keys() - {"type"}
        if not needed <= given <= needed | allowed:
            raise ValueError(f"content/{index} has the keys {sorted(given)}")
        for key in given:
            wanted = int if key == "size" else str
            if not isinstance(part[key], wanted) or isinstance(part[key], bool):
                raise ValueError(f"content/{index}/{key} is no {wanted.__name__}")
        if part.get("size", 0) < 0:
            raise ValueError(f"content/{index}/size is negative")
        if part["type"] == "image":
            _check_base64(part["data"], index)


def _check_base64(text: str, index: int) -> None:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"content/{index}/data is no base64") from None
