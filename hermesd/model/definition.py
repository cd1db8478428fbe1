"""A tool's definition: one shape, wherever the tool comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from hermesd.errors import PluginError, Rejection
from hermesd.model import circuit, retry
from hermesd.model.call import SideEffects
from hermesd.model.correct import Correction, compile_corrections
from hermesd.model.deprecation import Deprecation, parse_deprecation
from hermesd.model.digest import digest_of
from hermesd.model.fallback import Fallback, fallback_faults
from hermesd.model.field_content import content_faults, undeclared_guides
from hermesd.model.name import domain_of, nearest, tool_name_fault
from hermesd.model.rate import RateLimit, rate_fault, read_rate
from hermesd.model.requirement import Requirement, parse_requirements
from hermesd.model.rule import Override, rule_faults
from hermesd.model.schema import Schema, SchemaFault

SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?\Z")
ROLE = re.compile(r"[a-z][a-z0-9_-]{0,39}\Z")
ROLE_FORM = "a lower-case letter, then up to 39 lower-case letters, digits, '_' or '-'"
#: Of a whole definition as JSON: lists of tools carry many.
MAX_DEFINITION_CHARS = 128 * 1024
EMPTY_PARAMETERS: Mapping[str, object] = {"type": "object", "properties": {}, "additionalProperties": False}

#: What `timeout_class` may say: the keys of the operator's defaults.timeouts_ms.
TIMEOUT_CLASSES = (
    "python", "http", "openapi", "mcp", "composite", "agent", "peer", "container", "batch",
)  # fmt: skip

#: Who has to agree before a tool runs.
Confirm = Literal["none", "caller", "operator"]


@dataclass(frozen=True, slots=True)
class Example:
    """A request of a user and the arguments that a good call for it has."""

    user_says: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """What a tool is and how it may be called.

    `timeout_ms` None: the default of its source. `confirm` None: as its side effects ask for.
    """

    name: str
    version: str
    parameters: Mapping[str, object]
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    when_to_use: str = ""
    when_not_to_use: str = ""
    parameter_guide: Mapping[str, str] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    returns: Mapping[str, object] | None = None
    side_effects: SideEffects = "write"
    idempotent: bool = False
    retryable: bool = False
    timeout_ms: int | None = None
    timeout_class: str = ""
    max_concurrency: int | None = None
    rate_limit: RateLimit | None = None
    depends_on: tuple[str, ...] = ()
    #: Agents see and call the tool only with one of these; (): whatever their roles.
    roles: tuple[str, ...] = ()
    enabled: bool = True
    coerce: bool = True
    correct: tuple[Mapping[str, object], ...] = ()
    confirm: Confirm | None = None
    retry: Override | None = None
    circuit_breaker: Override | None = None
    fallback: Fallback | None = None
    requires: tuple[Requirement, ...] = ()
    deprecated: Deprecation | None = None

    @property
    def domain(self) -> str:
        return domain_of(self.name)

    @property
    def confirmation(self) -> Confirm:
        """Whose agreement a call needs, whoever calls: what is destructive needs the operator's."""
        return self.confirm or ("operator" if self.side_effects == "destructive" else "none")

    @property
    def digest(self) -> str:
        """Changes when anything that a caller can see changes."""
        return digest_of({name: getattr(self, name) for name in _DIGESTED} | self._typed())

    def _typed(self) -> dict[str, object]:
        """The fields that are more than JSON, as JSON."""
        return {
            "examples": [
                {"user_says": each.user_says, "arguments": each.arguments} for each in self.examples
            ],
            "fallback": self.fallback and self.fallback.plain(),
            "rate_limit": self.rate_limit and [self.rate_limit.calls, self.rate_limit.per_s],
            "requires": [each.as_detail() for each in self.requires],
            "deprecated": self.deprecated and self.deprecated.as_detail(),
        }


