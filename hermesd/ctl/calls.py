"""`ctl calls`: calls that run or have run."""

from __future__ import annotations

from hermesd.ctl.flag import CtlGroup
from hermesd.terminal.command import Lazy

calls = CtlGroup(
    name="calls",
    help="Watch, cancel and read calls.",
    lazy={
        "watch": Lazy("hermesd.ctl.call_result:watch", "Follow a detached call to its result."),
        "output": Lazy("hermesd.ctl.call_result:output", "Print the whole of a result that was cut."),
        "cancel": Lazy("hermesd.ctl.call_result:cancel", "Cancel a call in flight."),
    },
)
