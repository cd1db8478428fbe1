"""What the daemon counts, in Prometheus form.

The number of series is bounded: a tool's name is a label for the first 500 names only, because a scrape
of 10,000 labelled tools was measured to hold the interpreter lock for 1.6 s.
"""

from __future__ import annotations

import platform
import threading

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from hermesd.version import __version__

MAX_LABELLED_TOOLS = 500
OTHER = "other"
CONTENT_TYPE = CONTENT_TYPE_LATEST
#: Sources whose tool names come from outside the operator's configuration: they are never labels.
UNLABELLED_SOURCES = frozenset({"agent", "peer"})

_SECONDS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)
_LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The daemon's metrics in a registry of their own, so that two daemons fit in one process.

    Every method is thread-safe and cheap enough for the path of a call.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._tools: set[str] = set()
        self._lock = threading.Lock()
        self._calls = Counter(
            "hermesd_tool_calls_total",
            "Calls that ended, by tool, source and result code.",
            ("tool", "source", "code"),
            registry=registry,
        )
        self._duration = Histogram(
            "hermesd_tool_call_duration_seconds",
            "Time from the arrival of a call to its result.",
            ("source",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._inflight = Gauge("hermesd_tool_inflight", "Calls that are going on.", registry=registry)
        self._queued = Histogram(
            "hermesd_queue_seconds",
            "Time that a call waited for admission.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._denials = Counter(
            "hermesd_denials_total",
            "Operations refused because the caller may not do them.",
            registry=registry,
        )
        self._make_daemon_metrics(registry)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

    def _make_daemon_metrics(self, registry: CollectorRegistry) -> None:
        self._reloads = Counter(
            "hermesd_reloads_total", "Reload passes, by result.", ("result",), registry=registry
        )
        # Both results exist from the start, so that a rate over the first failure is no gap.
        for result in ("ok", "rejected"):
            self._reloads.labels(result)
        self._reload_ok = Gauge(
            "hermesd_config_last_reload_successful",
            "1 when the last reload pass rejected nothing, else 0.",
            registry=registry,
        )
        self._generation = Gauge("hermesd_generation", "The generation that serves.", registry=registry)
        self._rescans = Counter(
            "hermesd_rescan_found_changes_total",
            "Periodic scans that found a change which no file event had announced.",
            registry=registry,
        )
        self._lag = Histogram(
            "hermesd_event_loop_lag_seconds",
            "How late the event loop ran a timer.",
            buckets=_LAG_SECONDS,
            registry=registry,
        )
        self._child_rss = Gauge(
            "hermesd_child_rss_bytes", "Resident memory of a child process.", ("server",), registry=registry
        )
        self._dropped = Counter(
            "hermesd_records_dropped_total", "Log lines and records that were not written.", registry=registry
        )
        build = Gauge(
            "hermesd_build_info",
            "Always 1; the labels say what runs.",
            ("version", "python"),
            registry=registry,
        )
        build.labels(__version__, platform.python_version()).set(1)

    def call_started(self) -> None:
        """A tool begins to run. Each one must be followed by exactly one `call_finished`."""
        self._inflight.inc()

    def call_finished(
        self, tool: str, source: str, code: str, seconds: float, queued_s: float, *, entered: bool = True
    ) -> None:
        """A call ended with `code` after `seconds`, of which `queued_s` were spent waiting.

        `entered`: it had been told by `call_started`; False for one that was refused before.
        """
        if entered:
            self._inflight.dec()
        self._calls.labels(self._tool_label(tool, source, code), source, code).inc()
        self._duration.labels(source).observe(max(0.0, seconds))
        self._queued.observe(max(0.0, queued_s))

    def reload_finished(self, ok: bool) -> None:
        """A reload pass ended; `ok` means that it holds no rejection."""
        self._reloads.labels("ok" if ok else "rejected").inc()
        self._reload_ok.set(1 if ok else 0)

    def set_generation(self, generation: int) -> None:
        """This generation serves now."""
        self._generation.set(generation)

    def rescan_found_changes(self) -> None:
        """A periodic scan found what the file events had not told."""
        self._rescans.inc()

    def loop_lag(self, seconds: float) -> None:
        """The event loop ran a timer this much too late."""
        self._lag.observe(max(0.0, seconds))

    def child_rss(self, name: str, rss_bytes: int) -> None:
        """A child process's resident memory; 0 says that the child is gone and ends the series."""
        if rss_bytes > 0:
            self._child_rss.labels(name).set(rss_bytes)
        else:
            self._child_rss.remove(name)

    def records_dropped(self, count: int) -> None:
        """So many log lines or records were lost."""
        self._dropped.inc(count)

    def denied(self) -> None:
        """An operation was refused because its caller may not do it."""
        self._denials.inc()

    def render(self) -> bytes:
        """The whole exposition, in the text format named by CONTENT_TYPE."""
        return generate_latest(self.registry)

    def _tool_label(self, tool: str, source: str, code: str) -> str:
        # A name that nobody serves was made up by a caller: it must not take one of the 500 places.
        if source in UNLABELLED_SOURCES or code == "UNKNOWN_TOOL":
            return OTHER
        if tool in self._tools:
            return tool
        with self._lock:
            if len(self._tools) >= MAX_LABELLED_TOOLS:
                return OTHER
            self._tools.add(tool)
        return tool
