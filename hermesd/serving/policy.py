"""The operator's numbers that calls obey; replaced as a whole when a reload commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesd.model.definition import ToolDefinition

#: A call may reach through `ctx.call` this deep; deeper is a loop.
MAX_DEPTH = 8
FALLBACK_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """Milliseconds throughout, but for what says otherwise. `timeouts_ms` is by source or timeout class."""

    timeouts_ms: Mapping[str, int] = field(default_factory=lambda: {"python": 3000, "batch": 15000})
    max_timeout_ms: int = 300_000
    max_concurrency: int = 16
    queue_ms: int = 1000
    max_result_bytes: int = 15 * 1024 * 1024
    idempotency_window_s: float = 86_400.0

    def timeout_ms(self, definition: ToolDefinition, source: str) -> int:
        """The tool's own timeout, else its class's, else its source's; never above the ceiling."""
        own = definition.timeout_ms or self.timeouts_ms.get(definition.timeout_class or source)
        return min(own or FALLBACK_TIMEOUT_MS, self.max_timeout_ms)

    def places(self, definition: ToolDefinition) -> int:
        return definition.max_concurrency or self.max_concurrency
