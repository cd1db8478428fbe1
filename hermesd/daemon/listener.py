"""Turns what calls and reloads do into events, metrics, log lines, and the policy of calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace

from hermesd.access.policy import decide
from hermesd.config.configuration import Configuration
from hermesd.daemon.audit import Audit
from hermesd.errors import Rejection
from hermesd.model.call import CallRequest, Code, Outcome, Result
from hermesd.model.circuit import CircuitRule
from hermesd.model.rate import Bound
from hermesd.model.retry import RetryRule
from hermesd.model.status import ReloadReport, State
from hermesd.model.text import short
from hermesd.plugin.trace import span_of
from hermesd.reload.goal import Plan, Run
from hermesd.reload.owner import ISOLATION
from hermesd.reload.preparation import Made
from hermesd.serving.breaker import CircuitState
from hermesd.serving.catalogue import Entry
from hermesd.serving.circuit import CircuitChange
from hermesd.serving.course import Course
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.instance import Instance
from hermesd.serving.policy import CallPolicy
from hermesd.serving.registry import Registry
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.metric import Metrics
from hermesd.telemetry.plugin_log import PluginLog
from hermesd.telemetry.routing import CallScope

_log = logging.getLogger("hermesd.call")
MIB = 1024 * 1024


def call_policy(configuration: Configuration) -> CallPolicy:
    """The operator's numbers, as calls obey them."""
    defaults = configuration.defaults
    return CallPolicy(
        timeouts_ms=defaults.timeouts_ms,
        max_timeout_ms=defaults.max_timeout_ms,
        max_concurrency=defaults.max_concurrency,
        retry=RetryRule(**asdict(defaults.retry)),
        circuit=CircuitRule(**asdict(defaults.circuit_breaker)),
        plugin_concurrency=defaults.plugin_concurrency,
        agent_concurrency=defaults.agent_concurrency,
        plugins=configuration.plugins.limits,
        agents={name: Bound(each.max_concurrency, each.rate) for name, each in configuration.agents.items()},
        queue_ms=defaults.queue_ms,
        idempotency_window_s=defaults.idempotency_window_s,
        confirmation_ttl_s=defaults.confirmation_ttl_s,
        # The envelope around the data needs room in the message too.
        max_result_bytes=configuration.server.limits.message_mb * MIB - MIB // 2,
        result_max_tokens=defaults.result.max_tokens,
        result_head_tokens=defaults.result.ends[0],
        result_tail_tokens=defaults.result.ends[1],
    )


