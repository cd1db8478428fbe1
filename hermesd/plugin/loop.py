"""The event loop on which a plugin's async tools run in a process of their own."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from hermesd.plugin.failure import trace_of

if TYPE_CHECKING:
    import asyncio


class LoopThread:
    """The plugin's own event loop, on a thread that is made when first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closing = False

    def get(self) -> asyncio.AbstractEventLoop:
        import asyncio  # noqa: PLC0415 - a plugin without async tools needs no asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name="loop", daemon=True
                )
                self._thread.start()
            return self._loop

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine there and wait for it."""
        import asyncio  # noqa: PLC0415

        return asyncio.run_coroutine_threadsafe(coroutine, self.get()).result()

    def close(self) -> None:
        """Cancel what runs, let it end, stop; at most a second, because plugin code may not listen."""
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
        self._closing = True
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(1.0)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio  # noqa: PLC0415

        asyncio.set_event_loop(loop)
        while not (self._closing or loop.is_closed()):
            try:
                loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - a task raised SystemExit; the loop goes on
                print(trace_of(error), file=sys.stderr)  # noqa: T201 - the plugin's log
        if tasks := asyncio.all_tasks(loop):
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.wait(tasks))
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()
