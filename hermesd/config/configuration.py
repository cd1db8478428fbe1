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


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the gRPC server: MiB, streams of one connection, seconds."""

    message_mb: int = 16
    max_concurrent_streams: int = 256
    keepalive_min_s: float = 10


@dataclass(frozen=True, slots=True)
class Server:
    """Where the daemon listens. `listen` holds `unix:/absolute/path`; () means: see places.listen_address.

    `http` is HOST:PORT on loopback, or "" for off.
    """

    listen: tuple[str, ...] = ()
    socket_group: str = ""
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
class Defaults:
    """What holds for a tool that says nothing itself. `timeouts_ms` is keyed by source and timeout class."""

    timeouts_ms: Mapping[str, int] = field(default_factory=dict)
    max_timeout_ms: int = 300_000
    max_concurrency: int = 16
    queue_ms: int = 1000
    idempotency_window_s: float = 86_400.0
    description_chars: DescriptionChars = field(default_factory=DescriptionChars)


@dataclass(frozen=True, slots=True)
class CallLog:
    """The call log: JSON lines, in files of `max_mb`. `redact`: globs of keys, beside those always hidden."""

    max_mb: int = 100
    keep: int = 10
    content: bool = False
    redact: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordsKept:
    """How many records of calls are kept. `keep_days` 0: whatever their age."""

    keep_days: int = 30
    max_mb: int = 512


@dataclass(frozen=True, slots=True)
class Telemetry:
    """`log_dir` None: `logs` in the data dir. `metrics_open` loopback: /metrics needs no identity there."""

    log_dir: Path | None = None
    metrics_open: Literal["loopback", "never"] = "loopback"
    call_log: CallLog = field(default_factory=CallLog)
    records: RecordsKept = field(default_factory=RecordsKept)


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