class CallListener:
    """Hears of every call: counts it, logs it, and writes what its tool says into the plugin's log."""

    def __init__(
        self,
        metrics: Metrics,
        plugin_log: PluginLog,
        events: EventLog,
        record: Callable[[Course, Result], None] = lambda course, result: None,
        audit: Audit | None = None,
    ) -> None:
        """`record` keeps what has ended; it must return at once."""
        self._metrics = metrics
        self._record = record
        self._plugin_log = plugin_log
        self._events = events
        self._audit = audit
        self.total = 0

    def started(self, entry: Entry) -> None:
        self._metrics.call_started()

    def finished(self, course: Course, result: Result) -> None:
        request, entry = course.request, course.entry
        self.total += 1
        if course.denied or (result.code is Code.PERMISSION_DENIED and not course.entered):
            self._denied(course, result)
        if result.truncated:
            self._metrics.result_truncated()
        source = entry.source if entry is not None else "unknown"
        tool = request.tool if entry is not None else ""
        self._metrics.call_finished(
            tool, source, result.code.value, result.duration_ms / 1000, result.queued_ms / 1000,
            entered=result.attempts > 0,
        )  # fmt: skip
        self._record(course, result)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug(
                "%s %s",
                request.tool,
                result.code.value,
                extra={
                    "request_id": result.request_id,
                    "trace_id": span_of(request.request_id, request.traceparent).trace_id,
                    "caller": request.caller.name,
                    "duration_ms": round(result.duration_ms, 3),
                    "effect": result.effect,
                },
            )

    def _denied(self, course: Course, result: Result) -> None:
        if self._audit is not None:
            caller, name, reason = course.request.caller, course.request.tool, result.message
            if course.denied == "see" and (entry := course.catalogue.find(name)) is not None:
                # The caller is told that there is no such tool; the operator reads why that is so.
                reason = decide(caller, "see", entry.definition).reason
            self._audit.denied(caller, course.denied or "call", name, reason)

    def logged(self, entry: Entry, request: CallRequest, attempt: int, line: dict[str, object]) -> None:
        fields = line.get("fields")
        self._plugin_log.write(
            plugin=entry.plugin,
            tool=request.tool,
            request_id=request.request_id,
            session_id=request.session_id,
            attempt=attempt,
            level=str(line.get("level", "info")),
            message=str(line.get("message", "")),
            fields=fields if isinstance(fields, Mapping) else {},
        )

    def failed(self, request: CallRequest, error: BaseException) -> None:
        _log.error("call %s of %s failed", request.request_id, request.tool, exc_info=error)
        self._events.emit("call_failed", request.tool, type(error).__name__, request_id=request.request_id)

    def retried(self, course: Course, outcome: Outcome, wait_s: float) -> None:
        self._metrics.call_retried()
        if _log.isEnabledFor(logging.DEBUG):
            told = {"request_id": course.request.request_id, "attempt": course.attempts, "wait_s": wait_s}
            _log.debug("%s answered %s; another attempt", course.request.tool, outcome.code, extra=told)

    def circuit_changed(self, change: CircuitChange) -> None:
        """A circuit opened, closed, or is tried."""
        self._metrics.circuit(change.name, change.plugin, change.state)
        if change.state is CircuitState.OPEN:
            self._events.emit("circuit_opened", change.name, change.reason, open_ms=change.open_ms)
        elif change.state is not CircuitState.HALF_OPEN:
            why = "" if change.state is not None else "what it guarded was replaced or removed"
            self._events.emit("circuit_closed", change.name, why)

    def said(self, scope: CallScope, level: str, message: str, fields: dict[str, object]) -> None:
        """A line that a runtime hands over outside of a call's own stream of events."""
        self._plugin_log.write(
            plugin=scope.plugin,
            tool=scope.tool,
            request_id=scope.request_id,
            session_id=scope.session_id,
            attempt=scope.attempt,
            level=level,
            message=message,
            fields=fields,
        )


