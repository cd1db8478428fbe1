"""Values as nobody means well by them: JSON, schemas, definitions, Python objects, texts of arguments."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import uuid
from collections import OrderedDict, deque
from pathlib import PurePosixPath
from typing import Any

from hypothesis import strategies as st

from tests.schemas import SCHEMAS, documents

TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["", "\x00", "\ud800", "\u202e", "\x1b[31m", "x" * 3000, "𝕏", "a/b~c", "$ref", "#/$defs/a"]
    ),
)
NUMBERS = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -0.0, 2**53 + 1, 10**400, -(10**400), 1e308, 5e-324, 10**30]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JSON_VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


def encodable(value: Any) -> bool:
    """Without half characters, which are refused where texts come in."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


_KEYWORDS = st.sampled_from(
    [
        "$ref", "$defs", "definitions", "$id", "$schema", "$anchor", "$dynamicRef",
        "$dynamicAnchor", "type", "enum", "const", "properties", "required", "items", "prefixItems",
        "additionalProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "pattern",
        "patternProperties", "format", "minimum", "maximum", "multipleOf", "minLength", "maxLength",
        "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains",
        "propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "additionalItems",
        "unevaluatedProperties", "unevaluatedItems", "title", "description", "default", "x-unknown",
    ]
)  # fmt: skip
_SAID = st.sampled_from(
    [
        "#", "#/$defs/a", "#/properties/a", "#a", "#/nowhere", "http://example.org/x",
        "file:///etc/passwd", "object", "string", "integer", "null",
        "http://json-schema.org/draft-07/schema#", "(a+)+$", "[", "\\p{L}+", "(?=a)b",
        "^(([a-z])+.)+[A-Z]([a-z])+$", "(?<n>a)\\k<n>", "date-time", "uri", "regex", "idn-hostname",
        "duration",
    ]
)  # fmt: skip
_NODES = st.recursive(
    _SAID | SCALARS,
    lambda inner: (
        st.dictionaries(_KEYWORDS, inner, max_size=4)
        | st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "$ref", "名"]), inner, max_size=2)
    ),
    max_leaves=14,
)


@st.composite
def _deep(draw: st.DrawFn) -> dict[str, Any]:
    key = draw(st.sampled_from(["items", "not", "additionalProperties", "allOf"]))
    node: Any = draw(SCHEMAS)
    for _ in range(draw(st.integers(1, 90))):
        node = {key: [node] if key == "allOf" else node}
    return node  # type: ignore[no-any-return]


@st.composite
def _mended(draw: st.DrawFn) -> dict[str, Any]:
    """A schema that is nearly one: a keyword or two that hold anything."""
    raw = draw(documents())
    raw.update(draw(st.dictionaries(_KEYWORDS, _NODES, max_size=2)))
    return raw


RAW_SCHEMAS = st.one_of(_mended(), _deep(), st.dictionaries(_KEYWORDS, _NODES, max_size=5), JSON_VALUES)

_FIELDS = st.sampled_from(
    [
        "version", "title", "description", "domain", "tags", "when_to_use", "when_not_to_use",
        "parameter_guide", "examples", "parameters", "returns", "side_effects", "idempotent",
        "retryable", "timeout_ms", "enabled", "timeout_class", "max_concurrency", "depends_on",
        "confirm", "coerce", "retry", "circuit_breaker", "fallback", "rate_limit", "roles",
        "requires", "correct", "deprecated", "unknown_field",
    ]
)  # fmt: skip
_INNER = st.one_of(
    JSON_VALUES,
    RAW_SCHEMAS,
    st.lists(
        st.dictionaries(st.sampled_from(["env", "file", "python", "remedy", "path", "do", "when"]), TEXTS)
    ),
    st.dictionaries(
        st.sampled_from(["since", "use", "remove_after", "calls", "per_s", "value", "tool"]), SCALARS
    ),
    st.lists(st.fixed_dictionaries({"user_says": TEXTS, "arguments": JSON_VALUES}), max_size=2),
)
DEFINITIONS = st.dictionaries(_FIELDS, _INNER, max_size=6).map(
    lambda raw: {"name": "orders.query_status", **raw}
)


class Colour(enum.Enum):
    RED = 1
    NAN = math.nan


@dataclasses.dataclass
class Box:
    inside: object


_OBJECTS = st.one_of(
    SCALARS,
    st.floats(),
    st.binary(max_size=8),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.uuids(),
    st.decimals(),
    st.sampled_from([Colour.RED, Colour.NAN, object(), len, Box, PurePosixPath("/a"), range(3), 1j, ...]),
    st.builds(datetime.time),
    st.just(uuid.UUID(int=1)),
    st.just(decimal.Decimal("sNaN")),
)
_KEYS = st.one_of(
    TEXTS, st.integers(), st.booleans(), st.none(), st.floats(), st.just(Colour.RED), st.dates()
)


def _tied(values: list[Any]) -> list[Any]:
    values.append(values)
    return values


PYTHON_VALUES = st.recursive(
    _OBJECTS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(_KEYS, inner, max_size=3),
        st.lists(inner, max_size=2).map(deque),
        st.dictionaries(TEXTS, inner, max_size=2).map(OrderedDict),
        inner.map(Box),
        st.frozensets(st.integers() | TEXTS, max_size=3),
        st.lists(inner, max_size=2).map(_tied),
        st.lists(inner, max_size=2).map(iter),
    ),
    max_leaves=8,
)


@st.composite
def argument_texts(draw: st.DrawFn) -> str:
    """Texts of arguments: JSON, almost JSON, and none at all."""
    text: str = json.dumps(draw(JSON_VALUES), ensure_ascii=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, max(0, len(text) - 1)))
        text = (
            text[:at]
            + draw(st.sampled_from(["", "NaN", "\\ud800", "[" * 70, "\x00", ",", '"', "1e999"]))
            + text[at:]
        )
    return text
