"""Whatever the schema and the arguments: coercion keeps what is valid, settles, and only ever helps."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from hermesd.model.coerce import coerce
from hermesd.model.parameter import unescape
from hermesd.model.schema import Schema
from tests.schemas import slips

PAIRS = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def at(instance: Any, path: str) -> Any:
    for part in unescape(path):
        instance = instance[int(part)] if isinstance(instance, list) else instance[part]
    return instance


def places(schema: Schema, instance: object) -> set[tuple[str | int, ...]]:
    return {tuple(error.instance_path) for error in schema.errors(instance)}


@pytest.mark.promise("ARG-7")
@PAIRS
@given(slips())
def test_coercion_keeps_what_is_valid_settles_and_only_helps(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    raw, arguments = pair
    schema = Schema.compile(raw)
    before = copy.deepcopy(arguments)
    final, changes = coerce(arguments, schema)
    assert repr(arguments) == repr(before), "the given arguments are not touched"
    if schema.is_valid(arguments):
        assert final is arguments
    if not changes:
        assert final is arguments
        return
    event("changed")
    json.dumps(final, allow_nan=False)
    assert coerce(final, schema) == (final, []), "a second time changes nothing"
    assert places(schema, final) < places(schema, arguments) or len(schema.faults(final)) < len(
        schema.faults(arguments)
    )
    for change in changes:
        path = str(change["path"])
        assert repr(at(final, path)) != repr(at(arguments, path))


@pytest.mark.promise("ARG-7")
@PAIRS
@given(
    st.sampled_from(["integer", "number", "boolean", "array", "null"]),
    st.booleans(),
    st.one_of(st.text(max_size=6), st.integers().map(str), st.floats(allow_nan=False).map(str)),
)
def test_what_is_read_is_of_the_type_that_was_wanted(name: str, nullable: bool, text: str) -> None:
    wanted = {"anyOf": [{"type": name}, {"type": "null"}]} if nullable else {"type": name}
    schema = Schema.compile({"properties": {"a": wanted}})
    final, changes = coerce({"a": text}, schema)
    assert bool(changes) == schema.is_valid(final)
    if not changes:
        assert final == {"a": text}
    elif name in ("integer", "number"):
        assert jsonschema_rs.is_valid({"type": name}, final["a"])
        assert float(text) == final["a"]
