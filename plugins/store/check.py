"""Checking values against the operator's named schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .item import StoreFault

MAX_FAULTS = 20
MAX_SCHEMA_BYTES = 64 * 1024
REGEX_BACKTRACK_LIMIT = 100_000


class SchemaFault(ValueError):  # noqa: N818 - the operator's schema is at fault; told when the plugin starts
    """A configured schema that is no schema."""


def compile_all(schemas: Mapping[str, object], bindings: Mapping[str, str]) -> None:
    """Refuse at the start what could only fail at a call. Raises SchemaFault naming the setting."""
    for name, schema in schemas.items():
        _validator(name, json.dumps(schema, sort_keys=True))
    for namespace, name in bindings.items():
        if name not in schemas:
            raise SchemaFault(
                f"namespace_schemas.{namespace} names the schema {name!r}, which is not in schemas"
            )


def choose(
    wanted: str | None, namespace: str, schemas: Mapping[str, object], bindings: Mapping[str, str]
) -> str | None:
    """The schema that holds for a put: the namespace's own, else the one asked for. Raises StoreFault."""
    bound = bindings.get(namespace)
    if bound is not None and wanted not in (None, bound):
        raise StoreFault(
            f"items of {namespace!r} must fit the schema {bound!r}, not {wanted!r}",
            code="INVALID_ARGUMENT",
            reason="schema",
            remedy="leave schema out, or use another namespace",
        )
    name = bound or wanted
    if name is not None and name not in schemas:
        known = ", ".join(sorted(schemas)) or "none"
        raise StoreFault(
            f"there is no schema {name!r}; known: {known}",
            code="INVALID_ARGUMENT",
            reason="schema",
            remedy="use a known one, or have it added to plugins.settings.store.schemas",
        )
    return name


def check_value(name: str, schema: object, value: object) -> None:
    """Raise StoreFault with every fault of `value` (at most 20), each at its JSON pointer."""
    validator = _validator(name, json.dumps(schema, sort_keys=True))
    if validator.is_valid(value):
        return
    faults: list[dict[str, object]] = []
    for error in validator.iter_errors(value):
        faults.append({"path": "/value" + _pointer(error.instance_path), "problem": error.message[:300]})
        if len(faults) == MAX_FAULTS:
            break
    raise StoreFault(
        f"the value does not fit the schema {name!r}: {faults[0]['path']}: {faults[0]['problem']}",
        code="INVALID_ARGUMENT",
        reason="schema",
        remedy="fix the named places and put it again",
        faults=faults,
    )


@lru_cache(maxsize=64)
def _validator(name: str, text: str) -> Any:
    """Compiled once for each text: nothing remote is fetched, and patterns have a backtrack limit."""
    import jsonschema_rs  # noqa: PLC0415 - a store without schemas needs no validator

    if len(text) > MAX_SCHEMA_BYTES:
        raise SchemaFault(f"schemas.{name} is larger than {MAX_SCHEMA_BYTES // 1024} KiB")
    try:
        return jsonschema_rs.validator_for(
            json.loads(text),
            validate_formats=True,
            retriever=_refuse_remote,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=REGEX_BACKTRACK_LIMIT),
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SchemaFault(f"schemas.{name} is no JSON Schema: {first}") from None


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"it refers to {uri!r}; nothing is fetched")


def _pointer(path: Any) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
