"""Schemas and instances for fuzzing: every keyword that parameters can use, small and quarrelsome."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "名"])
TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "a", "3", " 3 ", "-7", "1e3", "0.5", "true", "False", "null", "[1]", "蓝", " red ", "007"]
    ),
    st.sampled_from(
        ["2026-11-30", "20261130", "2026-11-30 10:00Z", "2026-11-30T10:00:00Z", "9007199254740993"]
    ),
    st.text(max_size=4),
)
NUMBERS = st.one_of(
    st.integers(-5, 12), st.sampled_from([0.5, 1.0, -2.0, 2**53, 2**53 + 1, 10**20]), st.integers()
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
INSTANCES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(["a", "b", "c", "名"], st.one_of(TEXTS, st.lists(TEXTS, max_size=2), INSTANCES)),
)

_TYPES = st.sampled_from(["integer", "number", "string", "boolean", "array", "object", "null"])
_PATTERNS = st.sampled_from(["^a", "[0-9]+$", "^[a-z]*$", "蓝", "^$"])
_COUNTS = st.integers(0, 3)


def keyword(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(values)


#: Keywords that hold no other schema.
PLAIN = st.one_of(
    keyword(type=_TYPES),
    keyword(type=st.lists(_TYPES, min_size=1, max_size=2, unique=True)),
    keyword(enum=st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr)),
    keyword(const=INSTANCES),
    keyword(minimum=st.integers(-5, 5), maximum=st.integers(0, 9)),
    keyword(exclusiveMinimum=st.integers(-5, 5)),
    keyword(exclusiveMaximum=st.integers(0, 9)),
    keyword(multipleOf=st.sampled_from([1, 2, 3, 0.5])),
    keyword(type=st.just("string"), minLength=_COUNTS),
    keyword(maxLength=_COUNTS),
    keyword(pattern=_PATTERNS),
    keyword(minItems=_COUNTS),
    keyword(maxItems=_COUNTS),
    keyword(uniqueItems=st.just(True)),
    keyword(required=st.lists(NAMES, max_size=2, unique=True)),
    keyword(minProperties=_COUNTS),
    keyword(maxProperties=_COUNTS),
    keyword(dependentRequired=st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2)),
    keyword(additionalProperties=st.booleans()),
)
REFERENCES = keyword(**{"$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"])})
#: What parameters mostly are; the values of `OBJECTS` are mostly slips for these.
USUAL = st.one_of(
    keyword(type=_TYPES),
    keyword(type=st.just("integer"), minimum=st.integers(-5, 5)),
    keyword(type=st.just("array"), items=keyword(type=_TYPES)),
    keyword(anyOf=st.tuples(keyword(type=_TYPES), st.just({"type": "null"})).map(list)),
    keyword(enum=st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr)),
    keyword(type=st.just("string"), format=st.sampled_from(["date", "date-time", "uuid"])),
)


def _wider(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(NAMES, inner, min_size=1, max_size=2)
    return st.one_of(
        keyword(properties=named),
        keyword(properties=named, required=st.lists(NAMES, max_size=1)),
        keyword(properties=named, additionalProperties=st.just(False)),
        keyword(properties=named, unevaluatedProperties=st.just(False), allOf=several),
        keyword(patternProperties=st.dictionaries(_PATTERNS, inner, max_size=2)),
        keyword(propertyNames=inner),
        keyword(dependentSchemas=named),
        keyword(type=st.just("array"), items=inner),
        keyword(prefixItems=several, items=inner),
        keyword(prefixItems=several, unevaluatedItems=st.just(False)),
        keyword(contains=inner, minContains=_COUNTS, maxContains=_COUNTS),
        keyword(allOf=several),
        keyword(anyOf=several),
        keyword(oneOf=several),
        inner.map(lambda each: {"anyOf": [each, {"type": "null"}]}),
        keyword(**{"not": inner}),
        keyword(**{"if": inner, "then": inner, "else": inner}),
    )


_DEFINITIONS = st.recursive(PLAIN, _wider, max_leaves=2)
SCHEMAS = st.recursive(PLAIN | REFERENCES, _wider, max_leaves=4)


@st.composite
def documents(draw: st.DrawFn, *, usual: bool = False) -> dict[str, Any]:
    """A whole schema of arguments, with definitions that it may refer to."""
    node = USUAL | SCHEMAS if usual else SCHEMAS
    properties = st.dictionaries(NAMES, node, min_size=1, max_size=3)
    made: dict[str, Any] = {"type": "object", "properties": draw(properties)}
    if draw(st.integers(0, 3)) == 0:
        made.update(draw(SCHEMAS))
    made["$defs"] = {"one": draw(PLAIN | USUAL if usual else PLAIN), "two": draw(_DEFINITIONS)}
    return made


#: What models write for a value of a type.
_SLIPS: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.sampled_from(["3", " -7 ", 4, "0.5", "1e3", "9007199254740993"]),
    "number": st.sampled_from(["0.5", " 3", "-7.25", 2, "NaN", "0.12345678901234567"]),
    "boolean": st.sampled_from(["true", "False", " true", True, "yes", 1]),
    "array": st.sampled_from(["3", 3, ["3", "true"], [], "[1]", {"a": "3"}]),
    "string": st.sampled_from(["20261130", " 2026-11-30 ", "2026-11-30 10:00Z", 3, " ", "蓝"]),
    "object": st.sampled_from([{"a": "3"}, "{}", {}, []]),
    "null": st.sampled_from(["null", None, ""]),
}


@st.composite
def slips(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema as tools have it, and arguments that nearly fit."""
    raw = draw(documents(usual=True))
    arguments = draw(OBJECTS)
    for name, node in raw["properties"].items():
        kind = node.get("type") or node.get("anyOf", [{}])[0].get("type")
        if isinstance(kind, str) and draw(st.integers(0, 3)):
            arguments[name] = draw(_SLIPS[kind])
        elif "enum" in node and draw(st.booleans()):
            arguments[name] = f" {draw(st.sampled_from(node['enum']))}"
    return raw, arguments
