"""Keys whose feature comes with a later build: read and checked, then named in a warning.

So a configuration written for a later build keeps its shape, and nobody believes that a key has an effect
which it has not. A key moves from here to the table with the feature itself.
"""

from __future__ import annotations

from hermesd.config.key import Key
from hermesd.config.kind import (
    Anything,
    Choice,
    Either,
    Flag,
    Grant,
    Kind,
    ListOf,
    MapOf,
    Number,
    Open,
    Text,
)

NAMES = ListOf(Text("name"))
TEXT = Text()
WHOLE = Number(0, whole=True)
POSITIVE = Number(1, whole=True)
RATIO = Number(0, 1)
AUTO_OR_NUMBER = Either((Choice(("auto",)), Number(0)))
OPEN = Open()
TEXTS = MapOf(TEXT)


def _rows(
    feature: str, keys: dict[str, tuple[Kind | None, str]], *, secret: tuple[str, ...] = ()
) -> tuple[Key, ...]:
    return tuple(
        Key(
            path,
            kind,
            "live",
            f"{feature[0].upper()}{feature[1:]}.",
            deferred=feature,
            shown=shown,
            secret=path in secret,
        )
        for path, (kind, shown) in keys.items()
    )


_UNTRUSTED = (
    Key(
        "plugins.untrusted",
        None,
        "live",
        "Sandboxes for untrusted plugins. What it names cannot be trusted, with `ctl` neither.",
        deferred="sandboxes for untrusted plugins",
        still="what it names is never trusted",
    ),
    *_rows(
        "sandboxes for untrusted plugins",
        {
            "plugins.untrusted.*": (None, ""),
            "plugins.untrusted.*.isolation": (Choice(("call", "container")), "container"),
            "plugins.untrusted.*.image": (TEXT, ""),
            "plugins.untrusted.*.grant": (Grant(), ""),
        },
    ),
)

_STORE = _rows("the encrypted store", {"store": (None, ""), "store.key": (TEXT, "")}, secret=("store.key",))
_TOOLS = (
    Key(
        "tools",
        ListOf(Open("tool definitions")),
        "live",
        "Declarative tools.",
        deferred="declarative tools",
        shown="[]",
        joins=True,
    ),
)


def _servers(path: str, doc: str) -> tuple[Key, ...]:
    """The same shape under our own name and under the one that other clients use."""
    transport = Choice(("stdio", "http", "sse", "streamable-http", "streamablehttp"), folded=True)
    keys: dict[str, tuple[Kind | None, str]] = {
        "command": (TEXT, ""),
        "args": (ListOf(TEXT), "[]"),
        "env": (TEXTS, "{}"),
        "cwd": (TEXT, ""),
        "url": (TEXT, ""),
        "headers": (TEXTS, "{}"),
        "transport": (transport, "inferred"),
        "type": (transport, "inferred"),
        "tools": (None, ""),
        "tools.allow": (NAMES, ""),
        "tools.deny": (NAMES, ""),
        "tools.rename": (TEXTS, ""),
        "tools.override": (OPEN, ""),
        "required": (Flag(), "false"),
        "health": (None, ""),
        "health.interval_s": (Number(0), ""),
        "health.timeout_s": (Number(0), ""),
        "health.failures": (POSITIVE, ""),
        "restart": (None, ""),
        "restart.backoff_ms": (WHOLE, ""),
        "restart.max_backoff_ms": (WHOLE, ""),
        "restart.give_up_after": (WHOLE, ""),
        "restart.window_s": (Number(0), ""),
        "start": (Choice(("eager", "lazy")), "eager"),
        "idle_stop_s": (Number(0), ""),
        "approve": (Choice(("auto", "manual")), "auto"),
        "trust_annotations": (Flag(), "false"),
        "isolate": (Flag(), "false"),
        "container": (Either((Flag(), OPEN)), "false"),
        "env_passthrough": (NAMES, "[]"),
        "disabled": (Flag(), "false"),
        "timeout": (Number(0), ""),
        "envFile": (TEXT, ""),
        "alwaysAllow": (NAMES, ""),
        "autoApprove": (Either((NAMES, Flag())), ""),
        "description": (TEXT, ""),
    }
    feature = "MCP servers"
    return (
        Key(path, None, "live", doc, deferred=feature),
        Key(
            f"{path}.*",
            None,
            "live",
            "One MCP server, in the shape that other clients use too.",
            deferred=feature,
            lenient=True,
        ),
        *_rows(
            feature,
            {f"{path}.*.{name}": what for name, what in keys.items()},
            secret=(f"{path}.*.env", f"{path}.*.headers"),
        ),
    )


