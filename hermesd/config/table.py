"""Every key of `hermesd.yaml` whose feature this build has."""

from __future__ import annotations

from hermesd.config.agent import AGENTS, LISTENING
from hermesd.config.key import Key, Table
from hermesd.config.kind import (
    DIGEST,
    Choice,
    Either,
    Everything,
    FilePath,
    Flag,
    Grant,
    ListOf,
    LoopbackAddress,
    Number,
    Open,
    Rate,
    Text,
    UnixAddress,
)
from hermesd.config.later import LATER
from hermesd.config.permission import SECRET_NAME
from hermesd.model.name import plugin_name_fault

SECONDS = Number(minimum=0, maximum=86_400)
SOME_SECONDS = Number(minimum=0.05, maximum=86_400)
MILLISECONDS = Number(minimum=0, maximum=86_400_000, whole=True)
TOKENS = Number(minimum=0, maximum=10_000_000, whole=True)
MEBIBYTES = Number(minimum=1, maximum=1_000_000, whole=True)
SOME_MILLISECONDS = Number(minimum=1, maximum=86_400_000, whole=True)


def secret_name_fault(name: str) -> str | None:
    if SECRET_NAME.match(name) is None:
        return "a secret's name has letters, digits and '_' only, and begins with no digit"
    return None


_SERVER = (
    Key(
        "include",
        ListOf(Text()),
        "live",
        "Files or globs to read as well, in name order; relative to this file. "
        "A name that stands in two files is an error.",
        (),
        joins=True,
    ),
    Key("server", None, "live", "Where the daemon listens, and for how much."),
    Key(
        "server.listen",
        ListOf(UnixAddress()),
        "restart",
        "Where the operator reaches the daemon: the socket's mode is "
        "0600, or 0660 with `socket_group`; without a token the caller is the operator.",
        (),
        shown="`/run/hermesd/hermesd.sock` (root), `$XDG_RUNTIME_DIR/hermesd/hermesd.sock` or, without one, "
        "`~/.local/state/hermesd/hermesd.sock`",
    ),
    Key(
        "server.socket_group",
        Text(),
        "restart",
        "The group that may use the socket; empty: the daemon's user alone.",
        "",
    ),
    *LISTENING,
    Key(
        "server.http",
        LoopbackAddress(),
        "restart",
        "Where `/healthz`, `/readyz` and `/metrics` are served; empty: nowhere.",
        "",
    ),
    Key("server.limits", None, "restart", "Bounds of the gRPC server."),
    Key("server.limits.message_mb", Number(1, 1024, whole=True), "restart", "Largest message, in MiB.", 16),
    Key(
        "server.limits.max_concurrent_streams",
        Number(1, 65_535, whole=True),
        "restart",
        "Calls that one connection may have open at once.",
        256,
    ),
    Key(
        "server.limits.keepalive_min_s",
        Number(1, 7200),
        "restart",
        "Shortest time between a client's pings, in seconds.",
        10,
    ),
    Key(
        "server.drain_timeout_s",
        SECONDS,
        "live",
        "How long calls in flight may take to end when the daemon stops or an "
        "instance is replaced, in seconds.",
        30,
    ),
    Key(
        "data_dir",
        FilePath(),
        "restart",
        "Where the daemon keeps what it must not lose.",
        shown="`/var/lib/hermesd` (root) or `$XDG_STATE_HOME/hermesd`",
    ),
)

