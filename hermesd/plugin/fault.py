"""What can go wrong between a plugin and its host, as values that cross a process border.

Authors raise `ToolError` and catch `ToolCallError`. The others are raised by the SDK itself and say what an
author did wrong, where, and what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Effect = Literal["none", "done", "unknown"]
EFFECTS = frozenset(get_args(Effect))

MAX_REASON_CHARS = 2000
MAX_TRACE_CHARS = 16 * 1024
#: What a plugin may answer of its own; the other codes are verdicts of the daemon.
PLUGIN_CODES = frozenset(
    {
        "TOOL_ERROR",
        "INVALID_ARGUMENT",
        "UNAVAILABLE",
        "PERMISSION_DENIED",
        "RATE_LIMITED",
        "DEPENDENCY_FAILED",
    }
)


class ToolError(Exception):
    """A tool says that it could not do what it was asked. The message is for the caller to read.

    `effect`: whether the side effect has happened ("none", "done", "unknown"); None: not known here.
    `retryable`: the same call may work later. `detail`: a JSON object for programs.
    A `code` of the plugin's own ("ORDER_LOCKED") is kept as `detail["code"]` beside TOOL_ERROR.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "TOOL_ERROR",
        effect: Effect | None = None,
        retryable: bool = False,
        detail: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        if effect is not None and effect not in EFFECTS:
            raise ValueError(f"effect must be none, done or unknown, not {effect!r}")
        self.message = str(message)
        self.effect = effect
        self.retryable = retryable
        self.detail = dict(detail or {})
        self.code = code
        if code not in PLUGIN_CODES:
            self.code = "TOOL_ERROR"
            self.detail.setdefault("code", code)


class ToolCallError(Exception):
    """A tool that was called with `ctx.call` failed: the code, message and detail of its result."""

    def __init__(self, code: str, message: str, detail: Mapping[str, object] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.detail = dict(detail or {})


class ArgumentFault(Exception):  # noqa: N818 - a fault of the caller, reported, not an error of ours
    """An argument passes the schema but is no such value (30 February). `path` is a JSON pointer."""

    def __init__(self, problem: str, path: str = "", *, expected: object = None, got: object = None) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path
        self.expected = expected
        self.got = got

    def under(self, part: str | int) -> ArgumentFault:
        """The same fault, seen from the value that holds this one at `part`."""
        escaped = str(part).replace("~", "~0").replace("/", "~1")
        return ArgumentFault(self.problem, f"/{escaped}{self.path}", expected=self.expected, got=self.got)


class ResultFault(Exception):  # noqa: N818 - a fault of the plugin, reported, not an error of ours
    """What a tool returned is no JSON. `path` is a JSON pointer into the result."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"the result{' at ' + path if path else ''} {problem}")
        self.problem = problem
        self.path = path


class SchemaError(Exception):
    """A signature cannot be told as JSON Schema. The message names function, parameter and type."""


class LoadFault(Exception):  # noqa: N818 - a fault of the plugin, reported, not an error of ours
    """A plugin cannot be loaded. `file` is relative to the plugin's folder where it lies in it.

    Both texts are cut where they are too long for a frame or an answer: what a plugin raises may be of any
    length. `line` and `column` count from 1, 0: unknown. `trace` is for the operator alone.
    """

    def __init__(
        self,
        reason: str,
        file: str = "",
        line: int = 0,
        column: int = 0,
        *,
        remedy: str = "",
        trace: str = "",
    ) -> None:
        place = ":".join(str(each) for each in (file, line, column) if each) if file else ""
        reason = reason if len(reason) <= MAX_REASON_CHARS else f"{reason[:MAX_REASON_CHARS]}…"
        super().__init__(f"{place}: {reason}" if place else reason)
        self.reason = reason
        self.file = file
        self.line = line
        self.column = column
        self.remedy = remedy
        self.trace = trace[-MAX_TRACE_CHARS:]
