"""What a tool answers while its circuit is open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from hermesd.model.digest import canonical_json
from hermesd.model.name import TOOL_NAME
from hermesd.model.rule import Bound
from hermesd.model.schema import Schema, SchemaFault

Kind = Literal["value", "tool", "last_good"]
KINDS: tuple[Kind, ...] = ("value", "tool", "last_good")
#: How long a last good answer is good, in seconds, when the definition does not say.
MAX_AGE_S = 3600


@dataclass(frozen=True, slots=True)
class Fallback:
    """`value`: this JSON value. `tool`: the answer of another tool to the same arguments. `last_good`: what
    the same caller last got for the same arguments, while it is at most `max_age_s` old.
    """

    kind: Kind
    value: object = None
    tool: str = ""
    max_age_s: float = MAX_AGE_S

    @classmethod
    def parse(cls, raw: Mapping[str, object] | None) -> Fallback | None:
        """From what `fallback_faults` found nothing wrong with."""
        if raw is None:
            return None
        if "value" in raw:
            return cls("value", value=raw["value"])
        if "tool" in raw:
            return cls("tool", tool=str(raw["tool"]))
        said = raw["last_good"]
        if isinstance(said, dict):
            return cls("last_good", max_age_s=cast("float", said.get("max_age_s", MAX_AGE_S)))
        return cls("last_good") if said else None

    def plain(self) -> dict[str, object]:
        """As an author would write it, in full."""
        if self.kind == "last_good":
            return {"last_good": {"max_age_s": self.max_age_s}}
        return {self.kind: self.value if self.kind == "value" else self.tool}


def fallback_faults(raw: object, name: str, returns: object) -> list[str]:
    """Every fault of a definition's `fallback`."""
    if not isinstance(raw, dict):
        return []  # told with the field's type
    if len(raw) != 1 or next(iter(raw)) not in KINDS:
        return [
            f"fallback: expected exactly one of {', '.join(KINDS)}, got {', '.join(map(str, raw)) or 'none'}"
        ]
    if "tool" in raw:
        return _tool_faults(raw["tool"], name)
    if "last_good" in raw:
        return _last_good_faults(raw["last_good"])
    return _value_faults(raw["value"], returns)


def _tool_faults(tool: object, name: str) -> list[str]:
    if not isinstance(tool, str) or TOOL_NAME.match(tool) is None:
        return [f"fallback/tool: {tool!r} is no tool name such as orders.query_status"]
    return [f"fallback/tool: {tool} cannot stand in for itself"] if tool == name else []


def _last_good_faults(said: object) -> list[str]:
    if isinstance(said, bool):
        return []
    if not isinstance(said, dict):
        return [f"fallback/last_good: expected true or {{max_age_s}}, got {type(said).__name__}"]
    faults = [f"fallback/last_good: unknown setting {key!r}" for key in said if key != "max_age_s"]
    if "max_age_s" in said and (fault := Bound(1, 31_536_000, whole=False).fault(said["max_age_s"])):
        faults.append(f"fallback/last_good/max_age_s: {fault}")
    return faults


def _value_faults(value: object, returns: object) -> list[str]:
    try:
        canonical_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        return [f"fallback/value: is no JSON: {error}"]
    if not isinstance(returns, dict):
        return []
    try:
        schema = Schema.compile(returns)
    except SchemaFault:
        return []  # told with `returns`
    return [f"fallback/value{fault.path}: {fault.problem}" for fault in schema.faults(value)]
