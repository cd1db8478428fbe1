"""Denials, counted each and told within bounds."""

from __future__ import annotations

from hermesd.clock import Clock
from hermesd.model.call import Caller
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.metric import Metrics
from hermesd.telemetry.throttle import Throttle

#: Of one caller: so many denials at once, and one more in so many seconds.
BURST = 20
EVERY_S = 5.0


class Audit:
    """Each denial counts in `hermesd_denials_total`; events say who, what and of what object.

    A caller that is denied over and over cannot push everything else out of the kept events: what is left
    out is counted in the next event of that caller.
    """

    def __init__(self, events: EventLog, metrics: Metrics, clock: Clock) -> None:
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._throttle = Throttle(BURST, 1 / EVERY_S)

    def denied(self, caller: Caller | None, action: str, subject: str, reason: str = "") -> None:
        """`caller` None: nobody knows who it is; then `subject` is where the connection came from."""
        self._metrics.denied()
        principal = None if caller is None else caller.principal
        name = "" if principal is None else principal.name
        unsaid = self._throttle.admit(
            f"{principal.kind} {name}" if principal else "", self._clock.monotonic()
        )
        if unsaid is None:
            return
        more: dict[str, object] = {"unsaid": unsaid} if unsaid else {}
        if caller is None:
            self._events.emit("authentication_failed", "", reason, peer=subject, **more)
            return
        if caller.kind == "plugin":
            more["plugin"] = caller.name
        through = f" through the plugin {caller.name}" if caller.kind == "plugin" else ""
        told = f"may not {action} {subject}{through}: {reason}"
        self._events.emit("denied", name, told, action=action, object=subject, **more)
