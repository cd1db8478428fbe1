"""`ctl tools`: what can be called."""

from __future__ import annotations

from hermesd.ctl.flag import CtlGroup
from hermesd.terminal.command import Lazy

tools = CtlGroup(
    name="tools",
    help="List, show, call, enable, disable and reset tools.",
    lazy={
        "list": Lazy("hermesd.ctl.tool_view:list_tools", "List the tools with their states."),
        "show": Lazy("hermesd.ctl.tool_view:show_tool", "Show one tool's whole definition."),
        "call": Lazy("hermesd.ctl.tool_call:call", "Call a tool and print its data."),
        "enable": Lazy("hermesd.ctl.tool_switch:enable", "Let a disabled tool be called again."),
        "disable": Lazy("hermesd.ctl.tool_switch:disable", "Refuse calls of a tool, also after a restart."),
        "reset": Lazy("hermesd.ctl.tool_switch:reset", "Call a tool again that is held back as unreachable."),
    },
)
