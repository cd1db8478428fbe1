"""One parameter of a schema: what is said of it where it is declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hermesd.model.schema import resolve_reference

#: References and unions around one parameter; a schema may refer to itself.
MAX_HOPS = 64


def unescape(path: str) -> tuple[str, ...]:
    """The parts of a JSON pointer; "" is the whole and has none."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def declarations(root: Mapping[str, object], parts: Sequence[str]) -> list[Mapping[str, object]]:
    """Where the schema declares this parameter; [] when it does not.

    Followed are properties, items, local references, and the branches of allOf, anyOf and oneOf.
    """
    found = list(_views(root, root))
    for part in parts:
        below = [child for each in found for child in _children(each, part)]
        found = [view for each in below for view in _views(each, root)]
        found = list({id(each): each for each in found}.values())
    return found


def default_of(root: Mapping[str, object], parts: Sequence[str]) -> tuple[object] | None:
    """The default that the parameter is declared with, in a tuple of one, since it may be null."""
    return next(((each["default"],) for each in declarations(root, parts) if "default" in each), None)


def description_of(root: Mapping[str, object], parts: Sequence[str]) -> str:
    for each in declarations(root, parts):
        if isinstance(said := each.get("description"), str) and said.strip():
            return said
    return ""


def is_required(root: Mapping[str, object], parts: Sequence[str]) -> bool:
    required = (each.get("required") for each in declarations(root, parts[:-1]))
    return bool(parts) and any(isinstance(names, list) and parts[-1] in names for names in required)


def _views(node: object, root: object) -> Iterator[Mapping[str, object]]:
    """The node and what it refers to or is put together from."""
    waiting, seen = [node], set[int]()
    while waiting and len(seen) < MAX_HOPS:
        each = waiting.pop(0)
        if not isinstance(each, dict) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(reference := each.get("$ref"), str):
            waiting.append(resolve_reference(reference, root))
        for key in ("allOf", "anyOf", "oneOf"):
            if isinstance(branches := each.get(key), list):
                waiting.extend(branches)


def _children(node: Mapping[str, object], part: str) -> Iterator[object]:
    properties = node.get("properties")
    if isinstance(properties, dict) and part in properties:
        yield properties[part]
    if part.isdigit():
        ahead = node.get("prefixItems")
        if isinstance(ahead, list) and int(part) < len(ahead):
            yield ahead[int(part)]
        elif isinstance(node.get("items"), dict):
            yield node["items"]
