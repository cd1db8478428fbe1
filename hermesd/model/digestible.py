"""A schema as every model's API takes it: no references, recursion bounded, nullable types, one draft.

What validates before validates after. Where the digestible form cannot say the same (below a bounded
recursion) it admits more, never less. Calls are validated with the original, whatever a model was shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast
from urllib.parse import unquote

#: How often one reference is followed within itself; below that only the type is shown.
UNFOLDED = 2
#: A schema that would become larger than this keeps its references.
MAX_NODES = 5_000
MAX_CHARS = 128 * 1024

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
#: What only names and places parts of a schema; without references nothing needs it.
_NAMING = frozenset(
    {"$schema", "$id", "$anchor", "$dynamicAnchor", "$comment", "$vocabulary", "$defs", "definitions"}
)
_SINGLE = frozenset(
    {
        "additionalProperties", "items", "not", "if", "then", "else", "contains", "propertyNames",
        "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
#: Keywords of the other draft, which a validator of this one ignores.
_ONLY_NEW = frozenset(
    {
        "prefixItems", "dependentSchemas", "dependentRequired", "minContains", "maxContains",
        "unevaluatedItems", "unevaluatedProperties", "$dynamicRef",
    }
)  # fmt: skip
_ONLY_OLD = frozenset({"additionalItems", "dependencies"})
#: Keywords that may refuse null whatever the type says.
_ANY_TYPE = frozenset({"not", "allOf", "anyOf", "oneOf", "if", "then", "else"})
#: What the APIs of OpenAI and Anthropic refuse at the top of a schema of arguments.
_NOT_ON_TOP = ("allOf", "anyOf", "oneOf", "not", "enum", "const", "$ref")

Schema = dict[str, object]


class _TooLarge(Exception):  # noqa: N818 - caught here: the schema then stays as it is
    pass


def digestible(raw: Mapping[str, object]) -> Schema:
    """The same schema without references; as it is when it would become too large that way."""
    try:
        made, _ = _Inliner(raw).schema(raw)
        if len(json.dumps(made, ensure_ascii=False)) <= MAX_CHARS:
            return made
    except (_TooLarge, RecursionError):
        pass
    return {key: value for key, value in raw.items() if key != "$schema" or _is_draft7(raw)}


def as_arguments(schema: Mapping[str, object]) -> Schema:
    """The schema of a tool's arguments for APIs that want a plain object: nothing is composed at its top.

    The parameters that every alternative has are lifted; what only some of them say is left to the daemon.
    """
    top = {key: value for key, value in schema.items() if key not in _NOT_ON_TOP}
    composed = [key for key in ("allOf", "anyOf", "oneOf") if key in schema]
    if composed or "$ref" in schema:
        top.pop("unevaluatedProperties", None)
    for key in composed:
        branches = [each for each in cast("list[object]", schema[key]) if isinstance(each, Mapping)]
        _lift(top, branches, every=key == "allOf")
    if any("$ref" in each for each in _objects(schema)):
        top.update({key: schema[key] for key in ("$defs", "definitions") if key in schema})
    return {**top, "type": "object", "properties": top.get("properties", {})}


def _lift(top: Schema, branches: list[Mapping[str, object]], *, every: bool) -> None:
    """Parameters of composed schemas, at the top: those of each where all must hold, else the common ones."""
    properties = dict(cast("Mapping[str, object]", top.get("properties") or {}))
    required = list(cast("list[str]", top.get("required") or []))
    declared = [cast("Mapping[str, object]", each.get("properties") or {}) for each in branches]
    for name in dict.fromkeys(name for each in declared for name in each):
        said = [each[name] for each in declared if name in each]
        if name in properties or _is_refused(name, top):
            continue
        properties[name] = said[0] if len(said) == 1 and every else {"allOf" if every else "anyOf": said}
        if not every and len(said) < len(branches):
            properties[name] = _told(said)
    wanted = [set(cast("list[str]", each.get("required") or [])) for each in branches]
    if wanted:
        both = set.union(*wanted) if every else set.intersection(*wanted)
        required.extend(sorted(both - set(required)))
    top["properties"] = properties
    if required:
        top["required"] = required


def _is_refused(name: str, top: Mapping[str, object]) -> bool:
    """Whether the top itself refuses a parameter of that name, so that no alternative can bring it."""
    return top.get("additionalProperties") in (False, {"not": {}}) and "patternProperties" not in top


def _told(said: list[object]) -> Schema:
    """A parameter of some alternatives only: the others may take anything there, so only its text is told."""
    texts = [each.get("description") for each in said if isinstance(each, Mapping)]
    return {"description": text} if (text := next((each for each in texts if each), None)) else {}


class _Inliner:
    """Walks one document. Each step answers (schema, whether it means exactly what it did)."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._is_old = _is_draft7(root)
        self._left = MAX_NODES
        self._open: list[str] = []
        self._anchors = {
            f"#{each[key]}": each
            for each in _objects(root)
            for key in ("$anchor", "$dynamicAnchor")
            if isinstance(each.get(key), str)
        }
        if any(isinstance(each.get("$id"), str) and each is not root for each in _objects(root)):
            raise _TooLarge  # parts with addresses of their own: what they refer to depends on where they are

    def schema(self, node: object) -> tuple[Schema, bool]:
        if node is False:
            return {"not": {}}, True
        if not isinstance(node, Mapping):
            return {}, True
        self._left -= 1
        if self._left < 0:
            raise _TooLarge
        reference = node.get("$ref", None if self._is_old else node.get("$dynamicRef"))
        if isinstance(reference, str):
            return self._referred(reference, node)
        return self._own(node)

    def _referred(self, reference: str, node: Mapping[str, object]) -> tuple[Schema, bool]:
        """The target in the reference's place, with what stands beside the reference."""
        target, exact = self._target(reference)
        beside = {key: value for key, value in node.items() if key not in ("$ref", "$dynamicRef")}
        if self._is_old:  # where a reference stands, the old draft ignores everything else
            beside = {key: value for key, value in beside.items() if key in ANNOTATIONS}
        own, own_exact = self._own(beside)
        if own.keys() <= ANNOTATIONS:
            return {**target, **own}, exact
        composed = [*cast("list[object]", own.get("allOf") or []), target]
        if not exact:
            own.pop("unevaluatedProperties", None)
            own.pop("unevaluatedItems", None)
        return {**own, "allOf": composed}, exact and own_exact

    def _target(self, reference: str) -> tuple[Schema, bool]:
        found = self._anchors.get(reference)
        target = _at(self._root, reference) if found is None else found
        if self._open.count(reference) >= UNFOLDED:
            return _outline(target), False
        self._open.append(reference)
        try:
            return self.schema(target)
        finally:
            self._open.pop()

    def _own(self, node: Mapping[str, object]) -> tuple[Schema, bool]:
        made: Schema = {}
        inexact: set[str] = set()
        for key, value in self._modern(node).items():
            if key in _NAMING:
                continue
            made[key], exact = self._value(key, value)
            if not exact:
                inexact.add(key)
        if inexact:
            _loosen(made, inexact)
        return _nullable(made), not inexact

    def _value(self, key: str, value: object) -> tuple[object, bool]:
        if key in _SINGLE:
            if isinstance(value, bool) and key in ("additionalProperties", "unevaluatedProperties"):
                return value, True
            return self.schema(value)
        if key in _LISTS and isinstance(value, list):
            parts = [self.schema(each) for each in value]
            return [each for each, _ in parts], all(exact for _, exact in parts)
        if key in _MAPS and isinstance(value, Mapping):
            named = {name: self.schema(each) for name, each in value.items()}
            return {name: each for name, (each, _) in named.items()}, all(ok for _, ok in named.values())
        return value, True

    def _modern(self, node: Mapping[str, object]) -> Mapping[str, object]:
        """The keywords of the newest draft that mean the same."""
        if not self._is_old:
            return {key: value for key, value in node.items() if key not in _ONLY_OLD}
        made = {key: value for key, value in node.items() if key not in _ONLY_NEW | _ONLY_OLD}
        if isinstance(made.get("items"), list):
            made["prefixItems"] = made.pop("items")
            if not made["prefixItems"]:
                del made["prefixItems"]  # an empty one is no schema of the newest draft
            if "additionalItems" in node:
                made["items"] = node["additionalItems"]
        for name, needed in cast("Mapping[str, object]", node.get("dependencies") or {}).items():
            key = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
            made[key] = {**cast("Schema", made.get(key) or {}), name: needed}
        return made


