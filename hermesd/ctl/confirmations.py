"""`ctl confirmations`: calls that run when somebody has agreed to them."""

from __future__ import annotations

from hermesd.ctl.flag import CtlGroup
from hermesd.terminal.command import Lazy

_DESK = "hermesd.ctl.confirmation_desk"

confirmations = CtlGroup(
    name="confirmations",
    help="List, approve and deny calls that run when somebody has agreed to them.",
    lazy={
        "list": Lazy(f"{_DESK}:list_confirmations", "List the calls that need agreement."),
        "approve": Lazy(f"{_DESK}:approve", "Let a call run, once."),
        "deny": Lazy(f"{_DESK}:deny", "Refuse a call."),
    },
)