_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "name": str, "version": str, "title": str, "description": str, "domain": str, "tags": list,
    "when_to_use": str, "when_not_to_use": str, "parameter_guide": dict, "examples": list,
    "parameters": dict, "returns": dict, "side_effects": str, "idempotent": bool, "retryable": bool,
    "timeout_ms": int, "timeout_class": str, "max_concurrency": int, "depends_on": list, "enabled": bool,
    "confirm": str, "coerce": bool, "retry": dict, "circuit_breaker": dict, "fallback": dict,
    "rate_limit": dict, "roles": list, "requires": list, "correct": list, "deprecated": dict,
}  # fmt: skip
_DIGESTED = (
    "name", "version", "title", "description", "tags", "when_to_use", "when_not_to_use", "parameter_guide",
    "parameters", "returns", "side_effects", "idempotent", "retryable", "timeout_ms", "timeout_class",
    "max_concurrency", "depends_on", "roles", "enabled", "coerce", "correct", "confirm", "retry",
    "circuit_breaker",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parsed:
    """A definition, its compiled schemas and rules, and what its author should hear.

    `returns` is the schema of the result; None: any JSON.
    """

    definition: ToolDefinition
    schema: Schema
    warnings: tuple[str, ...]
    corrections: tuple[Correction, ...] = ()
    returns: Schema | None = None


def parse_definition(
    raw: Mapping[str, object],
    *,
    plugin: str,
    version: str,
    file: str = "",
    line: int = 0,
    budget: tuple[int, int] = (500, 2000),
) -> Parsed:
    """Turn what an author wrote into a definition.

    `budget`: characters of a description from which on it is a warning, and above which it is refused.
    Raises PluginError with every fault, each naming the tool and the field.
    """
    name = str(raw.get("name", ""))
    if (size := _size(raw)) > MAX_DEFINITION_CHARS:
        reason = f"the definition has {size} characters, and {MAX_DEFINITION_CHARS} are the most"
        raise PluginError([Rejection(plugin, f"tool {name[:100]!r}: {reason}", "shorten it", file, line)])
    faults = [*_field_faults(raw), *_value_faults(raw, name, plugin, budget[1]), *content_faults(raw)]
    typed = _typed_fields(raw, name, faults)
    schema: Schema | None = None
    try:
        schema = Schema.compile(cast("Mapping[str, object]", raw.get("parameters") or EMPTY_PARAMETERS))
    except SchemaFault as fault:
        faults.append(f"parameters{fault.pointer}: {fault.reason}")
    returns: Schema | None = None
    if isinstance(raw.get("returns"), dict):
        try:
            returns = Schema.compile(cast("Mapping[str, object]", raw["returns"]))
        except SchemaFault as fault:
            faults.append(f"returns{fault.pointer}: {fault.reason}")
    corrections: tuple[Correction, ...] = ()
    if schema is not None and not faults:
        faults.extend(_example_faults(raw, schema))
        corrections, misruled = compile_corrections(
            cast("list[object]", raw.get("correct") or []), schema.raw
        )
        faults.extend(misruled)
    if faults or schema is None:
        raise PluginError(
            [
                Rejection(name or plugin, f"tool {name!r}: {each}", "fix the definition", file, line)
                for each in faults
            ]
        )
    definition = _build({**raw, **typed}, version)
    return Parsed(definition, schema, tuple(_warnings(definition, budget[0])), corrections, returns)


def _typed_fields(raw: Mapping[str, object], name: str, faults: list[str]) -> dict[str, object]:
    """The fields that have a type of their own; what is wrong with them is added to `faults`."""
    made: dict[str, object] = {}
    if isinstance(raw.get("deprecated"), dict):
        made["deprecated"], wrong = parse_deprecation(cast("dict[str, object]", raw["deprecated"]), name)
        faults.extend(wrong)
    if isinstance(raw.get("requires"), list):
        made["requires"], wrong = parse_requirements(cast("list[object]", raw["requires"]))
        faults.extend(wrong)
    return made


def _size(raw: Mapping[str, object]) -> int:
    try:
        return len(json.dumps(raw, default=str))
    except (TypeError, ValueError, RecursionError):
        return 0  # no JSON: whoever reads the field says which


def _field_faults(raw: Mapping[str, object]) -> list[str]:
    faults = []
    for key, value in raw.items():
        expected = _FIELDS.get(key)
        if expected is None:
            near = nearest(key, _FIELDS, 1)
            faults.append(f"unknown field {key!r}" + (f", did you mean {near[0]!r}?" if near else ""))
        elif value is not None and (
            not isinstance(value, expected) or (expected is int and isinstance(value, bool))
        ):
            wanted = getattr(expected, "__name__", str(expected))
            faults.append(f"{key}: expected {wanted}, got {type(value).__name__}")
    return faults


def _value_faults(raw: Mapping[str, object], name: str, plugin: str, most: int) -> list[str]:
    faults = []
    if (length := len(str(raw.get("description") or ""))) > most:
        faults.append(f"description: has {length} characters, and {most} is the most")
    if (fault := tool_name_fault(name, plugin)) is not None:
        faults.append(f"name: {fault}")
    version = raw.get("version")
    if isinstance(version, str) and SEMVER.match(version) is None:
        faults.append(f"version: {version!r} is no semantic version such as 1.2.0")
    faults.extend(_choice_faults(raw))
    domain = raw.get("domain")
    if isinstance(domain, str) and domain != domain_of(name):
        faults.append(f"domain: {domain!r} is not the part of the name before its first dot")
    if (fault := _roles_fault(raw.get("roles"))) is not None:
        faults.append(f"roles: {fault}")
    timeouts = raw.get("timeout_class")
    if isinstance(timeouts, str) and timeouts not in ("", *TIMEOUT_CLASSES):
        near = nearest(timeouts, TIMEOUT_CLASSES, 1)
        meant = f", did you mean {near[0]!r}?" if near else f" of {', '.join(TIMEOUT_CLASSES)}"
        faults.append(f"timeout_class: {timeouts!r} is none{meant}")
    faults.extend(_limit_faults(raw, name))
    return faults


def _limit_faults(raw: Mapping[str, object], name: str) -> list[str]:
    faults = []
    for key in ("timeout_ms", "max_concurrency"):
        value = raw.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            faults.append(f"{key}: must be at least 1, got {value}")
    faults.extend(rule_faults("retry", raw.get("retry"), retry.BOUNDS))
    faults.extend(rule_faults("circuit_breaker", raw.get("circuit_breaker"), circuit.BOUNDS))
    faults.extend(fallback_faults(raw.get("fallback"), name, raw.get("returns")))
    rate = raw.get("rate_limit")
    if isinstance(rate, dict) and (fault := rate_fault(rate)) is not None:
        faults.append(f"rate_limit: {fault}")
    return faults


def _roles_fault(roles: object) -> str | None:
    if not isinstance(roles, list | tuple):
        return None
    if not roles:
        return "is empty; leave it out to let agents of every role call it, or name roles"
    wrong = next((each for each in roles if not isinstance(each, str) or ROLE.match(each) is None), None)
    return None if wrong is None else f"{wrong!r} is no role: {ROLE_FORM}"


def _choice_faults(raw: Mapping[str, object]) -> Iterator[str]:
    for key, choices in (("side_effects", get_args(SideEffects)), ("confirm", get_args(Confirm))):
        choice = raw.get(key)
        if isinstance(choice, str) and choice not in choices:
            yield f"{key}: {choice!r} is none of {', '.join(choices)}"


def _example_faults(raw: Mapping[str, object], schema: Schema) -> list[str]:
    faults = []
    for index, example in enumerate(cast("list[object]", raw.get("examples") or [])):
        if not isinstance(example, dict) or not isinstance(example.get("arguments"), dict):
            faults.append(f"examples/{index}: expected {{user_says, arguments}}")
            continue
        faults.extend(
            f"examples/{index}/arguments{fault.path}: {fault.problem}"
            for fault in schema.faults(example["arguments"])
        )
    return faults


def _build(raw: Mapping[str, object], version: str) -> ToolDefinition:
    given = {
        key: value
        for key, value in raw.items()
        if value is not None and key in ToolDefinition.__dataclass_fields__
    }
    for key in ("tags", "depends_on", "roles"):
        if key in given:
            given[key] = tuple(str(each) for each in cast("list[object]", given[key]))
    given["examples"] = tuple(
        Example(str(each.get("user_says", "")), each["arguments"])
        for each in cast("list[dict[str, dict[str, object]]]", raw.get("examples") or [])
    )
    given["correct"] = tuple(cast("list[Mapping[str, object]]", raw.get("correct") or []))
    if "rate_limit" in given:
        given["rate_limit"] = read_rate(cast("Mapping[str, object]", given["rate_limit"]))
    given.setdefault("version", version)
    given["parameters"] = given.get("parameters") or EMPTY_PARAMETERS
    given["fallback"] = Fallback.parse(cast("Mapping[str, object] | None", raw.get("fallback")))
    return ToolDefinition(**given)  # type: ignore[arg-type] # every field's type was checked above


def _warnings(definition: ToolDefinition, enough: int) -> list[str]:
    warnings = []
    if (length := len(definition.description)) > enough:
        warnings.append(f"its description has {length} characters; a model pays for each beyond {enough} too")
    if not definition.description:
        warnings.append("has no description")
    if definition.side_effects == "destructive" and definition.confirm == "none":
        warnings.append("confirm: none lets a destructive tool run without anybody's agreement")
    if definition.retry is not None and not definition.retryable:
        warnings.append("retry: says how to try again, and without `retryable: true` nothing is tried again")
    warnings.extend(_fallback_warnings(definition))
    warnings.extend(
        f"parameter_guide: there is no parameter {name!r}"
        for name in undeclared_guides(definition.parameter_guide, definition.parameters)
    )
    return warnings


def _fallback_warnings(definition: ToolDefinition) -> list[str]:
    fallback = definition.fallback
    if fallback is None or fallback.kind == "tool" or definition.side_effects in ("none", "read"):
        return []
    return [f"fallback: {fallback.kind} answers OK for a {definition.side_effects} that is not done"]