_PLUGINS = (
    Key("plugins", None, "live", "Where plugins come from and which of them are trusted."),
    Key(
        "plugins.dirs",
        ListOf(FilePath()),
        "live",
        "Folders of drop-in plugins. When no configuration file is named: `plugins` in its usual folder.",
        (),
        joins=True,
    ),
    Key(
        "plugins.entry_points",
        Either((Everything(), ListOf(Text()))),
        "live",
        "Installed distributions whose `hermesd` entry "
        "points run; others are listed as found, not enabled. `true`: all of them, with a warning.",
        (),
        joins=True,
    ),
    Key(
        "plugins.trusted",
        None,
        "live",
        "Drop-in plugins that may run in process, by name; a digest alone stands for `{digest: …}`.",
    ),
    Key(
        "plugins.trusted.*", None, "live", "One trusted plugin.", short="digest", name_fault=plugin_name_fault
    ),
    Key(
        "plugins.trusted.*.digest",
        DIGEST,
        "live",
        "The content that is trusted, as `ctl plugins trust` prints it.",
        "",
    ),
    Key(
        "plugins.trusted.*.isolation",
        Choice(("inprocess", "process")),
        "live",
        "`inprocess`: in the daemon; `process`: in a worker process of its own.",
        "inprocess",
    ),
    Key(
        "plugins.trusted.*.follow",
        Flag(),
        "live",
        "Trust whatever the folder holds: for development. Needs no digest.",
        False,
    ),
    Key(
        "plugins.trusted.*.grant",
        Grant(),
        "live",
        "What is granted of what the manifest asks.",
        None,
        shown="nothing said here",
    ),
    Key(
        "plugins.settings",
        None,
        "live",
        "Settings of plugins, by name; given to the plugin as `ctx.settings`.",
    ),
    Key(
        "plugins.settings.*",
        Open(),
        "live",
        "One plugin's settings, checked against its manifest's `settings` schema.",
        name_fault=plugin_name_fault,
    ),
    Key("plugins.limits", None, "live", "How much of the daemon a plugin may take, by name."),
    Key("plugins.limits.*", None, "live", "One plugin's limits.", name_fault=plugin_name_fault),
    Key(
        "plugins.limits.*.max_concurrency",
        Number(1, 10_000, whole=True),
        "live",
        "Calls of the plugin's tools that run at once.",
        None,
        shown="`defaults.plugin_concurrency`, or what one of its tools says where that is more",
    ),
    Key(
        "plugins.limits.*.rate",
        Rate(),
        "live",
        "How many calls of the plugin's tools may begin: `calls` at once after a rest, and `calls` every "
        "`per_s` seconds (1 when not said) in the long run.",
        None,
        shown="no limit",
    ),
    Key(
        "plugins.prepare_timeout_s",
        SOME_SECONDS,
        "live",
        "How long a plugin may take to load and start, in seconds.",
        30,
    ),
    Key(
        "plugins.close_timeout_s",
        SOME_SECONDS,
        "live",
        "How long a plugin may take to shut down, in seconds.",
        5,
    ),
    Key(
        "plugins.commit_window_s",
        SECONDS,
        "live",
        "How long a reload waits for plugins to become ready before it commits those that are, in seconds.",
        2,
    ),
    Key(
        "plugins.rescan_s",
        Number(0.2, 86_400),
        "live",
        "How often the folders are compared with what was read, whatever the file events say, in seconds.",
        10,
    ),
    Key(
        "plugins.settle_ms",
        MILLISECONDS,
        "live",
        "How long a change must have stood still before it is read, in milliseconds.",
        75,
    ),
    Key(
        "plugins.unsettled_s",
        SECONDS,
        "live",
        "How long a file that is still being written, or has become empty, is waited for, in seconds.",
        10,
    ),
    Key(
        "plugins.max_stray_threads",
        Number(1, 1000, whole=True),
        "live",
        "Threads of one plugin that may outlive their deadline before its tools become unavailable.",
        4,
    ),
    Key(
        "plugins.idle_stop_s",
        SECONDS,
        "live",
        "A worker process without calls is stopped after so many seconds; 0: never.",
        300,
    ),
    Key(
        "plugins.kept_contents",
        Number(1, 1000, whole=True),
        "live",
        "Contents of each plugin that are kept for `ctl plugins rollback`.",
        5,
    ),
    Key("plugins.watch", Flag(), "restart", "Reload by itself when files change.", True),
)

