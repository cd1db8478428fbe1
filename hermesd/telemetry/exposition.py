"""What was counted, in Prometheus' text format."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from hermesd.telemetry.metric import Distribution, Tally
from hermesd.version import __version__

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Exposition(Collector):
    """Renders a tally, and what the process and the interpreter say of themselves."""

    def __init__(self, tally: Tally, lock: threading.Lock) -> None:
        """`lock` is the one under which the tally is changed."""
        self._tally = tally
        self._lock = lock
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def render(self) -> bytes:
        """The whole text."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Every family of the daemon's own, as it stands at one moment."""
        with self._lock:
            families = [*self._calls(), *self._daemon()]
        yield from families

    def _calls(self) -> Iterator[Metric]:
        tally = self._tally
        calls = CounterMetricFamily(
            "hermesd_tool_calls_total",
            "Calls that ended, by tool, source and result code.",
            labels=("tool", "source", "code"),
        )
        for labels, count in tally.calls.items():
            calls.add_metric(labels, count)
        yield calls
        yield _histogram(
            "hermesd_tool_call_duration_seconds",
            "Time from the arrival of a call to its result.",
            (((source,), each) for source, each in tally.durations.items()),
            ("source",),
        )
        yield GaugeMetricFamily("hermesd_tool_inflight", "Calls that are going on.", value=tally.inflight)
        yield GaugeMetricFamily(
            "hermesd_calls_waiting", "Calls that wait for admission now.", value=tally.waiting()
        )
        yield _histogram(
            "hermesd_queue_seconds", "Time that a call waited for admission.", [((), tally.queued)]
        )
        yield CounterMetricFamily(
            "hermesd_tool_retries_total", "Attempts of calls after the first.", value=tally.retries
        )
        circuits = GaugeMetricFamily(
            "hermesd_circuit_state",
            "0 closed, 1 half open, 2 open; of circuits that opened once. Without a tool: a plugin's.",
            labels=("tool", "plugin"),
        )
        for (tool, plugin), state in tally.circuits.items():
            circuits.add_metric((tool, plugin), state)
        yield circuits
        yield CounterMetricFamily(
            "hermesd_results_truncated_total",
            "Results that were cut because they were too long for a model.",
            value=tally.truncated,
        )
        yield GaugeMetricFamily(
            "hermesd_output_bytes", "Disk that kept results take.", value=tally.output_bytes
        )
        yield GaugeMetricFamily(
            "hermesd_calls_detached", "Detached calls that are going on.", value=tally.detached
        )
        yield CounterMetricFamily(
            "hermesd_denials_total",
            "Operations refused because the caller may not do them.",
            value=tally.denials,
        )
        confirmations = CounterMetricFamily(
            "hermesd_confirmations_total",
            "What became of calls that need agreement: requested, approved, denied, used, expired.",
            labels=("change",),
        )
        for change, count in tally.confirmations.items():
            confirmations.add_metric((change,), count)
        yield confirmations

    def _daemon(self) -> Iterator[Metric]:
        tally = self._tally
        reloads = CounterMetricFamily(
            "hermesd_reloads_total", "Reload passes, by result.", labels=("result",)
        )
        for result, count in tally.reloads.items():
            reloads.add_metric((result,), count)
        yield reloads
        yield GaugeMetricFamily(
            "hermesd_config_last_reload_successful",
            "1 when the last reload pass rejected nothing, else 0.",
            value=tally.reload_ok,
        )
        yield GaugeMetricFamily("hermesd_generation", "The generation that serves.", value=tally.generation)
        yield CounterMetricFamily(
            "hermesd_rescan_found_changes_total",
            "Periodic scans that found a change which no file event had announced.",
            value=tally.rescans,
        )
        yield _histogram(
            "hermesd_event_loop_lag_seconds", "How late the event loop ran a timer.", [((), tally.lag)]
        )
        children = GaugeMetricFamily(
            "hermesd_child_rss_bytes", "Resident memory of a child process.", labels=("server",)
        )
        for name, rss_bytes in tally.child_rss.items():
            children.add_metric((name,), rss_bytes)
        yield children
        yield CounterMetricFamily(
            "hermesd_records_dropped_total",
            "Log lines and records that were not written.",
            value=tally.dropped,
        )
        yield _histogram(
            "hermesd_store_commit_seconds",
            "Time to write one batch into a store.",
            (((store,), each) for store, each in tally.commits.items()),
            ("store",),
        )
        build = GaugeMetricFamily(
            "hermesd_build_info", "Always 1; the labels say what runs.", labels=("version", "python")
        )
        build.add_metric((__version__, platform.python_version()), 1)
        yield build


def _histogram(
    name: str,
    documentation: str,
    series: Iterable[tuple[tuple[str, ...], Distribution]],
    labels: tuple[str, ...] = (),
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, documentation, labels=labels)
    for values, each in series:
        bounds = [*map(floatToGoString, each.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(each.counts), strict=True))
        family.add_metric(values, buckets, each.total)
    return family
