"""The operator's configuration, typed: the YAML's own names, every value checked, defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hermesd.config.effective import EffectiveValue, dotted
from hermesd.config.fault import Place
from hermesd.config.origin import Origins
from hermesd.config.permission import Permissions
from hermesd.errors import Rejection
from hermesd.model.rate import Bound, RateLimit


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the gRPC server: MiB, streams of one connection, seconds."""

    message_mb: int = 16
    max_concurrent_streams: int = 256
    keepalive_min_s: float = 10


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM. `cert` and `key` stand together; with `client_ca` every client needs a certificate."""

    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """Where the daemon listens. `listen` holds `unix:/absolute/path`; () means: see places.listen_address.

    `agents_listen` holds `unix:/absolute/path` and HOST:PORT; without `tls.cert` on loopback only.
    `http` is HOST:PORT on loopback, or "" for off.
    """

    listen: tuple[str, ...] = ()
    socket_group: str = ""
    agents_listen: tuple[str, ...] = ()
    tls: Tls = field(default_factory=Tls)
    http: str = ""
    limits: Limits = field(default_factory=Limits)
    drain_timeout_s: float = 30


@dataclass(frozen=True, slots=True)
class TrustEntry:
    """One trusted plugin. `digest` is "" only with `follow`; `grant` None: nothing is said here."""

    digest: str = ""
    isolation: Literal["inprocess", "process"] = "inprocess"
    follow: bool = False
    grant: Permissions | None = None


@dataclass(frozen=True, slots=True)
class UntrustedEntry:
    """How a plugin that nobody trusts is to be confined."""

    isolation: Literal["call", "container"] = "container"
    image: str = ""
    grant: Permissions | None = None


@dataclass(frozen=True, slots=True)
class Plugins:
    """Where plugins come from, which of them are trusted, and the bounds of loading them."""

    dirs: tuple[Path, ...] = ()
    entry_points: tuple[str, ...] | Literal[True] = ()
    trusted: Mapping[str, TrustEntry] = field(default_factory=dict)
    untrusted: Mapping[str, UntrustedEntry] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    limits: Mapping[str, Bound] = field(default_factory=dict)
    prepare_timeout_s: float = 30
    close_timeout_s: float = 5
    commit_window_s: float = 2
    rescan_s: float = 10
    settle_ms: int = 75
    unsettled_s: float = 10
    max_stray_threads: int = 4
    idle_stop_s: float = 300
    kept_contents: int = 5
    watch: bool = True


@dataclass(frozen=True, slots=True)
class DescriptionChars:
    """Lengths of a tool's description: longer than `warn`: a warning, than `max`: refused."""

    warn: int = 500
    max: int = 2000


@dataclass(frozen=True, slots=True)
class Retry:
    """When and how often a retryable tool's call is attempted again; model.retry.RetryRule obeys it."""

    max_attempts: int = 3
    backoff_ms: int = 300
    multiplier: float = 2.0
    jitter: float = 0.2
    attempt_timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """When a tool that cannot be reached is not called for a while; model.circuit.CircuitRule obeys it."""

    enabled: bool = True
    window: int = 20
    failure_ratio: float = 0.5
    consecutive_failures: int = 5
    min_calls: int = 5
    open_ms: int = 30_000
    half_open_calls: int = 2


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """How much of a result its caller sees: above `max_tokens` the first and the last.

    `keep_s`: how long the whole can be read; `keep_mb`: how many MiB all of them may take.
    """

    max_tokens: int = 2000
    head_tokens: int = 500
    tail_tokens: int = 500
    keep_s: float = 86_400
    keep_mb: int = 256

    @property
    def ends(self) -> tuple[int, int]:
        """Tokens of the head and the tail; where both are more than the most, as much of each as fits."""
        asked = self.head_tokens + self.tail_tokens
        if asked <= self.max_tokens:
            return self.head_tokens, self.tail_tokens
        head = self.head_tokens * self.max_tokens // asked
        return head, self.max_tokens - head


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for a tool that says nothing itself. `timeouts_ms` is keyed by source and timeout class."""

    timeouts_ms: Mapping[str, int] = field(default_factory=dict)
    max_timeout_ms: int = 300_000
    max_concurrency: int = 16
    plugin_concurrency: int = 64
    agent_concurrency: int = 64
    queue_ms: int = 1000
    idempotency_window_s: float = 86_400.0
    confirmation_ttl_s: float = 600
    description_chars: DescriptionChars = field(default_factory=DescriptionChars)
    retry: Retry = field(default_factory=Retry)
    circuit_breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    result: ResultLimits = field(default_factory=ResultLimits)


@dataclass(frozen=True, slots=True)
class ToolRights:
    """Globs of tool names in which `*` crosses dots; deny wins, and without `allow` there is no tool."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """One agent. `token_sha256` "": only a certificate shows who it is. `expires` is ISO 8601 in UTC."""

    token_sha256: str = field(default="", repr=False)
    roles: tuple[str, ...] = ("agent",)
    tools: ToolRights = field(default_factory=ToolRights)
    ceiling: Literal["none", "read", "write", "destructive"] = "write"
    self_confirm: bool = False
    max_concurrency: int | None = None
    rate: RateLimit | None = None
    expires: str | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """`log_dir` None: `logs` in the data dir. `metrics_open` loopback: /metrics needs no identity there."""

    log_dir: Path | None = None
    metrics_open: Literal["loopback", "never"] = "loopback"


@dataclass(frozen=True, slots=True)
class Changes:
    """Dotted keys. `live`: a reload applies them. `restart`: it reports them and the old value stays."""

    live: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Configuration:
    """One reading of the operator's files; immutable, so that a reload swaps it whole.

    `files`: every configuration file that was read, the main one first. `watched`: also the files behind
    `${file:…}`. `include_globs`: absolute patterns. `digest` is of the effective values. `secrets` is for
    plugins that were granted a name; its values appear nowhere else.
    """

    server: Server
    data_dir: Path | None
    plugins: Plugins
    defaults: Defaults
    telemetry: Telemetry
    agents: Mapping[str, AgentEntry]
    secrets: Mapping[str, str] = field(repr=False)
    warnings: tuple[Rejection, ...]
    digest: str
    files: tuple[Path, ...]
    watched: tuple[Path, ...]
    include_globs: tuple[str, ...]
    origins: Origins = field(repr=False, compare=False)

    def effective(self) -> list[EffectiveValue]:
        """Each value in force with its origin, sorted by key, secrets masked."""
        return self.origins.effective()

    def place(self, key: str) -> Place | None:
        """Where the operator wrote `plugins.trusted.orders`, a section or a value; None when nowhere."""
        return self.origins.place_of(key)

    def changes(self, newer: Configuration) -> Changes:
        """The keys whose effective value differs in `newer`, by what a running daemon can do about it."""
        keys = self.origins.differing(newer.origins)
        return Changes(
            live=tuple(dotted(key) for key in keys if newer.origins.reload_of(key) == "live"),
            restart=tuple(dotted(key) for key in keys if newer.origins.reload_of(key) == "restart"),
        )