def _loosen(made: Schema, inexact: set[str]) -> None:
    """Drop what would refuse more now that these parts admit more."""
    for key in ("unevaluatedProperties", "unevaluatedItems"):
        made.pop(key, None)
    if "not" in inexact:
        del made["not"]
    if "if" in inexact:
        for key in ("if", "then", "else"):
            made.pop(key, None)
    if "contains" in inexact:
        made.pop("maxContains", None)
    if "oneOf" in inexact:  # of alternatives that admit more, more than one may fit
        loose = {"anyOf": made.pop("oneOf")}
        if "anyOf" in made:
            made["allOf"] = [*cast("list[object]", made.get("allOf") or []), loose]
        else:
            made.update(loose)


def _nullable(made: Schema) -> Schema:
    """`{"anyOf": [X, {"type": "null"}]}` as X that may be null, where that means the same."""
    for key in ("anyOf", "oneOf"):
        branches = made.get(key)
        rest = {name: value for name, value in made.items() if name != key}
        if not isinstance(branches, list) or len(branches) != 2 or not rest.keys() <= ANNOTATIONS:
            continue
        for one, other in (branches, branches[::-1]):
            if other.keys() - ANNOTATIONS == {"type"} and other["type"] == "null":
                merged = _or_null(one)
                if merged is not None:
                    return {**merged, **rest}
    return made


def _or_null(schema: Schema) -> Schema | None:
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds] if kinds else []
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if schema.keys() & _ANY_TYPE or not (kinds or values) or "null" in kinds:
        return None
    if "const" in schema and "enum" in schema:
        return None
    made = {key: value for key, value in schema.items() if key not in ("const", "enum")}
    if kinds:
        made["type"] = [*kinds, "null"]
    if values is not None:
        listed = cast("list[object]", values)
        if any(each is None for each in listed):
            return None
        made["enum"] = [*listed, None]
    return made


def _outline(target: object) -> Schema:
    """What a bounded recursion ends in: the type and the text, which hold for everything that fits."""
    if not isinstance(target, Mapping):
        return {}
    return {key: target[key] for key in ("type", "title", "description") if key in target}


def _at(root: object, reference: str) -> object:
    node = root
    for part in reference[1:].split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = node.get(key)
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def _objects(root: object) -> Iterator[Mapping[str, object]]:
    stack = [root]
    while stack:
        each = stack.pop()
        if isinstance(each, Mapping):
            yield each
            stack.extend(each.values())
        elif isinstance(each, list):
            stack.extend(each)


def _is_draft7(root: Mapping[str, object]) -> bool:
    return "json-schema.org/draft-07/" in str(root.get("$schema", ""))
