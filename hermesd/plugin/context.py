"""What a tool knows about the call it serves, and what a plugin knows about itself.

Everything that belongs to one request is here, and nothing of it in module globals: a plugin serves many
calls at once. A context is made for each call by the runtime; authors make one only in tests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from hermesd.plugin.encode import plain
from hermesd.plugin.fault import ResultFault, ToolCallError, ToolError
from hermesd.plugin.trace import passed_on

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

#: Receives ("progress", {done, total, message}) and ("log", {level, message, fields}); any thread.
Emit = Callable[[str, dict[str, object]], None]
LEVELS = ("debug", "info", "warning", "error", "critical")
_AS_IT_IS = (str, int, bool, type(None))
_MAX_REPR = 200


class CallTool(Protocol):
    """Starts a call of another tool. The future gives the data, or fails with ToolCallError.

    The runtime fails the future when the calling tool is cancelled.
    """

    def __call__(self, tool: str, arguments: dict[str, object], /) -> Future[Any]: ...


class Log:
    """`log("text", level="info", order=7)` or `log.warning("text", order=7)`: one structured line.

    Fields that are no JSON are logged as their `repr`. Usable from any thread.
    """

    __slots__ = ("_emit",)

    def __init__(self, emit: Emit) -> None:
        self._emit = emit

    def __call__(self, message: object, /, *, level: str = "info", **fields: object) -> None:
        if level not in LEVELS:
            raise ValueError(f"{level!r} is no level; the levels are {', '.join(LEVELS)}")
        told = {name: _loggable(value) for name, value in fields.items()}
        self._emit("log", {"level": level, "message": str(message), "fields": told})

    def debug(self, message: object, /, **fields: object) -> None:
        self._emit_at("debug", message, fields)

    def info(self, message: object, /, **fields: object) -> None:
        self._emit_at("info", message, fields)

    def warning(self, message: object, /, **fields: object) -> None:
        self._emit_at("warning", message, fields)

    def error(self, message: object, /, **fields: object) -> None:
        self._emit_at("error", message, fields)

    def _emit_at(self, level: str, message: object, fields: dict[str, object]) -> None:
        told = {name: _loggable(value) for name, value in fields.items()}
        self._emit("log", {"level": level, "message": str(message), "fields": told})


class Cancelled:
    """True once the call is cancelled or its time is up. `wait(timeout_s)` blocks until then."""

    __slots__ = ("_event",)

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def __bool__(self) -> bool:
        return self._event.is_set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block the thread until cancelled or for `timeout` seconds; whether cancelled. Not for async tools:
        those are cancelled where they await."""
        return self._event.wait(timeout)


