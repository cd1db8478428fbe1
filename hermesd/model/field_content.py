"""What stands inside the fields of a definition: lists of texts, names of tools, texts for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from hermesd.model.name import MAX_LENGTH, TOOL_NAME

MAX_EXAMPLES = 20
MAX_TAGS = 50
MAX_TEXT = 200
_EXAMPLE = ("user_says", "arguments")


def content_faults(raw: Mapping[str, object]) -> list[str]:
    """What is wrong inside fields whose own type is right, each with its place (`tags/0: …`)."""
    return [*_tags(raw), *_dependencies(raw), *_guide(raw), *_examples(raw), *_titles(raw)]


def undeclared_guides(guide: Mapping[str, str], parameters: Mapping[str, object]) -> list[str]:
    """Names that a guide speaks of and the parameters do not have. What is composed may have any."""
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping) or any(
        key in parameters for key in ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")
    ):
        return []
    return [name for name in guide if name.partition(".")[0] not in properties and name not in properties]


def _items(raw: Mapping[str, object], field: str) -> list[object]:
    value = raw.get(field)
    return cast("list[object]", value) if isinstance(value, list) else []


def _tags(raw: Mapping[str, object]) -> Iterator[str]:
    tags = _items(raw, "tags")
    if len(tags) > MAX_TAGS:
        yield f"tags: has {len(tags)}, and {MAX_TAGS} are the most"
    for index, tag in enumerate(tags):
        if not isinstance(tag, str) or not tag.strip() or len(tag) > MAX_TEXT:
            yield f"tags/{index}: expected a short text"


def _dependencies(raw: Mapping[str, object]) -> Iterator[str]:
    for index, name in enumerate(_items(raw, "depends_on")):
        if not isinstance(name, str) or len(name) > MAX_LENGTH or TOOL_NAME.match(name) is None:
            yield f"depends_on/{index}: {str(name)[:40]!r} is no name of a tool"


def _guide(raw: Mapping[str, object]) -> Iterator[str]:
    guide = raw.get("parameter_guide")
    for name, text in guide.items() if isinstance(guide, dict) else ():
        if not isinstance(name, str) or not isinstance(text, str):
            yield f"parameter_guide/{name}: expected a text for each parameter, got {type(text).__name__}"


def _examples(raw: Mapping[str, object]) -> Iterator[str]:
    examples = _items(raw, "examples")
    if len(examples) > MAX_EXAMPLES:
        yield f"examples: has {len(examples)}, and {MAX_EXAMPLES} are the most"
    for index, example in enumerate(examples):
        if not isinstance(example, dict):
            continue  # told where its arguments are looked at
        if unknown := [key for key in example if key not in _EXAMPLE]:
            yield f"examples/{index}: unknown field {unknown[0]!r}; an example has user_says and arguments"
        if not isinstance(example.get("user_says", ""), str):
            yield f"examples/{index}/user_says: expected text"


def _titles(raw: Mapping[str, object]) -> Iterator[str]:
    title = raw.get("title")
    if isinstance(title, str) and len(title) > MAX_TEXT:
        yield f"title: has {len(title)} characters, and {MAX_TEXT} are the most"
