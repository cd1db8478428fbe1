"""What a scrape gets: the metrics, with figures that are only taken when somebody asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from hermesd.telemetry.metric import Metrics
from hermesd.telemetry.process import resident_bytes


class Exposition:
    """The metrics, with the memory of every child as it is now. `children` are process ids by name."""

    def __init__(
        self, metrics: Metrics, children: Callable[[], Mapping[str, int]], executor: Executor
    ) -> None:
        self._metrics = metrics
        self._children = children
        self._executor = executor
        self._shown: frozenset[str] = frozenset()

    async def scrape(self) -> bytes:
        """The whole exposition. A child that is gone ends its series."""
        children = self._children()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._render, children)

    def _render(self, children: Mapping[str, int]) -> bytes:
        sizes = {name: resident_bytes(pid) for name, pid in children.items()}
        alive = frozenset(name for name, size in sizes.items() if size)
        for name in sorted(self._shown | alive):
            self._metrics.child_rss(name, sizes.get(name, 0))
        self._shown = alive
        return self._metrics.render()
