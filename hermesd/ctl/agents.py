"""`ctl agents`: who may call, and what."""

from __future__ import annotations

from hermesd.ctl.flag import CtlGroup
from hermesd.terminal.command import Lazy

agents = CtlGroup(
    name="agents",
    help="List, add, rotate and revoke agents.",
    lazy={
        "list": Lazy("hermesd.ctl.agent:list_agents", "List the agents with their rights."),
        "add": Lazy("hermesd.ctl.agent:add", "Make an agent and print its token, this once."),
        "rotate": Lazy("hermesd.ctl.agent:rotate", "Replace an agent's token and print the new one."),
        "revoke": Lazy("hermesd.ctl.agent:revoke", "Remove an agent; what it has open ends."),
        "whoami": Lazy("hermesd.ctl.agent:whoami", "Show who a token makes you, and what you may do."),
    },
)
