"""What a call in this process says on its way: no more of it in a second than anybody can listen to."""

from __future__ import annotations

from collections.abc import Callable

from hermesd.plugin.valve import LINES_PER_S, PROGRESS_PER_S, Valve

Tell = Callable[[str, dict[str, object]], None]


class Telling:
    """Passes on what one call tells, from any thread; a tool that tells in a loop fills no memory.

    Of progress the latest is told in the end, as a later one says more; of log lines how many were left out.
    """

    __slots__ = ("_lines", "_pass_on", "_progress", "_unsaid")

    def __init__(self, pass_on: Tell) -> None:
        self._pass_on = pass_on
        self._progress = Valve(PROGRESS_PER_S)
        self._lines = Valve(LINES_PER_S)
        self._unsaid: dict[str, object] | None = None

    def tell(self, kind: str, payload: dict[str, object]) -> None:
        """Pass it on, or leave it out."""
        if kind == "progress":
            self._unsaid = None if (passed := self._progress.admit()) else payload
        else:
            self._say_dropped(self._lines.take_dropped())
            passed = self._lines.admit()
        if passed:
            self._pass_on(kind, payload)

    def end(self) -> None:
        """The call has ended: say what was held back."""
        if self._unsaid is not None:
            self._pass_on("progress", self._unsaid)
        self._say_dropped(self._lines.dropped)

    def _say_dropped(self, count: int) -> None:
        if count:
            message = f"{count} lines dropped: more than {LINES_PER_S} in a second"
            self._pass_on("log", {"level": "warning", "message": message, "fields": {}})
