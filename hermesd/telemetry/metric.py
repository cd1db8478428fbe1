"""What the daemon counts.

The number of series is bounded: a tool's name is a label for the first 500 names only, because a scrape
of 10,000 labelled tools was measured to hold the interpreter lock for 1.6 s.

Counting is on the path of every call and so keeps to plain numbers; `exposition` gives them Prometheus'
form when they are asked for, and only then is prometheus_client imported.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesd.telemetry.exposition import Exposition

MAX_LABELLED_TOOLS = 500
OTHER = "other"
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


class Distribution:
    """How many observations fell between which bounds, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        #: Of each bound those above the one before and not above it; the last are above all.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Take one value; a negative one, which only clocks make, is 0."""
        value = max(0.0, value)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True)
class Tally:
    """All numbers that are counted here. Labels are tuples in the order of the exposition."""

    calls: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    durations: dict[str, Distribution] = field(default_factory=dict)
    inflight: int = 0
    #: Asked when the metrics are.
    waiting: Callable[[], int] = lambda: 0
    queued: Distribution = field(default_factory=lambda: Distribution(_SECONDS))
    denials: int = 0
    confirmations: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    #: By tool and plugin; a circuit that several tools share has no tool.
    circuits: dict[tuple[str, str], int] = field(default_factory=dict)
    # Both results exist from the start, so that a rate over the first failure is no gap.
    reloads: Counter[str] = field(default_factory=lambda: Counter(ok=0, rejected=0))
    reload_ok: int = 0
    generation: int = 0
    rescans: int = 0
    lag: Distribution = field(default_factory=lambda: Distribution(_LAG_SECONDS))
    child_rss: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    truncated: int = 0
    output_bytes: int = 0
    detached: int = 0
    commits: dict[str, Distribution] = field(default_factory=dict)


class Metrics:
    """The daemon's metrics, of its own, so that two daemons fit in one process.

    Every method is thread-safe and cheap enough for the path of a call.
    """

    def __init__(self) -> None:
        self._tally = Tally()
        self._tools: set[str] = set()
        self._lock = threading.Lock()

    def call_started(self) -> None:
        """A tool begins to run. Each one must be followed by exactly one `call_finished`."""
        with self._lock:
            self._tally.inflight += 1

    def call_finished(
        self, tool: str, source: str, code: str, seconds: float, queued_s: float, *, entered: bool = True
    ) -> None:
        """A call ended with `code` after `seconds`, of which `queued_s` were spent waiting.

        `entered`: it had been told by `call_started`; False for one that was refused before.
        """
        tally = self._tally
        with self._lock:
            tally.inflight -= entered
            tally.calls[self._tool_label(tool, source, code), source, code] += 1
            durations = tally.durations.get(source)
            if durations is None:
                durations = tally.durations[source] = Distribution(_SECONDS)
            durations.observe(seconds)
            tally.queued.observe(queued_s)

    def call_retried(self) -> None:
        """A call gets another attempt."""
        with self._lock:
            self._tally.retries += 1

    def circuit(self, name: str, plugin: str, state: int | None) -> None:
        """A circuit is closed (0), half open (1) or open (2); None: gone. `name`: its tool, or `plugin`.

        Only circuits that opened once have a series, and of tools only the first 500.
        """
        with self._lock:
            key = ("" if name == plugin else name, plugin)
            if state is None:
                self._tally.circuits.pop(key, None)
            elif key in self._tally.circuits or len(self._tally.circuits) < MAX_LABELLED_TOOLS:
                self._tally.circuits[key] = int(state)

    def reload_finished(self, ok: bool) -> None:
        """A reload pass ended; `ok` means that it holds no rejection."""
        with self._lock:
            self._tally.reloads["ok" if ok else "rejected"] += 1
            self._tally.reload_ok = int(ok)

    def set_waiting(self, waiting: Callable[[], int]) -> None:
        """How many calls wait for admission is what this answers, on any thread."""
        self._tally.waiting = waiting

    def set_generation(self, generation: int) -> None:
        """This generation serves now."""
        self._tally.generation = generation

    def rescan_found_changes(self) -> None:
        """A periodic scan found what the file events had not told."""
        with self._lock:
            self._tally.rescans += 1

    def loop_lag(self, seconds: float) -> None:
        """The event loop ran a timer this much too late."""
        with self._lock:
            self._tally.lag.observe(seconds)

    def child_rss(self, name: str, rss_bytes: int) -> None:
        """A child process's resident memory; 0 says that the child is gone and ends the series."""
        with self._lock:
            if rss_bytes > 0:
                self._tally.child_rss[name] = rss_bytes
            else:
                self._tally.child_rss.pop(name, None)

    def records_dropped(self, count: int) -> None:
        """So many log lines or records were lost."""
        with self._lock:
            self._tally.dropped += count

    def result_truncated(self) -> None:
        """A result was cut."""
        with self._lock:
            self._tally.truncated += 1

    def set_outputs(self, kept_bytes: int, detached: int) -> None:
        """So many bytes of results are kept, and so many detached calls go on."""
        self._tally.output_bytes, self._tally.detached = kept_bytes, detached

    def store_committed(self, store: str, seconds: float) -> None:
        """A batch was written into that store, or was tried to, in so many seconds."""
        with self._lock:
            commits = self._tally.commits.get(store)
            if commits is None:
                commits = self._tally.commits[store] = Distribution(_SECONDS)
            commits.observe(seconds)

    def denied(self) -> None:
        """An operation was refused because its caller may not do it."""
        with self._lock:
            self._tally.denials += 1

    def confirmation(self, change: str) -> None:
        """A confirmation was requested, approved, denied, used, or expired."""
        with self._lock:
            self._tally.confirmations[change] += 1

    def render(self) -> bytes:
        """The whole exposition, in the text format named by `exposition.CONTENT_TYPE`."""
        return self._exposition.render()

    @cached_property
    def _exposition(self) -> Exposition:
        from hermesd.telemetry.exposition import Exposition  # noqa: PLC0415 - 3 MB that few daemons need

        return Exposition(self._tally, self._lock)

    def _tool_label(self, tool: str, source: str, code: str) -> str:
        # A name that nobody serves was made up by a caller: it must not take one of the 500 places.
        if source in UNLABELLED_SOURCES or code == "UNKNOWN_TOOL":
            return OTHER
        if tool in self._tools:
            return tool
        if len(self._tools) >= MAX_LABELLED_TOOLS:
            return OTHER
        self._tools.add(tool)
        return tool
