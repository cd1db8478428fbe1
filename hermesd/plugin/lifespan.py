"""A plugin's life: `hermesd_startup`, then `hermesd_shared`; at the end the reverse, then `hermesd_shutdown`.

Each step registers its undo when it has succeeded, so that a failure half-way unwinds what was done and
nothing else: `hermesd_shutdown` runs if and only if startup succeeded (or there is none).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from types import ModuleType
from typing import Any

from hermesd.plugin.bind import takes_argument
from hermesd.plugin.context import PluginContext
from hermesd.plugin.fault import LoadFault
from hermesd.plugin.hook import hooks_of, place_of
from hermesd.plugin.load import fault_of, module_root


class Lifespan:
    """The lifecycle hooks of one loaded plugin.

    Use either `open` and `close` (a plugin whose hooks are all sync) or `aopen` and `aclose`, on the plugin's
    own loop. `shared` is what `ctx.shared` looks in, empty before it is open. Opening again after closing is
    allowed. Closing is idempotent. Errors are LoadFault with the place in the plugin's code.
    """

    def __init__(self, module: ModuleType, context: PluginContext) -> None:
        self._hooks = hooks_of(module)
        self._root = module_root(module)
        self._context = context
        self._stack = contextlib.ExitStack()
        self._async_stack = contextlib.AsyncExitStack()
        self.shared: dict[str, Any] = {}

    @property
    def is_empty(self) -> bool:
        """There is nothing to run: no thread or loop need be made for it."""
        return not any(self._hook(name) for name in ("startup", "shared", "shutdown"))

    @property
    def can_refuse(self) -> bool:
        """There is a `hermesd_unavailable` to ask; without one no thread need be made for the question."""
        return self._hook("unavailable") is not None

    @property
    def needs_loop(self) -> bool:
        """A hook is async, so that only `aopen` will do."""
        found = (self._hook(name) for name in ("startup", "shared", "shutdown"))
        return any(_is_async(each) for each in found if each is not None)

    def open(self) -> Mapping[str, Any]:
        """Run startup and shared in this thread. A failure leaves nothing behind."""
        stack = contextlib.ExitStack()
        fault: LoadFault | None = None
        try:
            self._run("startup")
            stack.callback(self._run, "shutdown")
            shared = self._run("shared")
            self.shared = self._checked(stack.enter_context(shared) if _is_manager(shared) else shared)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a hook must not end the host
            try:
                # Not by way of the stack's own exit: what was opened is closed, and not told of the error.
                stack.close()
            except BaseException as second:  # noqa: BLE001
                error.add_note(f"closing failed as well: {second!r}")
            fault = self._fault(error)
        if fault is not None:
            raise fault
        self._stack = stack
        return self.shared

    def close(self) -> None:
        """Give back what is shared, then run shutdown. What fails does not keep the rest from running."""
        stack, self._stack, self.shared = self._stack, contextlib.ExitStack(), {}
        fault: LoadFault | None = None
        try:
            stack.close()
        except BaseException as error:  # noqa: BLE001 - as above
            fault = self._fault(error)
        if fault is not None:
            raise fault

    async def aopen(self) -> Mapping[str, Any]:
        """As `open`, for hooks of any kind; sync ones run on the loop's thread, which is the plugin's own."""
        stack = contextlib.AsyncExitStack()
        fault: LoadFault | None = None
        try:
            await self._arun("startup")
            stack.push_async_callback(self._arun, "shutdown")
            self.shared = self._checked(await self._aenter(stack, await self._arun("shared")))
        except BaseException as error:
            try:
                await stack.aclose()
            except BaseException as second:  # noqa: BLE001 - told with the first
                error.add_note(f"closing failed as well: {second!r}")
            if _is_cancelling(error):
                raise
            fault = self._fault(error)
        if fault is not None:
            raise fault
        self._async_stack = stack
        return self.shared

    async def aclose(self) -> None:
        """As `close`, for what `aopen` opened."""
        stack, self._async_stack, self.shared = self._async_stack, contextlib.AsyncExitStack(), {}
        fault: LoadFault | None = None
        try:
            await stack.aclose()
        except BaseException as error:
            if _is_cancelling(error):
                raise
            fault = self._fault(error)
        if fault is not None:
            raise fault

    def unavailable(self) -> tuple[str, str] | None:
        """What `hermesd_unavailable` answers: (reason, remedy) when no tool of the plugin can work now."""
        try:
            answer: tuple[str, str] | None = self._run("unavailable")
            if answer is not None and not _is_refusal(answer):
                raise self._misuse("unavailable", f"gives {answer!r}", "return None or (reason, remedy)")
        except BaseException as error:  # noqa: BLE001 - as above
            fault = self._fault(error)
        else:
            return answer
        raise fault

    def _hook(self, name: str) -> Callable[..., Any] | None:
        return self._hooks.get(f"hermesd_{name}")

    def _run(self, name: str) -> Any:
        hook = self._hook(name)
        if hook is None:
            return None
        result = _managed(hook)(self._context) if takes_argument(hook) else _managed(hook)()
        if inspect.isawaitable(result) or _is_async_manager(result):
            if inspect.iscoroutine(result):
                result.close()
            raise self._misuse(name, "gives something to await", "make it `async def`")
        return result

    async def _arun(self, name: str) -> Any:
        hook = self._hook(name)
        if hook is None:
            return None
        result = _managed(hook)(self._context) if takes_argument(hook) else _managed(hook)()
        return await result if inspect.isawaitable(result) else result

    async def _aenter(self, stack: contextlib.AsyncExitStack, shared: Any) -> Any:
        if _is_async_manager(shared):
            return await stack.enter_async_context(shared)
        return stack.enter_context(shared) if _is_manager(shared) else shared

    def _checked(self, shared: Any) -> dict[str, Any]:
        if shared is None:
            return {}
        if not isinstance(shared, Mapping) or not all(isinstance(each, str) for each in shared):
            raise self._misuse("shared", f"gives {type(shared).__name__}", "return or yield {'name': thing}")
        return dict(shared)

    def _misuse(self, name: str, what: str, remedy: str) -> LoadFault:
        file, line = place_of(self._hook(name))
        return LoadFault(f"hermesd_{name} {what}", file, line, remedy=remedy)

    def _fault(self, error: BaseException) -> LoadFault:
        return error if isinstance(error, LoadFault) else fault_of(error, self._root)


def _is_cancelling(error: BaseException) -> bool:
    """Whether the host cancels the task, and not a hook that raises CancelledError of its own."""
    import asyncio  # noqa: PLC0415 - a plugin without async hooks needs no asyncio

    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _is_refusal(answer: object) -> bool:
    return isinstance(answer, tuple) and [type(each) for each in answer] == [str, str]


def _is_async(hook: Callable[..., Any]) -> bool:
    bare = inspect.unwrap(hook)
    return inspect.iscoroutinefunction(bare) or inspect.isasyncgenfunction(bare)


def _managed(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook that yields, as the function that gives a context manager."""
    if inspect.isasyncgenfunction(hook):
        asynchronous: Callable[..., AsyncIterator[Any]] = hook
        return contextlib.asynccontextmanager(asynchronous)
    if inspect.isgeneratorfunction(hook):
        return contextlib.contextmanager(hook)
    return hook


def _is_manager(value: Any) -> bool:
    return hasattr(type(value), "__enter__") and hasattr(type(value), "__exit__")


def _is_async_manager(value: Any) -> bool:
    return hasattr(type(value), "__aenter__") and hasattr(type(value), "__aexit__")
