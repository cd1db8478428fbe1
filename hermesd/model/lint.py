"""What a tool's author should hear before a model has to work with the tool.

A lint never refuses anything: the tool works, but a model that knows only its definition will call it
wrongly. Every lint carries the remedy. `lint` covers everything that parsing warns about too, so that a
check reports from one place.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import cast

from hermesd.errors import Rejection
from hermesd.model.definition import ToolDefinition
from hermesd.model.field_content import undeclared_guides
from hermesd.model.handover import ANTHROPIC_PROPERTY
from hermesd.model.name import VERB_OBJECT

#: Shorter than this (wide characters count double) no text says source, form and what to do when missing.
MIN_PARAMETER_TEXT = 12
DESCRIPTION_CHARS = 500

_MISSING_PARAMETER = (
    "say where the value comes from, which form it has and what to do when it is missing: "
    "in the docstring, Annotated[…, 'text'] or parameter_guide"
)
_BARE_PARAMETER = (
    "name its fields with a dataclass or TypedDict, or say in parameter_guide what may stand in it"
)
_BARE_RETURN = "name its fields with a dataclass or TypedDict, or describe the return value"


def lint(
    definition: ToolDefinition, *, description_chars: int = DESCRIPTION_CHARS, file: str = "", line: int = 0
) -> tuple[Rejection, ...]:
    """Every lint of one tool, in the order of its fields; each names the tool and carries a remedy.

    `description_chars` is the budget of a description: every tool that a model is shown costs it tokens.
    """
    found = [
        *_name(definition),
        *_texts(definition, description_chars),
        *_parameters(definition),
        *_returns(definition),
        *_guides(definition),
        *_way_out(definition),
    ]
    return tuple(
        Rejection(definition.name, f"tool {definition.name!r}: {reason}", remedy, file, line)
        for reason, remedy in found
    )


def _name(definition: ToolDefinition) -> Iterator[tuple[str, str]]:
    if VERB_OBJECT.match(definition.name) is None:
        yield (
            "its name is not domain.verb_object",
            "name it after what it does to what, such as orders.query_status",
        )


def _texts(definition: ToolDefinition, budget: int) -> Iterator[tuple[str, str]]:
    if not definition.description.strip():
        yield "has no description", "say in the docstring's first line what the tool does"
    elif len(definition.description) > budget:
        yield (
            f"its description has {len(definition.description)} characters, more than {budget}",
            "keep what a model needs to choose the tool; move the rest to when_to_use or parameter_guide",
        )
    if not definition.when_to_use.strip():
        yield "has no when_to_use", "say in one sentence when a model should choose this tool"


def _parameters(definition: ToolDefinition) -> Iterator[tuple[str, str]]:
    properties = definition.parameters.get("properties")
    for name, schema in cast("Mapping[str, object]", properties or {}).items():
        guide = definition.parameter_guide.get(name, "")
        target = _resolved(schema, definition.parameters)
        texts = [guide, *(str(each.get("description", "")) for each in (_mapping(schema), target))]
        if max(_width(each.strip()) for each in texts) < MIN_PARAMETER_TEXT:
            yield (
                f"parameter {name!r} does not say its source, form and what to do when missing",
                (_MISSING_PARAMETER),
            )
        if not guide.strip() and _has_bare_object(schema, definition.parameters):
            yield f"parameter {name!r} is a bare object", _BARE_PARAMETER


def _returns(definition: ToolDefinition) -> Iterator[tuple[str, str]]:
    schema = definition.returns
    if schema is None or _width(str(schema.get("description", "")).strip()) >= MIN_PARAMETER_TEXT:
        return
    if _has_bare_object(schema, schema):
        yield "returns a bare object", _BARE_RETURN


def _guides(definition: ToolDefinition) -> Iterator[tuple[str, str]]:
    for name in undeclared_guides(definition.parameter_guide, definition.parameters):
        yield (
            f"parameter_guide speaks of {name!r}, which is no parameter",
            "name a parameter, or leave it out",
        )
    for name in cast("Mapping[str, object]", definition.parameters.get("properties") or {}):
        if not ANTHROPIC_PROPERTY.fullmatch(name):
            yield (
                f"parameter {name[:80]!r} has a name that Anthropic's API refuses",
                "use at most 64 letters a-z, digits, '_', '.' and '-'; say the rest in its description",
            )


def _way_out(definition: ToolDefinition) -> Iterator[tuple[str, str]]:
    if definition.deprecated is not None and not definition.deprecated.use:
        yield "is deprecated and does not say what to use in its place", "name that tool in deprecated.use"


def _has_bare_object(schema: object, root: Mapping[str, object], depth: int = 8) -> bool:
    """Whether `schema`, or what it is made of, admits any JSON or any object at all."""
    if depth == 0:
        return False
    target = _resolved(schema, root)
    if _is_bare(target):
        return True
    return any(_has_bare_object(part, root, depth - 1) for part in _parts(target))


_SHAPING = ("properties", "patternProperties", "enum", "const", "allOf", "if", "not")


def _is_bare(schema: Mapping[str, object]) -> bool:
    if any(key in schema for key in ("anyOf", "oneOf", "$ref", *_SHAPING)):
        return False
    kind = schema.get("type")
    if kind is None:
        return True
    if "object" not in (kind if isinstance(kind, list) else [kind]):
        return False
    # Typed values, or none at all, are a shape; absent or true means that anything may stand there.
    return schema.get("additionalProperties", True) in (True, {})


def _parts(schema: Mapping[str, object]) -> Iterator[object]:
    for key in ("anyOf", "oneOf"):
        yield from cast("list[object]", schema.get(key) or [])
    yield from cast("Mapping[str, object]", schema.get("properties") or {}).values()
    if isinstance(items := schema.get("items"), dict):
        yield items
    if isinstance(extra := schema.get("additionalProperties"), dict) and extra:
        yield extra


def _resolved(schema: object, root: Mapping[str, object]) -> Mapping[str, object]:
    """`schema`, or what its reference into `root` points at. An unknown target is what it says itself."""
    here = _mapping(schema)
    reference = here.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return here
    node: object = root
    for part in reference[2:].split("/"):
        node = _mapping(node).get(part.replace("~1", "/").replace("~0", "~"))
    return _mapping(node) or here


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
