"""The stage before validation: the arguments as the model meant them, and what is left to say of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from hermesd.model.coerce import coerce
from hermesd.model.correct import apply_corrections
from hermesd.model.definition import ToolDefinition
from hermesd.model.parameter import default_of, description_of, is_required, unescape
from hermesd.model.schema import ArgumentFault, Schema
from hermesd.serving.catalogue import Entry


@dataclass(frozen=True, slots=True)
class Normalised:
    """`text` is the JSON of `arguments`; None: nothing was changed, the text that came still holds."""

    arguments: Mapping[str, object]
    text: str | None
    changes: tuple[dict[str, object], ...]
    faults: tuple[dict[str, object], ...]


def normalise(arguments: Mapping[str, object], entry: Entry, schema: Schema) -> Normalised:
    """Apply the tool's rules, then read what the schema refuses as it was meant, then list what is wrong."""
    final, changes = apply_corrections(arguments, entry.corrections)
    if entry.definition.coerce and not schema.is_valid(final):
        final, coerced = coerce(final, schema)
        changes.extend(coerced)
    text = json.dumps(final, ensure_ascii=False, separators=(",", ":")) if changes else None
    faults = tuple(_told(fault, entry.definition, schema, final) for fault in schema.faults(final))
    return Normalised(final, text, tuple(changes), faults)


def _told(
    fault: ArgumentFault, definition: ToolDefinition, schema: Schema, arguments: Mapping[str, object]
) -> dict[str, object]:
    """A fault as it is answered. A required value that is missing or blank is the user's to give."""
    detail = fault.as_detail()
    parts = unescape(fault.path)
    if not parts or not _blank(arguments, parts):
        return detail
    if not is_required(schema.raw, parts) or default_of(schema.raw, parts) is not None:
        return detail
    detail["ask_user"] = True
    guide = definition.parameter_guide
    hint = guide.get(".".join(parts)) or description_of(schema.raw, parts) or guide.get(parts[0])
    if hint:
        detail["hint"] = hint
    return detail


def _blank(arguments: Mapping[str, object], parts: tuple[str, ...]) -> bool:
    """Whether nothing came there: no value, null, or a text of blanks."""
    value: object = arguments
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False
    return value is None or (isinstance(value, str) and not value.strip())
