"""What a tool's author knows that models get wrong: `correct: [{path, when, do: clear|trim|default}]`.

`when` is a schema of the value at `path`; without it every value is meant. A rule for a value that did not
come does nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from hermesd.model.name import nearest
from hermesd.model.parameter import declarations, default_of, unescape
from hermesd.model.schema import Schema, SchemaFault, shorten

Do = Literal["clear", "trim", "default"]
FIELDS = ("path", "when", "do")
MAX_RULES = 100


@dataclass(frozen=True, slots=True)
class Correction:
    """A compiled rule. `default` is the parameter's own, in a tuple of one, where `do` is default."""

    path: str
    parts: tuple[str, ...]
    do: Do
    when: Schema | None
    default: tuple[object] | None = None


def compile_corrections(
    rules: Sequence[object], parameters: Mapping[str, object]
) -> tuple[tuple[Correction, ...], list[str]]:
    """The rules, and what is wrong with them, each with its place (`correct/0/path: …`)."""
    if len(rules) > MAX_RULES:
        return (), [f"correct: has {len(rules)} rules, and {MAX_RULES} are the most"]
    made: list[Correction] = []
    faults: list[str] = []
    for index, rule in enumerate(rules):
        wrong = list(_shape_faults(rule)) or _path_faults(cast("dict[str, object]", rule), parameters)
        when: Schema | None = None
        if not wrong:
            when, wrong = _when(cast("dict[str, object]", rule))
        faults.extend(f"correct/{index}{each}" for each in wrong)
        if not wrong:
            made.append(_build(cast("dict[str, Any]", rule), when, parameters))
    return tuple(made), faults


def apply_corrections(
    arguments: Mapping[str, object], corrections: Sequence[Correction]
) -> tuple[Mapping[str, object], list[dict[str, object]]]:
    """The arguments after every rule that fits, in order; each change as `{path, from, to, do}`."""
    changes: list[dict[str, object]] = []
    current = arguments
    for rule in corrections:
        holder = _holder(current, rule.parts)
        if holder is None:
            continue
        value = holder[rule.parts[-1]]
        if rule.when is not None and not rule.when.is_valid(value):
            continue
        if rule.do == "trim" and (not isinstance(value, str) or value == value.strip()):
            continue
        if rule.default is not None and _same(rule.default[0], value):
            continue
        if not changes:
            current = copy.deepcopy(arguments)
        holder = cast("dict[str, object]", _holder(current, rule.parts))
        changes.append({"path": rule.path, "from": shorten(value), "to": _apply(rule, holder), "do": rule.do})
    return current, changes


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _apply(rule: Correction, holder: dict[str, object]) -> object:
    name = rule.parts[-1]
    if rule.do == "clear":
        del holder[name]
        return None
    value = cast("str", holder[name]).strip() if rule.do == "trim" else copy.deepcopy(_only(rule.default))
    holder[name] = value
    return shorten(value)


def _only(default: tuple[object] | None) -> object:
    assert default is not None  # noqa: S101 - a rule that says default is compiled with one
    return default[0]


def _holder(arguments: Mapping[str, object], parts: tuple[str, ...]) -> Mapping[str, object] | None:
    """The object that has the value; None when the value did not come."""
    node: object = arguments
    for part in parts[:-1]:
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node if isinstance(node, dict) and parts[-1] in node else None


def _shape_faults(rule: object) -> list[str]:
    if not isinstance(rule, dict):
        return [": expected {path, when, do}"]
    faults = [f": unknown field {key!r}; a rule has path, when and do" for key in rule if key not in FIELDS]
    if rule.get("do") not in get_args(Do):
        faults.append(f"/do: {rule.get('do')!r} is none of {', '.join(get_args(Do))}")
    if not isinstance(rule.get("path"), str) or not rule["path"].startswith("/"):
        faults.append(f"/path: expected a JSON pointer such as /order_id, got {rule.get('path')!r}")
    if "when" in rule and not isinstance(rule["when"], dict):
        faults.append(f"/when: expected a schema, got {type(rule['when']).__name__}")
    return faults


def _path_faults(rule: Mapping[str, object], parameters: Mapping[str, object]) -> list[str]:
    path = cast("str", rule["path"])
    parts = unescape(path)
    if not declarations(parameters, parts) or any(part.isdigit() for part in parts):
        siblings = [
            name
            for each in declarations(parameters, parts[:-1])
            for name in cast("dict[str, object]", each.get("properties") or {})
        ]
        near = nearest(parts[-1], siblings, 1)
        meant = f", did you mean {near[0]!r}?" if near else ""
        return [f"/path: {path} is no parameter of this tool{meant}"]
    if rule["do"] == "default" and default_of(parameters, parts) is None:
        return [f"/do: {path} has no default"]
    return []


def _when(rule: Mapping[str, object]) -> tuple[Schema | None, list[str]]:
    if "when" not in rule:
        return None, []
    try:
        return Schema.compile(cast("Mapping[str, object]", rule["when"])), []
    except SchemaFault as fault:
        return None, [f"/when{fault.pointer}: {fault.reason}"]


def _build(rule: Mapping[str, Any], when: Schema | None, parameters: Mapping[str, object]) -> Correction:
    parts = unescape(rule["path"])
    default = default_of(parameters, parts) if rule["do"] == "default" else None
    return Correction(rule["path"], parts, rule["do"], when, default)
