"""`hermesd plugin`: for authors."""

from __future__ import annotations

from hermesd.terminal.command import Lazy, LazyGroup

plugin = LazyGroup(
    name="plugin",
    help="Write and check plugins.",
    lazy={
        "new": Lazy("hermesd.cli.plugin_new:new", "Write a new plugin: code, manifest, test."),
        "check": Lazy("hermesd.cli.plugin_check:check", "Load a plugin as the daemon would, and lint it."),
    },
)
