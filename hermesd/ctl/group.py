"""`hermesd ctl`: the operator's hand on a running daemon."""

from __future__ import annotations

from hermesd.ctl.flag import CtlGroup
from hermesd.terminal.command import Lazy

ctl = CtlGroup(
    name="ctl",
    show_flags=True,
    help="Talk to a running daemon.",
    epilog=(
        "Exit status: 0 done, 1 what was asked failed, 2 usage, 3 the daemon cannot be reached, "
        "4 not allowed, 5 a confirmation is required."
    ),
    lazy={
        "status": Lazy("hermesd.ctl.status:status", "Show what runs, and what needs attention first."),
        "config": Lazy("hermesd.ctl.config:config", "Show the configuration in force."),
        "reload": Lazy("hermesd.ctl.reload:reload", "Read configuration and plugins again."),
        "drain": Lazy("hermesd.ctl.lifecycle:drain", "Take no new calls."),
        "resume": Lazy("hermesd.ctl.lifecycle:resume", "Take calls again."),
        "stop": Lazy("hermesd.ctl.lifecycle:stop", "Drain and end the daemon."),
        "events": Lazy("hermesd.ctl.events:events", "Show what happened, and what happens."),
        "tools": Lazy("hermesd.ctl.tools:tools", "List, show, call, enable and disable tools."),
        "calls": Lazy("hermesd.ctl.calls:calls", "Watch, cancel and read calls."),
        "plugins": Lazy("hermesd.ctl.plugins:plugins", "List, trust and manage plugins."),
        "confirmations": Lazy(
            "hermesd.ctl.confirmations:confirmations", "List, approve and deny calls that need agreement."
        ),
        "agents": Lazy("hermesd.ctl.agents:agents", "List, add, rotate and revoke agents."),
        "dump": Lazy("hermesd.ctl.lifecycle:dump", "Print the daemon's inner state, to find a fault."),
    },
)
