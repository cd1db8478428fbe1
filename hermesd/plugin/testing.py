"""Call a tool in a test as hermesd would call it, without a daemon.

    from hermesd.plugin.testing import Recorder, call

    def test_the_tool_greets():
        assert call(greet, name="Ada") == "Hello, Ada"

    def test_the_tool_tells_how_far_it_is():
        recorder = Recorder(settings={"greeting": "你好"})
        call(greet, recorder, name="Ada")
        assert recorder.progress == [{"done": 1, "total": 1, "message": "greeted"}]

Arguments are given as JSON values and converted as in the daemon; they are not validated against the schema.
The answer is what the tool returned, once it has proved to be JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any

from hermesd.plugin.bind import BoundTool, bind_tool
from hermesd.plugin.context import Log, PluginContext, ToolContext
from hermesd.plugin.encode import encode_answer, plain
from hermesd.plugin.fault import ToolCallError
from hermesd.plugin.lifespan import Lifespan
from hermesd.plugin.load import load_package, package_name

__all__ = ["Recorder", "acall", "call", "definition", "lifespan", "load"]


class Recorder:
    """What a tool is given in a test, and what it said: `progress`, `logs` and `calls`, in order.

    `tools`: what `ctx.call` reaches, a function or a plain value for each name; a function may raise
    ToolCallError. `timeout_s`: the time until `ctx.deadline`. `cancel()` cancels the call.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        shared: Mapping[str, Any] | None = None,
        tools: Mapping[str, Any] | None = None,
        request_id: str = "test-request",
        session_id: str = "",
        attempt: int = 1,
        timeout_s: float | None = None,
        state_dir: Path | None = None,
    ) -> None:
        self.settings = dict(settings or {})
        self.secrets = dict(secrets or {})
        self.shared = dict(shared or {})
        self.tools = dict(tools or {})
        self.request_id = request_id
        self.session_id = session_id
        self.attempt = attempt
        self.timeout_s = timeout_s
        self.state_dir = state_dir
        self.progress: list[dict[str, object]] = []
        self.logs: list[dict[str, object]] = []
        self.calls: list[tuple[str, dict[str, object]]] = []
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Make `ctx.cancelled` true; from any thread, and from a fake tool."""
        self._cancelled.set()

    def context(self, tool: str, *, asynchronous: bool) -> ToolContext:
        """The context of one call of `tool`."""
        return ToolContext(
            tool=tool,
            request_id=self.request_id,
            session_id=self.session_id,
            attempt=self.attempt,
            deadline=None if self.timeout_s is None else time.monotonic() + self.timeout_s,
            settings=self.settings,
            secrets=self.secrets,
            shared=self.shared,
            emit=self._emit,
            call=self._answer if self.tools else None,
            cancelled=self._cancelled,
            asynchronous=asynchronous,
            state_dir=self.state_dir,
        )

    def _emit(self, kind: str, event: dict[str, object]) -> None:
        (self.progress if kind == "progress" else self.logs).append(event)

    def _answer(self, tool: str, arguments: dict[str, object], /) -> Future[Any]:
        self.calls.append((tool, arguments))
        future: Future[Any] = Future()
        if tool not in self.tools:
            future.set_exception(ToolCallError("UNKNOWN_TOOL", f"the test offers no tool {tool!r}"))
            return future
        answer = self.tools[tool]
        try:
            future.set_result(plain(answer(**arguments) if callable(answer) else answer))
        except ToolCallError as error:
            future.set_exception(error)
        return future


def call(
    function: Callable[..., Any], ctx_options: Recorder | Mapping[str, Any] | None = None, /, **arguments: Any
) -> Any:
    """Call a sync or async tool and return what it returned; what it raises is raised.

    `ctx_options`: a Recorder, or its keywords. Not from within a running loop: there, `await acall(…)`.
    Raises LoadFault for a function that could be no tool, ArgumentFault, and ResultFault for no JSON.
    """
    bound, context = _prepared(function, ctx_options)
    result = bound.invoke(context, plain(arguments))
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    encode_answer(result)
    return result


async def acall(
    function: Callable[..., Any], ctx_options: Recorder | Mapping[str, Any] | None = None, /, **arguments: Any
) -> Any:
    """As `call`, from an async test."""
    bound, context = _prepared(function, ctx_options)
    result = bound.invoke(context, plain(arguments))
    result = await result if inspect.isawaitable(result) else result
    encode_answer(result)
    return result


def load(folder: Path | str, entry: str = "") -> ModuleType:
    """The plugin in `folder` as the daemon imports it: its modules may import each other relatively.

    `entry` is the manifest's; without one `NAME.py`, NAME being the folder's name with `_` for `-`. The
    module is loaded once a process. Raises LoadFault, as a reload would.
    """
    root = Path(folder).resolve()
    digest = hashlib.sha256(str(root).encode()).hexdigest()
    return load_package(root, entry or f"{root.name.replace('-', '_')}.py", package_name(root.name, digest))


def definition(function: Callable[..., Any], plugin: str = "test") -> dict[str, Any]:
    """The tool's definition as the daemon would read it: name, parameters, returns, what was decorated."""
    return bind_tool(function, plugin).raw


def lifespan(
    module: ModuleType, *, settings: Mapping[str, Any] | None = None, secrets: Mapping[str, str] | None = None
) -> Lifespan:
    """The module's lifecycle hooks, to be opened and closed by the test."""
    context = PluginContext(
        name="test", version="0.0.0", settings=settings or {}, secrets=secrets or {}, log=Log(lambda *_: None)
    )
    return Lifespan(module, context)


def _prepared(
    function: Callable[..., Any], ctx_options: Recorder | Mapping[str, Any] | None
) -> tuple[BoundTool, ToolContext]:
    recorder = ctx_options if isinstance(ctx_options, Recorder) else Recorder(**(ctx_options or {}))
    bound = bind_tool(function, "test")
    return bound, recorder.context(bound.name, asynchronous=bound.is_async)


async def _awaited(result: Any) -> Any:
    return await result
