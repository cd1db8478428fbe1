"""The one place that says whether a caller may do something. What no rule allows is denied."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from hermesd.model.call import Caller

#: `see`: list and describe a tool; `call`: run it; `administer`: everything of AdminService.
Action = Literal["see", "call", "administer"]


@dataclass(frozen=True, slots=True)
class Decision:
    """`visible` False: to this caller the tool does not exist, and is never among the nearest names."""

    allowed: bool
    visible: bool
    reason: str = ""


ALLOWED = Decision(True, True)


def decide(caller: Caller, action: Action, tool: str = "") -> Decision:
    """Whether `caller` may do `action` (with `tool`, where the action concerns one).

    The operator may do everything. A plugin may see and call what the globs of its granted `calls`
    match, where `*` crosses dots, and nothing when it has none; and nothing that the caller on whose
    behalf it acts may not do itself. Agents have no rights yet.
    """
    if caller.kind == "operator":
        return ALLOWED
    if caller.kind == "plugin" and action != "administer":
        if any(fnmatchcase(tool, pattern) for pattern in caller.calls or ()):
            behalf = caller.on_behalf_of
            return ALLOWED if behalf is None else decide(behalf, action, tool)
        return Decision(False, False, f"the plugin {caller.name!r} was not granted calls of {tool!r}")
    return Decision(False, False, f"the {caller.kind} {caller.name!r} has no right to {action}")
