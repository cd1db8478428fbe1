"""The one way through which every call goes, whatever asked and whatever runs it.

resolve → normalise → validate → authorise → replay → queue → write the intent → run → record. Each stage is a
method that returns, or raises `Refused` with the answer. Runtimes know nothing of the stages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import NoReturn, Protocol, cast

from hermesd.access.policy import decide
from hermesd.clock import Clock, uuid7
from hermesd.errors import DrainingError
from hermesd.model.call import Caller, CallRequest, Code, Outcome, Result
from hermesd.model.name import nearest
from hermesd.model.status import State
from hermesd.plugin.trace import passed_on
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.admission import Admission, Overloaded
from hermesd.serving.arguments import parse_arguments
from hermesd.serving.catalogue import Catalogue, Entry
from hermesd.serving.course import Course, Emit, Refused
from hermesd.serving.envelope import envelope
from hermesd.serving.flight import Cut, Flight, Flights
from hermesd.serving.idempotency import HARMLESS, Idempotency, Ledger, MemoryLedger
from hermesd.serving.instance import Instance
from hermesd.serving.normalise import normalise
from hermesd.serving.policy import MAX_DEPTH, CallPolicy
from hermesd.serving.registry import Registry
from hermesd.serving.time_limit import TimeLimit

CANCELLED_BY_CALLER = Cut(
    Code.CANCELLED, "cancelled by its caller", "call again if the answer is still wanted"
)

#: The envelope of a replayed call is the recorded one.
REPLAYED = Outcome(Code.OK)


class Observer(Protocol):
    """Who is told of calls: metrics, logs, records. Must return at once and never raise."""

    def started(self, entry: Entry) -> None: ...

    def finished(self, course: Course, result: Result) -> None: ...

    def logged(self, entry: Entry, request: CallRequest, attempt: int, line: dict[str, object]) -> None: ...

    def failed(self, request: CallRequest, error: BaseException) -> None: ...


class Dispatcher:
    """Answers calls. A tool's failure is a Result; only a call that never became one raises."""

    def __init__(
        self,
        registry: Registry,
        flights: Flights,
        policy: CallPolicy,
        observer: Observer,
        clock: Clock,
        *,
        ledger: Ledger | None = None,
    ) -> None:
        self._registry = registry
        self._flights = flights
        self.policy = policy
        self._observer = observer
        self._clock = clock
        self._admission = Admission()
        self.idempotency = Idempotency(
            ledger or MemoryLedger(), clock, lambda: self.policy.idempotency_window_s
        )
        self.draining = False
        #: Why a tool that nothing serves yet may still come, "" when it will not.
        self.awaits: Callable[[str], str] = lambda tool: ""

    async def call(self, request: CallRequest, emit: Emit | None = None) -> Result:
        """Run one call to its answer.

        `emit(kind, payload)` receives progress and log lines while it runs. Raises DrainingError when
        no new call is taken, AlreadyExistsError when the request id is in flight, CancelledError when
        whoever waited for the answer is gone.
        """
        if self.draining and not request.depth:
            raise DrainingError("the daemon is draining and takes no new calls", remedy="try again later")
        task = cast("asyncio.Task[object]", asyncio.current_task())
        course = Course(request, emit, self._clock.monotonic(), self._registry.catalogue)
        flight = Flight(request.request_id, request.tool, request.caller, task, course.started, course=course)
        with self._flights.enter(flight):
            try:
                outcome = await self._answer(course, flight)
            except asyncio.CancelledError:
                if flight.cut is None:
                    gone = Outcome(Code.CANCELLED, message="its caller is gone")
                    result = envelope(course, gone, self._clock.monotonic())
                    self.idempotency.end(course, result)
                    self._observer.finished(course, result)
                    raise
                task.uncancel()
                outcome = Outcome(
                    flight.cut.code, message=flight.cut.message, detail={"remedy": flight.cut.remedy}
                )
        result = envelope(course, outcome, self._clock.monotonic())
        self._observer.finished(course, result)
        if course.claim is not None:
            await self.idempotency.settle(course, result)
        return result

    def cancel(self, request_id: str, caller: Caller) -> bool:
        """End a call of this caller (the operator: any). False: there is no such call of that caller."""
        flight = self._flights.find(request_id)
        if flight is None or (caller.kind != "operator" and flight.caller.name != caller.name):
            return False
        flight.end(CANCELLED_BY_CALLER)
        return True

    def forget_gone_tools(self) -> None:
        """Drop the queues of tools that left the catalogue."""
        self._admission.forget_all_but(self._registry.catalogue.tools)

    async def _answer(self, course: Course, flight: Flight) -> Outcome:
        request = course.request
        try:
            entry = course.entry = self._resolve(request, course.catalogue)
            self._validate(course, entry)
            self._authorise(request, entry)
            if request.idempotency_key and await self._replayed(course, entry):
                return REPLAYED
            instance = self._available(entry)
            flight.instance = instance
            # The lease is taken before the queue: a call that waits ends on the version it began on.
            with instance.lease():
                return await self._queue_and_run(course, entry, instance)
        except Refused as refused:
            return refused.outcome
        except Exception as error:  # noqa: BLE001 - the boundary: the operator gets the text, the caller a code
            self._observer.failed(request, error)
            return Outcome(Code.INTERNAL, message="the daemon failed; the operator's log has the cause")

    def _resolve(self, request: CallRequest, catalogue: Catalogue) -> Entry:
        entry = catalogue.find(request.tool)
        visible = decide(request.caller, "see", request.tool).visible
        if entry is not None and visible:
            return entry
        if visible and (reason := self.awaits(request.tool)):
            raise Refused(Code.UNAVAILABLE, reason, remedy="try again in a moment")
        seen = [name for name in catalogue.tools if decide(request.caller, "see", name).visible]
        raise Refused(
            Code.UNKNOWN_TOOL, f"there is no tool {request.tool!r}", nearest=nearest(request.tool, seen)
        )

    def _validate(self, course: Course, entry: Entry) -> None:
        """Valid arguments go on as they came; only others are normalised, and then validated again."""
        text = course.arguments_json = course.request.arguments_json
        course.arguments = arguments = parse_arguments(text)
        schema = entry.schema
        if schema is None or (not entry.corrections and schema.is_valid(arguments)):
            return
        final = normalise(arguments, entry, schema)
        course.arguments, course.coerced = final.arguments, final.changes
        course.arguments_json = text if final.text is None else final.text
        if final.faults:
            first = f"{final.faults[0]['path'] or '/'}: {final.faults[0]['problem']}"
            more = f" (and {len(final.faults) - 1} more)" if len(final.faults) > 1 else ""
            raise Refused(Code.INVALID_ARGUMENT, f"{first}{more}", faults=list(final.faults))

    def _authorise(self, request: CallRequest, entry: Entry) -> None:
        decision = decide(request.caller, "call", request.tool)
        if not decision.allowed:
            raise Refused(Code.PERMISSION_DENIED, decision.reason)
        if request.caller.kind == "plugin" and _needs_confirmation(entry):
            raise Refused(
                Code.PERMISSION_DENIED,
                f"{request.tool} needs a confirmation, which a plugin cannot give",
                remedy="let the agent call it itself",
            )
        if request.depth > MAX_DEPTH:
            raise Refused(
                Code.PERMISSION_DENIED,
                f"tools called each other {MAX_DEPTH} deep",
                remedy="break the loop between these tools",
            )

    async def _replayed(self, course: Course, entry: Entry) -> bool:
        """Claim the call's idempotency key. True: the key answers, and nothing runs."""
        course.deadline = self._deadline(course, entry)
        try:
            course.replayed = await self.idempotency.replay(course)
        except TimeoutError:
            self._time_out(course)
        return course.replayed is not None

    async def _intend(self, course: Course, entry: Entry) -> None:
        """Return when it is on disk what is about to happen."""
        try:
            await self.idempotency.begin(course, entry)
        except TimeoutError:
            self._time_out(course)

    def _available(self, entry: Entry) -> Instance:
        standing = self._registry.standing(entry)
        if standing.state is State.READY and entry.instance is not None:
            return entry.instance
        detail = {"reason": standing.reason, "remedy": standing.remedy}
        raise Refused(
            Code.UNAVAILABLE,
            f"{entry.definition.name} is {standing.state}: {standing.reason}",
            **{key: value for key, value in detail.items() if value},
        )

    async def _queue_and_run(self, course: Course, entry: Entry, instance: Instance) -> Outcome:
        deadline = course.deadline = self._deadline(course, entry)
        tool = course.request.tool
        gate = self._admission.gate(tool, self.policy.places(entry.definition))
        began = self._clock.monotonic()
        try:
            await gate.enter(min(self.policy.queue_ms / 1000, max(0.0, deadline - began)))
        except Overloaded as full:
            course.queued_s = self._clock.monotonic() - began
            if self._clock.monotonic() >= deadline:
                self._time_out(course)
            raise Refused(
                Code.OVERLOADED,
                f"{tool} runs {gate.running} calls and {full}",
                retry_after_ms=self.policy.queue_ms,
            ) from None
        try:
            course.queued_s = self._clock.monotonic() - began
            if course.claim is not None or entry.definition.side_effects not in HARMLESS:
                await self._intend(course, entry)
            return await self._run(course, entry, instance)
        finally:
            gate.leave()

    async def _run(self, course: Course, entry: Entry, instance: Instance) -> Outcome:
        request = course.request
        course.entered = True
        course.attempts += 1
        self._observer.started(entry)
        invocation = Invocation(
            tool=request.tool,
            arguments=course.arguments,
            arguments_json=course.arguments_json,
            request_id=request.request_id,
            session_id=request.session_id,
            attempt=course.attempts,
            deadline=course.deadline,
            emit=self._emitter(course, entry),
            call=self._nested(course, instance),
            traceparent=request.traceparent,
            tracestate=request.tracestate,
        )
        try:
            with TimeLimit(max(0.0, course.deadline - self._clock.monotonic())):
                outcome = await instance.runtime.invoke(invocation)
        except TimeoutError:
            self._time_out(course)
        size, limit = _size(outcome.data_json), self.policy.max_result_bytes
        if size > limit:
            raise Refused(
                Code.INVALID_RESULT,
                f"the result has {size} bytes; {limit} is the limit",
                reason="too large",
                remedy="ask for less at a time",
            )
        return outcome

    def _deadline(self, course: Course, entry: Entry) -> float:
        """The smallest of the tool's timeout, the caller's own, and the caller's deadline."""
        request = course.request
        timeout_ms = self.policy.timeout_ms(entry.definition, entry.source)
        if request.timeout_ms is not None:
            timeout_ms = min(timeout_ms, request.timeout_ms)
        own = course.started + timeout_ms / 1000
        return own if request.deadline is None else min(own, request.deadline)

    def _time_out(self, course: Course) -> NoReturn:
        elapsed_ms = (self._clock.monotonic() - course.started) * 1000
        raise Refused(Code.TIMEOUT, f"{course.request.tool} did not answer within {elapsed_ms:.0f} ms")

    def _emitter(self, course: Course, entry: Entry) -> Emit:
        def forward(kind: str, payload: dict[str, object]) -> None:
            if kind == "log":
                self._observer.logged(entry, course.request, course.attempts, payload)
            if course.emit is not None:
                course.emit(kind, payload)

        return forward

    def _nested(
        self, course: Course, instance: Instance
    ) -> Callable[[str, dict[str, object]], Awaitable[Outcome]]:
        """What `ctx.call` runs. Each call needs a task of its own, so that cutting it cuts nothing else."""
        request = course.request

        async def call(tool: str, arguments: dict[str, object]) -> Outcome:
            caller = Caller(instance.plugin, "plugin", calls=instance.calls, on_behalf_of=request.caller)
            nested = CallRequest(
                tool=tool,
                arguments_json=json.dumps(arguments, ensure_ascii=False),
                request_id=uuid7(self._clock),
                caller=caller,
                session_id=request.session_id,
                deadline=course.deadline,
                depth=request.depth + 1,
                parent_request_id=request.request_id,
                traceparent=passed_on(request.request_id, request.traceparent),
                tracestate=request.tracestate,
            )
            course.calls_out(self._clock.monotonic())
            try:
                result = await self.call(nested)
            finally:
                course.called_out(self._clock.monotonic())
            return Outcome(result.code, result.data_json, result.message, detail=result.detail)

        return call


def _needs_confirmation(entry: Entry) -> bool:
    asked = entry.definition.deferred.get("confirm")
    return entry.definition.side_effects == "destructive" or asked in ("caller", "operator")


def _size(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