class ToolContext:
    """One call: who asked for what, how long it may take, and the ways to talk back while it runs.

    `deadline` is in seconds of `time.monotonic()`, None without one; `progress` moves it. `attempt` counts
    from 1. `state_dir` is a folder of the plugin's own that outlives reloads and restarts; None where nothing
    can be kept.
    """

    __slots__ = (
        "_allowance_s",
        "_call",
        "_emit",
        "_limit",
        "_secrets",
        "_shared",
        "_traceparent",
        "asynchronous",
        "attempt",
        "cancelled",
        "deadline",
        "log",
        "request_id",
        "session_id",
        "settings",
        "state_dir",
        "tool",
        "tracestate",
    )

    def __init__(
        self,
        *,
        tool: str,
        request_id: str,
        session_id: str,
        attempt: int,
        deadline: float | None,
        settings: Mapping[str, Any],
        secrets: Mapping[str, str],
        shared: Mapping[str, Any],
        emit: Emit,
        call: CallTool | None,
        cancelled: threading.Event,
        asynchronous: bool,
        state_dir: Path | None = None,
        limit: float | None = None,
        allowance_s: float = 0.0,
        traceparent: str = "",
        tracestate: str = "",
    ) -> None:
        self.tool = tool
        self.request_id = request_id
        self.session_id = session_id
        self.attempt = attempt
        self.deadline = deadline
        self.settings = MappingProxyType(settings)
        self.asynchronous = asynchronous
        self.state_dir = state_dir
        self.cancelled = Cancelled(cancelled)
        self.log = Log(emit)
        self._secrets = secrets
        self._shared = shared
        self._emit = emit
        self._call = call
        self._limit = limit
        self._allowance_s = allowance_s
        self._traceparent = traceparent
        self.tracestate = tracestate

    @property
    def traceparent(self) -> str:
        """The W3C header that ties what this call asks of others to it; `tracestate` goes with it."""
        return passed_on(self.request_id, self._traceparent)

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline, never below 0; None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the call is, and have the tool's timeout anew: `deadline` moves, but never beyond what
        the caller gave and the operator's ceiling. Usable from any thread.
        """
        if self._limit is not None and self.deadline is not None:
            later = time.monotonic() + self._allowance_s
            self.deadline = max(self.deadline, min(later, self._limit))
        self._emit("progress", {"done": done, "total": total, "message": message})

    def secret(self, name: str) -> str:
        """The value of a secret that the operator granted to this plugin. Raises ToolError."""
        return _granted(self._secrets, name)

    def shared(self, name: str) -> Any:
        """What the plugin's `hermesd_shared` hook made under this name. Raises ToolError."""
        try:
            return self._shared[name]
        except KeyError:
            known = ", ".join(sorted(self._shared)) or "nothing"
            raise ToolError(f"hermesd_shared made no {name!r}; it made {known}") from None

    def call(self, tool: str, /, **arguments: object) -> Any:
        """Call another tool with the rights of this call's caller, narrowed to what the plugin was granted.

        Gives the data in a sync tool and an awaitable of it in an async one. Raises ToolCallError.
        """
        if self._call is None:
            raise ToolCallError(
                "PERMISSION_DENIED",
                "this plugin was granted no calls",
                {"remedy": "ask for the tool under permissions.calls in plugin.yaml, and have it granted"},
            )
        future = self._call(tool, plain(arguments))
        if self.asynchronous:
            import asyncio  # noqa: PLC0415 - a plugin without async tools needs no asyncio

            return asyncio.wrap_future(future)
        try:
            return future.result(timeout=self.remaining_s)
        except TimeoutError:
            future.cancel()
            raise ToolCallError("TIMEOUT", f"{tool} did not answer before this call's deadline") from None


class PluginContext:
    """What the lifecycle hooks are given: the plugin's own name, settings, secrets and log."""

    __slots__ = ("_secrets", "log", "name", "settings", "state_dir", "version")

    def __init__(
        self,
        *,
        name: str,
        version: str,
        settings: Mapping[str, Any],
        secrets: Mapping[str, str],
        log: Log,
        state_dir: Path | None = None,
    ) -> None:
        self.name = name
        self.state_dir = state_dir
        self.version = version
        self.settings = MappingProxyType(settings)
        self.log = log
        self._secrets = secrets

    def secret(self, name: str) -> str:
        """The value of a secret that the operator granted to this plugin. Raises ToolError."""
        return _granted(self._secrets, name)


def _granted(secrets: Mapping[str, str], name: str) -> str:
    try:
        return secrets[name]
    except KeyError:
        raise ToolError(
            f"the secret {name!r} is not granted to this plugin, or has no value",
            code="PERMISSION_DENIED",
            detail={
                "remedy": f"name {name} under permissions.secrets in plugin.yaml, have it granted, and have "
                f"secrets.{name} set in hermesd.yaml"
            },
        ) from None


def _loggable(value: object) -> object:
    if isinstance(value, _AS_IT_IS):
        return value
    try:
        return plain(value)
    except ResultFault:
        return _shown(value)


def _shown(value: object) -> str:
    try:
        return repr(value)[:_MAX_REPR]
    except Exception:  # noqa: BLE001 - a line in a log must not cost the call
        return f"<{type(value).__name__}>"
