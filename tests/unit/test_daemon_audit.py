"""Denials: each is counted, and told so that it cannot hide the rest."""

from __future__ import annotations

import pytest

from hermesd.daemon.audit import BURST, EVERY_S, Audit
from hermesd.model.call import Caller, Rights
from hermesd.telemetry.event import EventLog
from hermesd.telemetry.metric import Metrics
from tests.core_doubles import SetClock

AGENT = Caller("reporter", "agent", rights=Rights())


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


def total(metrics: Metrics) -> float:
    [line] = [
        each for each in metrics.render().decode().splitlines() if each.startswith("hermesd_denials_total")
    ]
    return float(line.split()[-1])


@pytest.mark.promise("IDN-7")
def test_a_denial_says_who_what_and_of_which_object(clock: SetClock) -> None:
    events, metrics = EventLog(clock), Metrics()
    audit = Audit(events, metrics, clock)
    audit.denied(AGENT, "see", "orders.delete_all", "it is hidden")
    audit.denied(Caller("text", "plugin", on_behalf_of=AGENT), "call", "files.write_file", "no")
    audit.denied(None, "identify", "ipv4:10.0.0.9:4711", "the token is not known")
    first, second, third = events.recent(3)
    assert (first.kind, first.subject) == ("denied", "reporter")
    assert first.fields == {"action": "see", "object": "orders.delete_all"}
    assert second.fields == {"action": "call", "object": "files.write_file", "plugin": "text"}
    assert "through the plugin text: no" in second.message
    assert (third.kind, third.fields) == ("authentication_failed", {"peer": "ipv4:10.0.0.9:4711"})
    assert total(metrics) == 3


@pytest.mark.promise("IDN-7")
def test_one_caller_cannot_push_everything_else_out(clock: SetClock) -> None:
    events, metrics = EventLog(clock), Metrics()
    audit = Audit(events, metrics, clock)
    for number in range(1000):
        audit.denied(AGENT, "see", f"guess.number_{number}")
    audit.denied(Caller("other", "agent"), "see", "x.y_z")
    assert len(events.recent(2000)) == BURST + 1
    clock.at += EVERY_S
    audit.denied(AGENT, "see", "guess.again_now")
    [last] = events.recent(1)
    assert last.fields["unsaid"] == 1000 - BURST
    assert total(metrics) == 1002
