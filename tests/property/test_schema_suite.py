"""The official test suite, drafts 2020-12 and 7, through the one way by which schemas come in.

What is answered differently on purpose is listed with its reason, and must still be answered differently.
Python's `jsonschema` is the oracle beside it: on the suite, and on schemas and instances made at random.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
from hypothesis import HealthCheck, event, given, settings

from hermesd.model.schema import Schema, SchemaFault
from tests.schemas import OBJECTS, documents

SUITE = Path(__file__).parent.parent / "data" / "json_schema_suite"
DRAFTS: Mapping[str, tuple[str, Any]] = {
    "draft2020-12": ("https://json-schema.org/draft/2020-12/schema", jsonschema.Draft202012Validator),
    "draft7": ("http://json-schema.org/draft-07/schema#", jsonschema.Draft7Validator),
}
#: The formats that the oracle checks without further packages, whichever happen to be installed.
ORACLE_FORMATS = jsonschema.FormatChecker(["date", "email", "idn-email", "ipv4", "ipv6", "regex", "uuid"])


class Group(NamedTuple):
    draft: str
    file: str
    name: str
    schema: Any
    tests: list[tuple[str, Any, bool]]


@cache
def groups(draft: str) -> list[Group]:
    # Not splitlines: some texts have separators of their own.
    lines = (SUITE / f"{draft}.jsonl").read_text(encoding="utf-8").strip().split("\n")
    made = []
    for line in lines:
        raw = json.loads(line)
        schema = raw["schema"]
        if isinstance(schema, dict):  # a schema that says nothing is of the newest draft
            schema = {"$schema": DRAFTS[draft][0], **schema}
        made.append(Group(draft, raw["file"], raw["group"], schema, raw["tests"]))
    return made


@cache
def listed(name: str, draft: str) -> dict[tuple[str, str], str]:
    """(file, group or "group: test") → reason."""
    table = json.loads((SUITE / name).read_text(encoding="utf-8"))
    return {
        (file, case): reason
        for reason, drafts in table.items()
        for file, cases in drafts.get(draft, {}).items()
        for case in cases
    }


def cases(draft: str) -> Iterator[tuple[Group, Schema | None, str, Any, bool]]:
    """Every test of a draft; the schema is None when it is not admitted."""
    for group in groups(draft):
        try:
            schema = Schema.compile(group.schema)
        except SchemaFault:
            schema = None
        for name, data, valid in group.tests:
            yield group, schema, name, data, valid


@pytest.mark.promise("ARG-8")
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_official_suite_passes_but_for_what_is_listed(draft: str) -> None:
    excluded = listed("exclusions.json", draft)
    refused: set[tuple[str, str]] = set()
    wrong: set[tuple[str, str]] = set()
    for group, schema, name, data, valid in cases(draft):
        if schema is None:
            refused.add((group.file, group.name))
        elif (schema.is_valid(data), not schema.faults(data)) != (valid, valid):
            wrong.add((group.file, f"{group.name}: {name}"))
    assert sorted((refused | wrong) - excluded.keys()) == [], "answered differently and not listed"
    assert sorted(excluded.keys() - refused - wrong) == [], "listed and answered as the suite wants"


@pytest.mark.promise("ARG-8")
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_oracle_agrees_on_the_suite_but_for_what_is_listed(draft: str) -> None:
    known = listed("differences.json", draft)
    made: dict[int, Any] = {}
    differs: set[tuple[str, str]] = set()
    for group, schema, name, data, _ in cases(draft):
        if schema is None:
            continue
        kind = DRAFTS[draft][1]
        if id(group) not in made:
            made[id(group)] = kind(group.schema, format_checker=ORACLE_FORMATS)
        try:
            agreed = made[id(group)].is_valid(data) == schema.is_valid(data)
        except re.error:  # a pattern that the oracle cannot even read
            agreed = False
        if not agreed:
            differs.add((group.file, f"{group.name}: {name}"))
    assert sorted(differs - known.keys()) == [], "the oracle differs and it is not listed"
    assert sorted(known.keys() - differs) == [], "listed and agreed on"


def test_every_exclusion_has_a_reason() -> None:
    for name in ("exclusions.json", "differences.json"):
        assert all(len(reason) > 20 for reason in json.loads((SUITE / name).read_text(encoding="utf-8")))


@pytest.mark.promise("ARG-8")
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents(), OBJECTS)
def test_the_oracle_agrees_on_whatever_is_made_up(raw: Mapping[str, Any], instance: dict[str, Any]) -> None:
    schema = Schema.compile(raw)
    valid = schema.is_valid(instance)
    event("valid" if valid else "invalid")
    assert valid == (schema.faults(instance) == [])
    assert valid == jsonschema.Draft202012Validator(raw).is_valid(instance), (raw, instance)
