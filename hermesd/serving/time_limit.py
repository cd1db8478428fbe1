"""A bound on how long a block of one task may take."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any


class TimeLimit:
    """`with TimeLimit(seconds):` cancels the task when the block takes longer, and then raises TimeoutError.

    It does what `asyncio.timeout` does, for one task and without a coroutine on the way in and one on the
    way out, which every call would pay. A cancellation from outside passes, also when both come at once.
    """

    __slots__ = ("_before", "_expired", "_seconds", "_task", "_timer", "_until")

    def __init__(self, seconds: float, task: asyncio.Task[Any] | None = None) -> None:
        """`task`: the one that runs the block, where it is known."""
        self._seconds = seconds
        self._expired = False
        self._before = 0
        self._until = 0.0
        self._task = task
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> TimeLimit:
        task = self._task
        if task is None:
            task = self._task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task that it can cancel")
        self._before = task.cancelling()
        self._timer = task.get_loop().call_later(self._seconds, self._expire, task)
        return self

    def last(self, seconds: float) -> None:
        """Let the block go on for `seconds` from now; what it had before is not taken away.

        Costs nothing but a number: the timer looks at it when it is due.
        """
        if self._task is not None:
            self._until = max(self._until, self._task.get_loop().time() + seconds)

    def _expire(self, task: asyncio.Task[Any]) -> None:
        if self._until:
            loop = task.get_loop()
            if (more := self._until - loop.time()) > 0:
                self._timer = loop.call_later(more, self._expire, task)
                return
        self._expired = True
        task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, timer = self._task, self._timer
        self._task = self._timer = None
        if timer is not None:
            timer.cancel()
        if not self._expired or task is None:
            return
        if task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error
