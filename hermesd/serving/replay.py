"""Runs a recorded call again, as a new call of whoever asks.

What may change something is not run again by accident: it needs a confirmation, whatever its tool says.
"""

from __future__ import annotations

from hermesd.clock import Clock, uuid7
from hermesd.errors import PreconditionError
from hermesd.model.call import Caller, CallRequest, Result
from hermesd.model.record import CallRecord
from hermesd.serving.dispatcher import Dispatcher
from hermesd.serving.idempotency import HARMLESS
from hermesd.serving.registry import Registry


class Replayer:
    """Asks the dispatcher, which asks for the confirmation."""

    def __init__(self, dispatcher: Dispatcher, registry: Registry, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._registry = registry
        self._clock = clock

    async def replay(
        self,
        record: CallRecord,
        caller: Caller,
        *,
        arguments_json: str = "",
        token: str = "",
        timeout_ms: int | None = None,
        deadline: float | None = None,
    ) -> Result:
        """Call the record's tool as it is now, with the record's arguments or with `arguments_json`.

        Raises PreconditionError when the record does not hold the whole arguments and none are given.
        """
        if not arguments_json and not record.arguments_whole:
            raise PreconditionError(
                f"the record of {record.request_id} lacks arguments: they were redacted or cut",
                remedy="give the arguments anew",
            )
        request = CallRequest(
            tool=record.tool,
            arguments_json=arguments_json or record.arguments,
            request_id=uuid7(self._clock),
            caller=caller,
            session_id=record.session_id,
            timeout_ms=timeout_ms,
            deadline=deadline,
            metadata={"replay_of": record.request_id},
            confirmation_token=token,
            must_confirm=self._may_change_something(record.tool),
        )
        return await self._dispatcher.call(request)

    def _may_change_something(self, tool: str) -> bool:
        entry = self._registry.catalogue.find(tool)
        return entry is not None and entry.definition.side_effects not in HARMLESS
