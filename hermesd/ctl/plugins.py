"""`ctl plugins`: where tools come from, and what may run."""

from __future__ import annotations

from hermesd.ctl.flag import CtlGroup
from hermesd.terminal.command import Lazy

_VIEW = "hermesd.ctl.plugin_view"
_TRUST = "hermesd.ctl.plugin_trust"
_CONTENT = "hermesd.ctl.plugin_content"

plugins = CtlGroup(
    name="plugins",
    help="List, trust and manage plugins.",
    lazy={
        "list": Lazy(f"{_VIEW}:list_plugins", "List the plugins with their states."),
        "show": Lazy(f"{_VIEW}:show_plugin", "Show one plugin: content, permissions, tools, faults."),
        "trust": Lazy(f"{_TRUST}:trust", "Pin a plugin's present content as trusted."),
        "untrust": Lazy(f"{_TRUST}:untrust", "Take a plugin's trust back."),
        "grant": Lazy(f"{_TRUST}:grant", "Grant permissions to a plugin."),
        "revoke": Lazy(f"{_TRUST}:revoke", "Take permissions back."),
        "enable": Lazy(f"{_CONTENT}:enable", "Serve a disabled plugin again."),
        "disable": Lazy(f"{_CONTENT}:disable", "Serve nothing of a plugin, also after a restart."),
        "logs": Lazy("hermesd.ctl.plugin_log:logs", "Show what a plugin logged."),
        "history": Lazy(f"{_CONTENT}:history", "List the contents of a plugin that were served."),
        "rollback": Lazy(f"{_CONTENT}:rollback", "Serve an earlier content of a plugin again."),
    },
)