class ReloadListener:
    """Hears of every pass of the reloader."""

    def __init__(
        self,
        events: EventLog,
        metrics: Metrics,
        registry: Registry,
        dispatcher: Dispatcher,
        planned: Callable[[Plan], None],
    ) -> None:
        self._events = events
        self._metrics = metrics
        self._registry = registry
        self._dispatcher = dispatcher
        self._planned = planned
        self._told: frozenset[Rejection] = frozenset()
        self._goals: Mapping[str, str] = {}
        self._waiting: Mapping[str, tuple[str, str]] = {}
        self._config_digest = ""

    def planned(self, plan: Plan) -> None:
        # The size of a message is the transport's, which keeps what it was started with.
        largest = self._dispatcher.policy.max_result_bytes
        self._dispatcher.policy = replace(call_policy(plan.configuration), max_result_bytes=largest)
        if plan.configuration.digest != self._config_digest:
            self._config_digest = plan.configuration.digest
            files = [str(path) for path in plan.configuration.files]
            told = ", ".join(files) or "no file: built-in defaults"
            self._events.emit("config_loaded", "", told, digest=plan.configuration.digest, files=files)
        self._tell_rejections(
            (*plan.rejections, *(each for goal in plan.goals.values() for each in goal.rejections))
        )
        self._tell_goals(plan)
        self._tell_waiting(plan)
        self._planned(plan)

    def committed(self, made: Mapping[str, Made], gone: Iterable[str]) -> None:
        # Here and not at the end of a pass: what was slow to prepare commits by itself.
        self._metrics.set_generation(self._registry.catalogue.generation)
        for name in gone:
            self._events.emit("plugin_removed", name)
        for name, each in sorted(made.items()):
            for rejection in each.failures:
                self._events.emit("plugin_rejected", name, str(rejection))
            if each.instance is not None:
                self._tell_arrival(each.run, each.instance)
                for tool in each.instance.tools.values():
                    self._events.emit("tool_ready", tool.definition.name, version=tool.definition.version)
                    for warning in tool.warnings:
                        self._events.emit("tool_warning", tool.definition.name, warning)

    def _tell_arrival(self, run: Run, instance: Instance) -> None:
        spec, standing = run.spec, instance.standing()
        fields: dict[str, object] = {
            "version": spec.version, "digest": spec.digest,
            "isolation": ISOLATION[run.where], "tools": len(instance.tools),
        }  # fmt: skip
        if standing.state is State.UNAVAILABLE:
            fields["remedy"] = standing.remedy
            self._events.emit("plugin_unavailable", spec.name, standing.reason, **fields)
            return
        count = f"{len(instance.tools)} tool{'' if len(instance.tools) == 1 else 's'}"
        told = f"{spec.version} ({short(spec.digest)}) serves {count}, {ISOLATION[run.where]}"
        self._events.emit("plugin_ready", spec.name, told, **fields)

    def reloaded(self, report: ReloadReport, cause: str) -> None:
        if report.dry_run:
            return
        self._metrics.reload_finished(not report.rejected)
        self._dispatcher.forget_gone_tools()
        self._events.emit(
            "reload_finished", cause, _outcome(report), added=list(report.added),
            changed=list(report.changed), removed=list(report.removed), pending=list(report.pending),
            rejected=len(report.rejected), generation=report.generation,
            duration_ms=round(report.duration_ms, 1),
        )  # fmt: skip

    def tell(self, kind: str, subject: str, message: str = "", /, **fields: object) -> object:
        return self._events.emit(kind, subject, message, **fields)

    def _tell_rejections(self, rejections: Iterable[Rejection]) -> None:
        """Each standing rejection once, not in every pass."""
        standing = frozenset(rejections)
        for rejection in sorted(standing - self._told, key=str):
            kind = "config_rejected" if rejection.name == "configuration" else "plugin_rejected"
            self._events.emit(kind, rejection.name, str(rejection))
        self._told = standing

    def _tell_goals(self, plan: Plan) -> None:
        goals = {name: f"{goal.path} {goal.found_digest}" for name, goal in plan.goals.items()}
        for name, goal in plan.goals.items():
            if self._goals.get(name) == goals[name]:
                continue
            self._events.emit(
                "plugin_found", name, origin=goal.origin, path=goal.path, digest=goal.found_digest,
                version=goal.version,
            )  # fmt: skip
            for file in goal.files:
                self._events.emit("file_found", name, file)
            if goal.idle is not None and goal.idle.state is State.UNAVAILABLE:
                self._events.emit("plugin_unavailable", name, goal.idle.reason, remedy=goal.idle.remedy)
        self._goals = goals

    def _tell_waiting(self, plan: Plan) -> None:
        """Content that waits for the operator while another serves: once, not in every pass."""
        waiting = {name: goal.awaiting for name, goal in plan.goals.items() if goal.awaiting is not None}
        for name, (reason, remedy) in waiting.items():
            if self._waiting.get(name) != (reason, remedy):
                digest = plan.goals[name].found_digest
                self._events.emit("plugin_waiting", name, reason, digest=digest, remedy=remedy)
        self._waiting = waiting


def _outcome(report: ReloadReport) -> str:
    """`generation 3: added orders; 1 rejected; 12 ms`."""
    parts = [
        f"{word} {', '.join(names)}"
        for word, names in (
            ("added", report.added), ("changed", report.changed), ("removed", report.removed),
            ("pending", report.pending),
        )
        if names
    ]  # fmt: skip
    if report.rejected:
        parts.append(f"{len(report.rejected)} rejected")
    what = "; ".join(parts) or "nothing changed"
    return f"generation {report.generation}: {what}; {report.duration_ms:.0f} ms"
