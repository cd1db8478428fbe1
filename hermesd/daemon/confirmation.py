"""What people are told of calls that need agreement: what would happen, without secrets, and what did."""

from __future__ import annotations

from collections.abc import Callable

from hermesd.clock import Clock
from hermesd.config.configuration import Configuration
from hermesd.model.confirmation import Confirmation
from hermesd.model.redaction import Redaction
from hermesd.runtimes.redact import Redactor
from hermesd.serving.confirmation import Confirmations
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.metric import Metrics

#: More than what is ever shown of one call's arguments.
LONGEST = 64 * 1024
#: The event of each change, and its words.
_CONFIRMATIONS = {
    "requested": ("confirmation_requested", "{who} asks for agreement"),
    "approved": ("confirmation_approved", "{decider} lets {who} make this call once"),
    "denied": ("confirmation_denied", "{decider} refuses {who} this call"),
    "used": ("confirmation_used", "{who} made the call"),
    "expired": ("confirmation_expired", "{who} did not make the call in time"),
}


def confirmations(
    clock: Clock, events: EventLog, metrics: Metrics, configuration: Callable[[], Configuration]
) -> Confirmations:
    """The desk of the daemon's calls that need agreement."""
    listener, discretion = ConfirmationListener(events, metrics), Discretion(configuration)
    return Confirmations(clock, tell=listener.changed, hide=discretion.hide)


class ConfirmationListener:
    """Hears what becomes of calls that need agreement. Neither their tokens nor their arguments go on."""

    def __init__(self, events: EventLog, metrics: Metrics) -> None:
        self._events = events
        self._metrics = metrics

    def changed(self, change: str, confirmation: Confirmation) -> None:
        self._metrics.confirmation(change)
        kind, told = _CONFIRMATIONS[change]
        binding = confirmation.binding
        self._events.emit(
            kind, binding.tool, told.format(who=binding.principal, decider=confirmation.decided_by),
            id=confirmation.id, agent=binding.principal, by=confirmation.by,
            session_id=binding.session_id, request_id=confirmation.request_id,
            expires_at=confirmation.expires_at.isoformat(), reason=confirmation.reason,
        )  # fmt: skip


class Discretion:
    """Takes out of arguments what even who decides about them need not see: keys, tokens, secrets.

    An e-mail address stays: nobody can agree to a mail without knowing to whom it goes.
    """

    def __init__(self, configuration: Callable[[], Configuration]) -> None:
        self._configuration = configuration
        self._made: tuple[str, Redaction] | None = None

    def hide(self, text: str) -> str:
        """A JSON text without them, which is JSON still."""
        configuration = self._configuration()
        if self._made is None or self._made[0] != configuration.digest:
            known = Redactor(configuration.secrets.values())
            self._made = (
                configuration.digest,
                Redaction(mask=known.json_text, longest=LONGEST, mail=False),
            )
        return self._made[1].excerpt(text, LONGEST).text