_TIMEOUTS = {
    "http": 6000, "openapi": 6000, "mcp": 30_000, "composite": 30_000, "agent": 30_000, "peer": 30_000,
    "container": 30_000,
}  # fmt: skip
_RETRY = (
    Key(
        "defaults.retry",
        None,
        "live",
        "Further attempts of a call whose way failed: of tools that are `retryable`, and only where that can "
        "do no harm. A definition's own `retry` says otherwise for its tool.",
    ),
    Key(
        "defaults.retry.max_attempts",
        Number(1, 100, whole=True),
        "live",
        "Attempts of one call, the first too.",
        3,
    ),
    Key(
        "defaults.retry.backoff_ms",
        MILLISECONDS,
        "live",
        "Wait before the second attempt, in milliseconds.",
        300,
    ),
    Key(
        "defaults.retry.multiplier", Number(1, 100), "live", "Each further wait is so many times longer.", 2.0
    ),
    Key(
        "defaults.retry.jitter",
        Number(0, 1),
        "live",
        "By which part of it a wait is made longer or shorter, at random.",
        0.2,
    ),
    Key(
        "defaults.retry.attempt_timeout_ms",
        MILLISECONDS,
        "live",
        "How long one attempt of a retryable tool may take, in milliseconds; 0: as long as the call.",
        0,
    ),
)
_CIRCUIT = (
    Key(
        "defaults.circuit_breaker",
        None,
        "live",
        "When a tool that cannot be reached is not called for a while. Only broken ways and timeouts count, "
        "never an error that a tool answers. A definition's own `circuit_breaker` says otherwise for its "
        "tool.",
    ),
    Key(
        "defaults.circuit_breaker.enabled",
        Flag(),
        "live",
        "Whether calls are ever held back like that.",
        True,
    ),
    Key(
        "defaults.circuit_breaker.window",
        Number(1, 1000, whole=True),
        "live",
        "How many of the last calls are looked at.",
        20,
    ),
    Key(
        "defaults.circuit_breaker.failure_ratio",
        Number(0, 1),
        "live",
        "It opens when this part of them failed.",
        0.5,
    ),
    Key(
        "defaults.circuit_breaker.consecutive_failures",
        Number(1, 1000, whole=True),
        "live",
        "It opens when so many in a row failed.",
        5,
    ),
    Key(
        "defaults.circuit_breaker.min_calls",
        Number(1, 1000, whole=True),
        "live",
        "Of fewer calls the part that failed says nothing.",
        5,
    ),
    Key(
        "defaults.circuit_breaker.open_ms",
        SOME_MILLISECONDS,
        "live",
        "How long it stays open, in milliseconds.",
        30_000,
    ),
    Key(
        "defaults.circuit_breaker.half_open_calls",
        Number(1, 1000, whole=True),
        "live",
        "Then calls try it one at a time; so many in a row must get through to close it.",
        2,
    ),
)

