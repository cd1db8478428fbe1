"""A tool on its way out: `deprecated: {since, use, remove_after}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from hermesd.model.name import MAX_LENGTH, TOOL_NAME, nearest

FIELDS = ("since", "use", "remove_after")
_VERSION = re.compile(r"\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?\Z")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z")


@dataclass(frozen=True, slots=True)
class Deprecation:
    """Since which version or day, which tool to use in its place, and the last day of this one; "" unsaid.

    The tool works as before: whoever is shown it or calls it is told.
    """

    since: str = ""
    use: str = ""
    remove_after: str = ""

    def as_detail(self) -> dict[str, object]:
        """What was said, as `detail.deprecated` has it."""
        return {key: value for key in FIELDS if (value := getattr(self, key))}

    def __str__(self) -> str:
        since = f" since {self.since}" if self.since else ""
        use = f"; use {self.use} in its place" if self.use else ""
        gone = f"; it may be gone after {self.remove_after}" if self.remove_after else ""
        return f"deprecated{since}{use}{gone}"

    def is_overdue(self, today: date) -> bool:
        """Whether its last day is over."""
        return bool(self.remove_after) and date.fromisoformat(self.remove_after) < today


def parse_deprecation(raw: Mapping[str, object], tool: str) -> tuple[Deprecation, list[str]]:
    """What `raw` says of `tool`, and what is wrong with it (`deprecated/use: …`)."""
    faults = []
    for key, value in raw.items():
        if key not in FIELDS:
            near = nearest(key, FIELDS, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(FIELDS)}"
            faults.append(f"deprecated: unknown field {key!r}; {meant}")
        elif not isinstance(value, str):
            faults.append(f"deprecated/{key}: expected text, got {type(value).__name__}")
    if not raw:
        faults.append("deprecated: says nothing; give since, use or remove_after")
    if faults:
        return Deprecation(), faults
    made = Deprecation(**{key: str(value) for key, value in raw.items()})
    if made.since and _VERSION.match(made.since) is None and not _is_day(made.since):
        faults.append(f"deprecated/since: {made.since!r} is neither a version such as 1.2.0 nor a day")
    if made.remove_after and not _is_day(made.remove_after):
        faults.append(f"deprecated/remove_after: {made.remove_after!r} is no day such as 2030-01-31")
    if made.use and (len(made.use) > MAX_LENGTH or TOOL_NAME.match(made.use) is None):
        faults.append(f"deprecated/use: {made.use[:40]!r} is no name of a tool")
    elif made.use == tool:
        faults.append("deprecated/use: names the tool itself")
    return made, faults


def _is_day(text: str) -> bool:
    try:
        return _DAY.match(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False
