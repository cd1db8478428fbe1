"""How refused input is shown: where, why, what to do."""

from __future__ import annotations

from collections.abc import Iterable

from hermesd import errors
from hermesd.api.v1 import admin_pb2
from hermesd.terminal.screen import Screen


def show_rejections(
    screen: Screen,
    rejections: Iterable[admin_pb2.Rejection],
    *,
    style: str = "red",
    indent: str = "",
    kind: str = "",
) -> None:
    """Each on a line `file:line:column: reason`, as editors and CI jump to it, its remedy below.

    `kind`, such as "warning: ", stands before the reason, as with compilers.
    """
    for each in rejections:
        place = errors.Rejection(each.name, "", "", each.file, each.line, each.column).place
        what = f"{place}: " if place else f"{each.name}: " if each.name else ""
        screen.line(f"{indent}{what}{kind}{each.reason}", style=style)
        if each.remedy:
            screen.line(f"{indent}    {each.remedy}")