_PROFILES = _rows(
    "profiles for MCP clients",
    {
        "profiles": (None, ""),
        "profiles.*": (None, ""),
        "profiles.*.tools": (None, ""),
        "profiles.*.tools.allow": (NAMES, ""),
        "profiles.*.tools.deny": (NAMES, ""),
        "profiles.*.prefix": (Flag(), "true"),
    },
)

_SANDBOX = _rows(
    "sandboxes",
    {
        "sandbox": (None, ""),
        "sandbox.engine": (Choice(("docker", "podman", "none")), "docker"),
        "sandbox.image": (TEXT, "auto"),
        "sandbox.pool": (None, ""),
        "sandbox.pool.min_idle": (WHOLE, "1"),
        "sandbox.pool.max_per_plugin": (POSITIVE, "8"),
        "sandbox.pool.max_total": (POSITIVE, "32"),
        "sandbox.memory_mb": (POSITIVE, "256"),
        "sandbox.cpus": (Number(0.01), "0.5"),
        "sandbox.pids": (POSITIVE, "64"),
        "sandbox.tmpfs_mb": (WHOLE, "64"),
        "sandbox.network": (TEXT, "none"),
        "sandbox.runtime": (TEXT, "runc"),
    },
)

_SESSIONS = _rows(
    "sessions",
    {
        "sessions": (None, ""),
        "sessions.recent_rounds": (WHOLE, "6"),
        "sessions.summary_tokens": (WHOLE, "500"),
        "sessions.resident_tokens": (WHOLE, "800"),
        "sessions.lease_s": (Number(0), "5"),
        "sessions.pin_tools": (Flag(), "true"),
        "sessions.retention_days": (Number(0), "0"),
    },
)

_SELECTION = _rows(
    "selection of tools",
    {
        "selection": (None, ""),
        "selection.show_all_up_to": (WHOLE, "20"),
        "selection.limit": (POSITIVE, "5"),
        "selection.turns": (WHOLE, "3"),
        "selection.vector_weight": (AUTO_OR_NUMBER, "auto"),
        "selection.min_score": (AUTO_OR_NUMBER, "auto"),
        "selection.rules": (ListOf(Anything()), "[]"),
    },
)

_MEMORY = _rows(
    "memory",
    {
        "memory": (None, ""),
        "memory.embedder": (TEXT, "auto"),
        "memory.vector_weight": (AUTO_OR_NUMBER, "0.6"),
        "memory.decay": (None, ""),
        "memory.decay.floor": (RATIO, "0.9"),
        "memory.decay.per_day": (RATIO, "0.01"),
        "memory.dedupe": (None, ""),
        "memory.dedupe.threshold": (AUTO_OR_NUMBER, "auto"),
        "memory.dedupe.value_guard": (Flag(), "true"),
        "memory.top_k": (POSITIVE, "5"),
        "memory.retention_days": (Number(0), "0"),
    },
)

_AGENTS = (
    *_rows(
        "memory",
        {
            "agents.*.memory": (None, ""),
            "agents.*.memory.read": (NAMES, "[]"),
            "agents.*.memory.write": (NAMES, "[]"),
        },
    ),
    *_rows(
        "tools that agents provide",
        {
            "agents.*.provide": (None, ""),
            "agents.*.provide.tools": (NAMES, "[]"),
            "agents.*.provide.visible_to": (NAMES, "[]"),
        },
    ),
    *_rows("budgets of agents", {"agents.*.budget": (Anything(), "")}),
)

_PEERS = _rows(
    "peers",
    {
        "peers": (None, ""),
        "peers.*": (None, ""),
        "peers.*.address": (TEXT, ""),
        "peers.*.token": (TEXT, ""),
        "peers.*.tools": (None, ""),
        "peers.*.tools.allow": (NAMES, "[]"),
        "peers.*.tools.deny": (NAMES, "[]"),
    },
    secret=("peers.*.token",),
)

_TELEMETRY = (
    *_rows(
        "the call log",
        {
            "telemetry.call_log": (None, ""),
            "telemetry.call_log.max_mb": (POSITIVE, "100"),
            "telemetry.call_log.keep": (POSITIVE, "10"),
            "telemetry.call_log.content": (Flag(), "false"),
            "telemetry.call_log.redact": (NAMES, "[]"),
        },
    ),
    *_rows("OpenTelemetry export", {"telemetry.otlp_endpoint": (TEXT, "")}),
)

LATER: tuple[Key, ...] = (
    *_UNTRUSTED,
    *_STORE,
    *_TOOLS,
    *_servers("mcp_servers", "MCP servers, by name."),
    *_servers("mcpServers", "The same as `mcp_servers`, under the name that other programs use."),
    *_PROFILES,
    *_SANDBOX,
    *_SESSIONS,
    *_SELECTION,
    *_MEMORY,
    *_AGENTS,
    *_PEERS,
    *_TELEMETRY,
)
