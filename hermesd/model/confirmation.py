"""Somebody's agreement to one call: what the call would do, and for which call alone it holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from hermesd.model.call import Caller
from hermesd.model.definition import Confirm, ToolDefinition
from hermesd.model.digest import digest_of
from hermesd.model.text import clean, escape_unseen

By = Literal["caller", "operator"]
#: pending: nobody has agreed yet; approved and denied: the operator decided. A used one is gone.
Decision = Literal["pending", "approved", "denied"]

MAX_SUMMARY = 2000
#: Characters of one text, items of one container, levels, and characters of all: more is told as a number.
MAX_TEXT, MAX_ITEMS, MAX_LEVELS, MAX_SHOWN = 500, 50, 6, 8000


@dataclass(frozen=True, slots=True)
class Binding:
    """What a confirmation holds for. `revision`: the tool's definition and the content that runs it."""

    kind: str
    principal: str
    session_id: str
    tool: str
    revision: str
    arguments: str

    def difference(self, other: Binding) -> str:
        """In which way `other`, a call of the same principal, is not this one; "" when it is."""
        if self.tool != other.tool:
            return "was given for another tool"
        if self.arguments != other.arguments:
            return "was given for other arguments"
        if self.session_id != other.session_id:
            return "was given for another session"
        if self.revision != other.revision:
            return "was given before the tool changed"
        return ""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """One call that waits for agreement, or has it.

    `id` names it, `token` is what the call shows. `deadline` is monotonic seconds, `expires_at` the same
    moment for people. `summary` and `arguments_json` are for people too: redacted, shortened, clean.
    """

    id: str
    token: str = field(repr=False)
    by: By
    binding: Binding
    version: str
    request_id: str
    summary: str
    arguments_json: str
    ttl_s: float
    created_at: datetime
    expires_at: datetime
    deadline: float
    decision: Decision = "pending"
    decided_by: str = ""
    reason: str = ""


def required_by(definition: ToolDefinition, principal: Caller, *, must_confirm: bool = False) -> Confirm:
    """Whose agreement a call needs: the operator agrees to its own calls, and so does a trusted agent.

    `must_confirm`: at least its caller's.
    """
    asked = definition.confirmation
    if asked == "none" and must_confirm:
        return "caller"
    if asked == "operator" and (principal.kind == "operator" or principal.self_confirm):
        return "caller"
    return asked


def binding_of(
    definition: ToolDefinition,
    content: str,
    principal: Caller,
    session_id: str,
    arguments: Mapping[str, object],
) -> Binding:
    """The binding of a call with these final arguments; `content` is the digest of what would run it."""
    return Binding(
        kind=principal.kind,
        principal=principal.name,
        session_id=session_id,
        tool=definition.name,
        revision=f"{definition.version} {definition.digest} {content}",
        arguments=digest_of(arguments),
    )


def describe(
    definition: ToolDefinition, arguments: Mapping[str, object], hide: Callable[[str], str]
) -> tuple[str, str]:
    """What a call would do, in a sentence and as the JSON of its arguments.

    `hide` takes secrets out of a JSON text. What nobody would see (control and direction characters) is
    written as an escape, so that two calls which differ in it look different.
    """
    text = hide(_json(_Shortened().value(arguments)))
    try:
        shown = json.loads(text)
    except ValueError:  # the mask left no JSON: nothing of it is shown
        shown, text = {"…": "hidden"}, '{"…":"hidden"}'
    given = ", ".join(f"{_key(key)}={_json(value)}" for key, value in shown.items())
    what = clean(definition.title or _first_sentence(definition.description) or definition.name, 200)
    call = f"{definition.name} {definition.version}, {definition.side_effects}"
    return _cut(f"{what} ({call}) with {given or 'no arguments'}", MAX_SUMMARY), text


def _first_sentence(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line.partition(". ")[0].rstrip(".")


def _key(key: str) -> str:
    """The name of an argument, quoted where it could be read as more than a name."""
    quoted = _json(key)
    plain = quoted == f'"{key}"' and key and not any(each in key for each in " ,=")
    return key if plain else quoted


def _json(value: object) -> str:
    return escape_unseen(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit - 40]}… ({len(text) - limit + 40} more characters)"


class _Shortened:
    """JSON values cut to what a person reads, where each cut says how much is missing."""

    def __init__(self) -> None:
        self._left = MAX_SHOWN

    def value(self, value: object, level: int = 0) -> object:
        self._left -= 2
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return self._mapping(value, level)
        if isinstance(value, list):
            return self._list(value, level)
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 1024:
            return f"an integer of {value.bit_length()} bits"
        return value

    def _text(self, text: str) -> str:
        limit = max(0, min(MAX_TEXT, self._left))
        self._left -= min(limit, len(text))
        return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"

    def _mapping(self, mapping: Mapping[str, object], level: int) -> object:
        shown: dict[str, object] = {}
        for key, each in mapping.items():
            if len(shown) == MAX_ITEMS or self._left <= 0 or level == MAX_LEVELS:
                shown["…"] = f"{len(mapping) - len(shown)} more"
                break
            shown[self._text(key)] = self.value(each, level + 1)
        return shown

    def _list(self, items: list[object], level: int) -> object:
        shown: list[object] = []
        for each in items:
            if len(shown) == MAX_ITEMS or self._left <= 0 or level == MAX_LEVELS:
                shown.append(f"… ({len(items) - len(shown)} more)")
                break
            shown.append(self.value(each, level + 1))
        return shown
