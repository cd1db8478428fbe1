"""The one way through which every call goes, whatever asked and whatever runs it.

resolve → normalise → validate → authorise → replay → confirm → queue (circuit, place) → write the intent →
run (attempts) → judge the result → shorten → record. Each stage returns, or raises `Refused` with the answer.
Runtimes know nothing of the stages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import Protocol, cast

from hermesd.access.policy import decide
from hermesd.clock import Clock, uuid7
from hermesd.errors import DrainingError
from hermesd.model.call import Caller, CallRequest, Code, Outcome, Result
from hermesd.model.name import nearest
from hermesd.model.status import State
from hermesd.plugin.trace import passed_on
from hermesd.runtimes.runtime import Invocation
from hermesd.serving.admission import Admission, Crowd
from hermesd.serving.arguments import parse_arguments
from hermesd.serving.attempts import Attempts
from hermesd.serving.catalogue import Entry
from hermesd.serving.circuit import Circuit, Circuits
from hermesd.serving.confirmation import Confirmations
from hermesd.serving.course import ACCEPTED, Course, Emit, Refused
from hermesd.serving.deadline import extend, set_deadline
from hermesd.serving.envelope import envelope
from hermesd.serving.fallback import Fallbacks
from hermesd.serving.flight import Cut, Flight, Flights
from hermesd.serving.idempotency import HARMLESS, Idempotency, Ledger, MemoryLedger
from hermesd.serving.instance import Instance
from hermesd.serving.normalise import normalise
from hermesd.serving.output import Outputs
from hermesd.serving.policy import MAX_DEPTH, CallPolicy
from hermesd.serving.registry import Registry
from hermesd.serving.result import is_large, judge, judge_apart, with_whole_kept
from hermesd.serving.saying import bounded
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

    def retried(self, course: Course, outcome: Outcome, wait_s: float) -> None: ...


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
        confirmations: Confirmations | None = None,
        circuits: Circuits | None = None,
        attempts: Attempts | None = None,
        outputs: Outputs | None = None,
    ) -> None:
        self._registry = registry
        self._flights = flights
        self._policy = policy
        self._observer = observer
        self._clock = clock
        self.idempotency = Idempotency(
            ledger or MemoryLedger(), clock, lambda: self._policy.idempotency_window_s
        )
        self._confirmations = confirmations or Confirmations(clock)
        self._circuits = circuits or Circuits(registry, clock)
        self._attempts = attempts or Attempts(clock, observer.retried)
        self._fallbacks = Fallbacks(clock, self.call)
        self._admission = Admission(policy, clock)
        self._outputs = outputs or Outputs()
        self.draining = False
        #: Why a tool that nothing serves yet may still come, "" when it will not.
        self.awaits: Callable[[str], str] = lambda tool: ""
        #: A caller with its rights of now, for what a call that began earlier calls.
        self.present: Callable[[Caller], Caller] = lambda caller: caller

    async def call(self, request: CallRequest, emit: Emit | None = None) -> Result:
        """Run one call to its answer.

        `emit(kind, payload)` receives progress and log lines while it runs. Raises DrainingError when
        no new call is taken, AlreadyExistsError when the request id is in flight, CancelledError when
        whoever waited for the answer is gone.
        """
        if self.draining and not request.depth:
            raise DrainingError("the daemon is draining and takes no new calls", remedy="try again later")
        task = cast("asyncio.Task[object]", asyncio.current_task())
        course = Course(request, emit, self._clock.monotonic(), self._registry.catalogue, task=task)
        flight = Flight(
            request.request_id,
            request.tool,
            request.caller,
            task,
            course.started,
            detached=request.detach,
            course=course,
        )
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
        flight = self._flights.find(request_id, caller)
        if flight is None or not decide(caller, "cancel", flight.caller).allowed:
            return False
        flight.end(CANCELLED_BY_CALLER)
        return True

    @property
    def policy(self) -> CallPolicy:
        """The operator's numbers; what is set holds for waiting calls too, at once."""
        return self._policy

    @policy.setter
    def policy(self, policy: CallPolicy) -> None:
        self._policy = policy
        self._admission.resize(policy)

    def waiting(self) -> int:
        """How many calls wait for a place."""
        return self._admission.waiting()

    def crowded(self) -> list[Crowd]:
        """The limits that are reached now."""
        return self._admission.crowded()

    def forget_gone_tools(self) -> None:
        """Drop the queues and circuits of tools that left the catalogue."""
        self._admission.forget_all_but(self._registry.catalogue.tools)
        self._circuits.forget_gone(self._registry.catalogue.tools)

    async def _answer(self, course: Course, flight: Flight) -> Outcome:
        request = course.request
        try:
            entry = course.entry = self._resolve(course, request)
            self._validate(course, entry)
            self._authorise(course, entry)
            flight.instance = entry.instance
            if request.idempotency_key and (known := await self._replayed(course, entry)) is not None:
                return known
            instance = self._available(entry)
            if request.confirmation_token or request.must_confirm or entry.definition.confirmation != "none":
                self._confirmations.confirm(course, entry, instance, self._policy.confirmation_ttl_s)
            if request.detach and course.emit is not None:
                course.emit(ACCEPTED, {})
            # The lease is taken before the queue: a call that waits ends on the version it began on.
            with instance.lease():
                outcome = await self._queue_and_run(course, entry, instance)
            if is_large(outcome):
                seen = await judge_apart(outcome, course, entry, self._policy, self._outputs)
            else:
                # A tool that called this one is a program, and gets the whole.
                seen = judge(outcome, entry, self._policy, whole=request.depth > 0)
                if seen.truncated:
                    seen = await with_whole_kept(outcome, seen, course, self._outputs)
            if entry.definition.fallback is not None:
                self._fallbacks.keep(course, entry, outcome)
            return seen
        except Refused as refused:
            return refused.outcome
        except Exception as error:  # noqa: BLE001 - the boundary: the operator gets the text, the caller a code
            self._observer.failed(request, error)
            return Outcome(Code.INTERNAL, message="the daemon failed; the operator's log has the cause")
        finally:
            if course.confirmation is not None:
                self._confirmations.settle(course)

    def _resolve(self, course: Course, request: CallRequest) -> Entry:
        """The tool, if the caller may know of it; from here on one that it may not see does not exist."""
        catalogue, caller = course.catalogue, request.caller
        entry = catalogue.find(request.tool)
        if entry is not None:
            if decide(caller, "see", entry.definition).visible:
                return entry
            course.denied = "see"
        if decide(caller, "see", request.tool).visible and (reason := self.awaits(request.tool)):
            raise Refused(Code.UNAVAILABLE, reason, remedy="try again in a moment")
        seen = [
            name for name, each in catalogue.tools.items() if decide(caller, "see", each.definition).visible
        ]
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

    def _authorise(self, course: Course, entry: Entry) -> None:
        request = course.request
        decision = decide(request.caller, "call", entry.definition)
        if not decision.allowed:
            course.denied = "call"
            raise Refused(Code.PERMISSION_DENIED, decision.reason)
        if request.caller.kind == "plugin" and entry.definition.confirmation != "none":
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

    async def _replayed(self, course: Course, entry: Entry) -> Outcome | None:
        """Claim the call's idempotency key. An outcome: the key answers, or was not free in time."""
        set_deadline(course, entry, self._policy)
        try:
            # While it waits a reload may replace the instance, and must not close what this call may run on.
            with entry.instance.lease() if entry.instance is not None else nullcontext():
                course.replayed = await self.idempotency.replay(course)
        except TimeoutError:
            return self._timed_out(course)
        return None if course.replayed is None else REPLAYED

    async def _intend(self, course: Course, entry: Entry) -> Outcome | None:
        """Return when it is on disk what is about to happen. An outcome: it was not in time."""
        try:
            await self.idempotency.begin(course, entry)
        except TimeoutError:
            return self._timed_out(course)
        return None

    def _available(self, entry: Entry) -> Instance:
        standing = self._registry.standing(entry)
        state, instance = standing.state, entry.instance
        # Not by membership: hashing a member of an enumeration is a call.
        if (state is State.READY or state is State.DEGRADED) and instance is not None:
            return instance
        detail = {"reason": standing.reason, "remedy": standing.remedy}
        raise Refused(
            Code.UNAVAILABLE,
            f"{entry.definition.name} is {standing.state}: {standing.reason}",
            **{key: value for key, value in detail.items() if value},
        )

    async def _queue_and_run(self, course: Course, entry: Entry, instance: Instance) -> Outcome:
        set_deadline(course, entry, self._policy)
        circuits, admission = self._circuits, self._admission
        circuit = circuits.of(entry, self._policy)
        # Before the queue too: nobody waits for what is not called.
        if circuits.troubled and (refusal := circuits.refusal(circuit)) is not None:
            return await self._fallbacks.answer(course, entry, refusal)
        gate, party = admission.gate(entry), admission.party(course.request)
        if not admission.enter(gate, party):
            try:
                await admission.wait(gate, party, course)
            except TimeoutError:
                return self._timed_out(course)
        try:
            written = course.claim is not None or entry.definition.side_effects not in HARMLESS
            if written and (late := await self._intend(course, entry)) is not None:
                return late
            # After that wait, as what tries an open circuit does so one at a time.
            refusal = circuits.refusal(circuit) if circuits.troubled else None
            if refusal is None:
                return await self._run(course, entry, instance, circuit)
        finally:
            gate.leave(party)
        return await self._fallbacks.answer(course, entry, refusal)

    async def _run(self, course: Course, entry: Entry, instance: Instance, circuit: Circuit) -> Outcome:
        definition = entry.definition
        ticket, outcome = self._circuits.begin(circuit), None
        try:
            if definition.retryable:
                rule = self._policy.retry.over(definition.retry)
                attempt = partial(self._attempt, course, entry, instance)
                outcome = await self._attempts.run(course, definition, rule, attempt)
            else:
                outcome = await self._attempt(course, entry, instance)
        finally:
            self._circuits.end(circuit, ticket, course, outcome)
        return outcome

    async def _attempt(self, course: Course, entry: Entry, instance: Instance) -> Outcome:
        request = course.request
        course.attempts += 1
        if course.attempts == 1:
            self._observer.started(entry)
        entered, course.entered = course.entered, True
        began, deadline = self._clock.monotonic(), course.deadline
        if course.attempt_s:
            deadline = min(deadline, began + course.attempt_s)
        invocation = Invocation(
            tool=request.tool,
            arguments=course.arguments,
            arguments_json=course.arguments_json,
            request_id=request.request_id,
            session_id=request.session_id,
            attempt=course.attempts,
            deadline=deadline,
            emit=self._emitter(course, entry),
            call=self._nested(course, instance),
            limit=deadline if course.attempt_s else course.limit,
            allowance_s=course.allowance_s,
            traceparent=request.traceparent,
            tracestate=request.tracestate,
        )
        try:
            with TimeLimit(max(0.0, deadline - began), course.task) as time_limit:
                course.time_limit = None if course.attempt_s else time_limit
                outcome = await instance.runtime.invoke(invocation)
        except TimeoutError:
            return self._timed_out(course, began if course.attempt_s else course.started)
        if not outcome.entered:
            course.entered = entered
        return outcome

    def _timed_out(self, course: Course, began: float | None = None) -> Outcome:
        """TIMEOUT, with the time that there was: what the clock adds to it or takes from it helps nobody."""
        since, until = course.started if began is None else began, course.deadline
        if began is not None and course.attempt_s:
            until = min(until, began + course.attempt_s)
        allowed_ms = max(0.0, until - since) * 1000
        return Outcome(
            Code.TIMEOUT, message=f"{course.request.tool} did not answer within {allowed_ms:.0f} ms"
        )

    def _emitter(self, course: Course, entry: Entry) -> Emit:
        def forward(kind: str, payload: dict[str, object]) -> None:
            payload = bounded(kind, payload)
            if kind == "log":
                self._observer.logged(entry, course.request, course.attempts, payload)
            elif kind == "progress":
                extend(course, self._clock.monotonic())
            if course.emit is not None:
                course.emit(kind, payload)

        return forward

    def _nested(
        self, course: Course, instance: Instance
    ) -> Callable[[str, dict[str, object]], Awaitable[Outcome]]:
        """What `ctx.call` runs. Each call needs a task of its own, so that cutting it cuts nothing else."""
        request = course.request

        async def call(tool: str, arguments: dict[str, object]) -> Outcome:
            behind = self.present(request.caller)
            caller = Caller(instance.plugin, "plugin", calls=instance.calls, on_behalf_of=behind)
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
            return Outcome(
                result.code,
                result.data_json,
                result.message,
                detail=result.detail,
                content_json=result.content_json,
            )

        return call
