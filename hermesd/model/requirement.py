"""What must be there for a tool to work: `requires: [{command: git}, {env: NAME, remedy: "…"}, …]`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from hermesd.model.name import nearest

Kind = Literal["env", "command", "file", "python", "secret", "setting"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_REQUIREMENTS = 50
MAX_CHARS = 1000

#: What the name of each kind must look like, and how that is said.
_SHAPES: Mapping[Kind, tuple[str, str]] = {
    "env": (r"[A-Za-z_][A-Za-z0-9_]*", "a variable's name"),
    "command": (r"[^\s/\x00][^\x00/]*|/[^\x00]+", "a command's name or absolute path"),
    "file": (r"[^\x00]+", "a path"),
    "python": (r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", "a module's name"),
    "secret": (r"[A-Za-z_][A-Za-z0-9_]*", "a secret's name"),
    "setting": (r"[^\s.]+(\.[^\s.]+)*", "a setting's name, dotted where it is nested"),
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One check. A relative `file` lies in the plugin's own folder. `remedy`: the author's advice, or ""."""

    kind: Kind
    name: str
    remedy: str = ""

    def as_detail(self) -> dict[str, object]:
        return {self.kind: self.name, **({"remedy": self.remedy} if self.remedy else {})}


def parse_requirements(raw: Sequence[object]) -> tuple[tuple[Requirement, ...], list[str]]:
    """The checks, and what is wrong with them, each with its place (`requires/0: …`)."""
    if len(raw) > MAX_REQUIREMENTS:
        return (), [f"requires: has {len(raw)} checks, and {MAX_REQUIREMENTS} are the most"]
    made: list[Requirement] = []
    faults: list[str] = []
    for index, each in enumerate(raw):
        wrong = _fault(each)
        if wrong:
            faults.append(f"requires/{index}{wrong}")
            continue
        said = cast("dict[str, str]", each)
        kind = next(key for key in KINDS if key in said)
        made.append(Requirement(kind, said[kind], said.get("remedy", "")))
    return tuple(made), faults


def _fault(raw: object) -> str:
    if not isinstance(raw, dict):
        return f": expected an object such as {{command: git}}, got {type(raw).__name__}"
    unknown = [key for key in raw if key not in (*KINDS, "remedy")]
    if unknown:
        near = nearest(str(unknown[0]), KINDS, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"it is one of {', '.join(KINDS)}"
        return f": unknown check {unknown[0]!r}; {meant}"
    kinds = [key for key in KINDS if key in raw]
    if len(kinds) != 1:
        return f": expected exactly one of {', '.join(KINDS)}"
    for key, value in raw.items():
        if not isinstance(value, str) or not value or len(value) > MAX_CHARS:
            return f"/{key}: expected a text of at most {MAX_CHARS} characters"
    pattern, meant = _SHAPES[kinds[0]]
    if re.fullmatch(pattern, raw[kinds[0]]) is None:
        return f"/{kinds[0]}: {raw[kinds[0]][:100]!r} is not {meant}"
    return ""
