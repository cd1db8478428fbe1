"""`ctl calls`: what was called, and how it went."""

from __future__ import annotations

from hermesd.ctl.flag import CtlGroup
from hermesd.terminal.command import Lazy

calls = CtlGroup(
    name="calls",
    help="List, show, count, replay, watch and cancel calls.",
    lazy={
        "watch": Lazy("hermesd.ctl.call_result:watch", "Follow a detached call to its result."),
        "output": Lazy("hermesd.ctl.call_result:output", "Print the whole of a result that was cut."),
        "cancel": Lazy("hermesd.ctl.call_result:cancel", "Cancel a call in flight."),
        "list": Lazy("hermesd.ctl.call_view:list_calls", "List calls: in flight, then the last ones."),
        "show": Lazy("hermesd.ctl.call_view:show_call", "Show one call: what was asked, how it went."),
        "stats": Lazy("hermesd.ctl.call_stats:stats", "Show how calls went, by tool and by failure."),
        "replay": Lazy("hermesd.ctl.call_replay:replay", "Call a recorded call's tool again."),
    },
)