_DEFAULTS = (
    Key("defaults", None, "live", "What holds for a tool that says nothing itself."),
    Key(
        "defaults.timeouts_ms",
        None,
        "live",
        "How long a call may take, by the tool's source or `timeout_class`, in milliseconds.",
    ),
    Key("defaults.timeouts_ms.python", SOME_MILLISECONDS, "live", "Python functions.", 3000),
    Key(
        "defaults.timeouts_ms.batch", SOME_MILLISECONDS, "live", "Tools with `timeout_class: batch`.", 15_000
    ),
    *(
        Key(
            f"defaults.timeouts_ms.{source}",
            SOME_MILLISECONDS,
            "live",
            f"Tools of such a source, and those with `timeout_class: {source}`.",
            default,
        )
        for source, default in _TIMEOUTS.items()
    ),
    Key(
        "defaults.max_timeout_ms",
        SOME_MILLISECONDS,
        "live",
        "Ceiling for what progress may extend and for detached calls, in milliseconds.",
        300_000,
    ),
    Key(
        "defaults.max_concurrency",
        Number(1, 10_000, whole=True),
        "live",
        "Calls of one tool that run at once.",
        16,
    ),
    Key(
        "defaults.plugin_concurrency",
        Number(1, 10_000, whole=True),
        "live",
        "Calls of one plugin's tools that run at once.",
        64,
    ),
    Key(
        "defaults.agent_concurrency",
        Number(1, 10_000, whole=True),
        "live",
        "Calls of one agent that run at once. What tools call on its behalf, and the operator's calls, are "
        "not counted.",
        64,
    ),
    Key(
        "defaults.queue_ms",
        MILLISECONDS,
        "live",
        "How long a call waits for its turn, in milliseconds.",
        1000,
    ),
    Key(
        "defaults.idempotency_window_s",
        Number(minimum=1, maximum=2_592_000),
        "live",
        "For how long an idempotency key brings the recorded answer, in seconds.",
        86_400,
    ),
    Key(
        "defaults.confirmation_ttl_s",
        Number(1, 86_400),
        "live",
        "How long a call that needs a confirmation waits for it, in seconds; approval lasts as long again.",
        600,
    ),
    Key("defaults.description_chars", None, "live", "Length of a tool's description."),
    Key(
        "defaults.description_chars.warn",
        Number(1, 1_000_000, whole=True),
        "live",
        "Longer ones are warned about.",
        500,
    ),
    Key(
        "defaults.description_chars.max",
        Number(1, 1_000_000, whole=True),
        "live",
        "Longer ones are refused.",
        2000,
    ),
    *_RETRY,
    *_CIRCUIT,
    Key("defaults.result", None, "live", "How much of a result its caller sees at once, and what is kept."),
    Key(
        "defaults.result.max_tokens",
        Number(1, 10_000_000, whole=True),
        "live",
        "A result of more tokens is cut to its first and its last ones; what is left is JSON, and markers "
        "say how much is missing. Data and texts of the content are counted apart.",
        2000,
    ),
    Key(
        "defaults.result.head_tokens",
        TOKENS,
        "live",
        "How many of the first are left. Where head and tail together are more than `max_tokens`, both are "
        "lowered in proportion.",
        500,
    ),
    Key("defaults.result.tail_tokens", TOKENS, "live", "How many of the last are left.", 500),
    Key(
        "defaults.result.keep_s",
        Number(1, 31_536_000),
        "live",
        "How long the whole of a result that was cut, and that of a detached call, can be read by its "
        "owner, in seconds.",
        86_400,
    ),
    Key(
        "defaults.result.keep_mb",
        Number(1, 1_048_576, whole=True),
        "live",
        "How much disk all of them may take together, in MiB; the oldest make room.",
        256,
    ),
)

_REST = (
    Key(
        "secrets",
        None,
        "live",
        "Values of secrets, by name, for the plugins that were granted the name.",
        secret=True,
    ),
    Key(
        "secrets.*",
        Text(),
        "live",
        "One secret; best as `${file:PATH}`.",
        secret=True,
        name_fault=secret_name_fault,
    ),
    Key("telemetry", None, "live", "Logs and metrics."),
    Key(
        "telemetry.log_dir",
        FilePath(),
        "restart",
        "Where the lines of plugins are kept.",
        shown="`logs` in the data dir",
    ),
    Key(
        "telemetry.metrics_open",
        Choice(("loopback", "never")),
        "live",
        "`loopback`: `/metrics` asks nobody on this machine for an identity; `never`: it always asks.",
        "loopback",
    ),
    Key("telemetry.call_log", None, "live", "The call log: one JSON line a call, in `calls.jsonl`."),
    Key("telemetry.call_log.max_mb", MEBIBYTES, "live", "A file that reaches so many MiB begins anew.", 100),
    Key(
        "telemetry.call_log.keep",
        Number(0, 1000, whole=True),
        "live",
        "Older files that are kept.",
        10,
    ),
    Key(
        "telemetry.call_log.content",
        Flag(),
        "live",
        "Write arguments and results too: redacted, 2 KiB of each.",
        False,
    ),
    Key(
        "telemetry.call_log.redact",
        ListOf(Text()),
        "live",
        "Globs of keys whose values are left out of the call log and of records; those of passwords, tokens "
        "and the like always are.",
        (),
        joins=True,
    ),
    Key("telemetry.records", None, "live", "The records that `ctl calls` shows."),
    Key(
        "telemetry.records.keep_days",
        Number(0, 36_500, whole=True),
        "live",
        "Older records are removed; 0: none for its age.",
        30,
    ),
    Key(
        "telemetry.records.max_mb",
        MEBIBYTES,
        "live",
        "Beyond so many MiB the oldest records are removed.",
        512,
    ),
)

TABLE = Table((*_SERVER, *AGENTS, *_PLUGINS, *_DEFAULTS, *_REST, *LATER))
