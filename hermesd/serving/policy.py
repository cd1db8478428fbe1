"""The operator's numbers that calls obey; replaced as a whole when a reload commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesd.model.circuit import CircuitRule
from hermesd.model.definition import ToolDefinition
from hermesd.model.rate import Bound
from hermesd.model.retry import RetryRule

#: A call may reach through `ctx.call` this deep; deeper is a loop.
MAX_DEPTH = 8
FALLBACK_TIMEOUT_MS = 30_000
UNSAID = Bound()


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """Milliseconds throughout. `timeouts_ms` is by source or timeout class; `plugins`, `agents` by name."""

    timeouts_ms: Mapping[str, int] = field(default_factory=lambda: {"python": 3000, "batch": 15000})
    max_timeout_ms: int = 300_000
    max_concurrency: int = 16
    plugin_concurrency: int = 64
    agent_concurrency: int = 64
    plugins: Mapping[str, Bound] = field(default_factory=dict)
    agents: Mapping[str, Bound] = field(default_factory=dict)
    queue_ms: int = 1000
    confirmation_ttl_s: float = 600.0
    max_result_bytes: int = 15 * 1024 * 1024
    idempotency_window_s: float = 86_400.0
    retry: RetryRule = field(default_factory=RetryRule)
    circuit: CircuitRule = field(default_factory=CircuitRule)
    #: A result of more is cut to its first and its last.
    result_max_tokens: int = 2000
    result_head_tokens: int = 500
    result_tail_tokens: int = 500

    def timeout_ms(self, definition: ToolDefinition, source: str) -> int:
        """The tool's own timeout, else its class's, else its source's; never above the ceiling."""
        own = definition.timeout_ms or self.timeouts_ms.get(definition.timeout_class or source)
        return min(own or FALLBACK_TIMEOUT_MS, self.max_timeout_ms)

    def places(self, definition: ToolDefinition) -> int:
        return definition.max_concurrency or self.max_concurrency

    def plugin_places(self, plugin: str, most: int) -> int:
        """What the operator said of the plugin, else the default, or `most`, its largest tool's places."""
        return self.plugins.get(plugin, UNSAID).max_concurrency or max(self.plugin_concurrency, most)

    def agent_places(self, agent: str) -> int:
        return self.agents.get(agent, UNSAID).max_concurrency or self.agent_concurrency
