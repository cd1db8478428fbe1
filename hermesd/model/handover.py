"""A tool's definition as a model's API takes it, and the name that it has there.

The APIs of OpenAI and Anthropic take no dots in names and at most 64 characters; MCP takes names as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Literal, Protocol

from hermesd.model.digestible import as_arguments, digestible
from hermesd.model.token import estimated_tokens

Format = Literal["openai", "anthropic", "mcp"]
FORMATS: tuple[Format, ...] = ("openai", "anthropic", "mcp")
MAX_NAME = 64
_DIGITS = 8
#: OpenAI's API refuses a description that is longer.
MAX_OPENAI_DESCRIPTION = 1024
#: Anthropic's API refuses parameters with other names.
ANTHROPIC_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class Leaving(Protocol):
    """What is said of a tool on its way out; "" unsaid."""

    @property
    def since(self) -> str: ...
    @property
    def use(self) -> str: ...
    @property
    def remove_after(self) -> str: ...


class Described(Protocol):
    """What a model is told of a tool, beside its schemas."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def when_to_use(self) -> str: ...
    @property
    def when_not_to_use(self) -> str: ...
    @property
    def parameter_guide(self) -> Mapping[str, str]: ...
    @property
    def side_effects(self) -> str: ...
    @property
    def idempotent(self) -> bool: ...
    @property
    def deprecated(self) -> Leaving | None: ...


def model_name(name: str) -> str:
    """The name of a tool for a model: `orders__query_status`. No two tools have the same.

    A name that is too long, or that could be read as another's, ends in a digest of itself.
    """
    plain = name.replace(".", "__")
    if len(plain) <= MAX_NAME and "__" not in name and not name.startswith("_") and "_." not in name:
        return plain
    digest = sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{plain[: MAX_NAME - _DIGITS - 1]}-{digest}"


def handed_over(
    tool: Described, parameters: Mapping[str, object], returns: Mapping[str, object] | None, to: Format
) -> dict[str, object]:
    """The definition, ready to stand in a request's list of tools.

    Schemas are shown without references; what fits the tool's own schema fits the one that is shown.
    """
    schema, text = digestible(parameters), _text(tool, to)
    if to != "mcp":
        schema = as_arguments(schema)
    schema = _guided(schema, tool.parameter_guide)
    if to == "openai":
        text = _fitting(text, MAX_OPENAI_DESCRIPTION)
        function = {"name": model_name(tool.name), "description": text, "parameters": schema}
        return {"type": "function", "function": function}
    if to == "anthropic":
        return {"name": model_name(tool.name), "description": text, "input_schema": schema}
    schema = {**schema, "type": "object"}
    definition: dict[str, object] = {"name": tool.name, "description": text, "inputSchema": schema}
    if tool.title:
        definition["title"] = tool.title
    if returns is not None and returns.get("type") == "object":  # MCP knows no other structured results
        definition["outputSchema"] = digestible(returns)
    definition["annotations"] = {
        "readOnlyHint": tool.side_effects in ("none", "read"),
        "destructiveHint": tool.side_effects == "destructive",
        "idempotentHint": tool.idempotent,
    }
    return definition


def definition_tokens(tool: Described, parameters: Mapping[str, object]) -> int:
    """About how many tokens a model pays for being shown the tool."""
    definition = handed_over(tool, parameters, None, "anthropic")
    return estimated_tokens(json.dumps(definition, ensure_ascii=False, separators=(",", ":")))


def _text(tool: Described, to: Format) -> str:
    parts = [tool.description.strip()]
    leaving = tool.deprecated
    if leaving is not None and (leaving.since or leaving.use or leaving.remove_after):
        named = leaving.use if to == "mcp" else model_name(leaving.use)
        parts.insert(0, f"Deprecated: use {named} in its place." if leaving.use else "Deprecated.")
    if tool.when_to_use.strip():
        parts.append(f"Use it when: {tool.when_to_use.strip()}")
    if tool.when_not_to_use.strip():
        parts.append(f"Do not use it when: {tool.when_not_to_use.strip()}")
    return "\n".join(each for each in parts if each)


def _fitting(text: str, most: int) -> str:
    """At most so many characters; what is cut is cut from the description, which comes first."""
    if len(text) <= most:
        return text
    description, _, rest = text.partition("\nUse it when: ")
    rest = f"\nUse it when: {rest}" if rest else ""
    room = most - len(rest) - 1
    return f"{description[:room].rstrip()}…{rest}" if room >= most // 2 else f"{text[: most - 1].rstrip()}…"


def _guided(parameters: Mapping[str, object], guide: Mapping[str, str]) -> dict[str, object]:
    """The schema, with the guide's text for each parameter that it speaks of."""
    schema = dict(parameters)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not guide:
        return schema
    schema["properties"] = {
        name: {**each, "description": _joined(each.get("description"), guide[name])}
        if name in guide and isinstance(each, Mapping)
        else each
        for name, each in properties.items()
    }
    return schema


def _joined(said: object, guide: str) -> str:
    return f"{said}. {guide}" if said and said != guide else guide
