"""The operator's settings of a plugin against the schema of its manifest."""

from __future__ import annotations

from collections.abc import Mapping

from hermesd.config.configuration import Configuration
from hermesd.config.fault import printable
from hermesd.config.manifest import Manifest
from hermesd.errors import Rejection
from hermesd.model.schema import ArgumentFault, Schema


def settings_rejections(manifest: Manifest, configuration: Configuration) -> list[Rejection]:
    """Every fault of `plugins.settings.NAME`, at its place; [] when it fits or the plugin has no schema.

    No value is quoted: settings may hold secrets.
    """
    if manifest.settings is None:
        return []
    key = f"plugins.settings.{manifest.name}"
    values = configuration.plugins.settings.get(manifest.name, {})
    found = []
    for fault in Schema.compile(manifest.settings).faults(values):
        path = key + fault.path.replace("/", ".").replace("~1", "/").replace("~0", "~")
        place = configuration.place(path) or configuration.place(key) or ()
        reason = printable(f"{path}: {_problem(fault)}")
        remedy = f"fix {key} in hermesd.yaml{_meant(manifest.settings, fault)}"
        found.append(Rejection(manifest.name, reason, remedy, *place))
    return found


def _meant(schema: Mapping[str, object], fault: ArgumentFault) -> str:
    """What the plugin's author says of the setting: a pattern alone tells an operator little."""
    name = fault.path.split("/")[1] if "/" in fault.path else ""
    properties = schema.get("properties")
    setting = properties.get(name) if isinstance(properties, Mapping) else None
    text = setting.get("description") if isinstance(setting, Mapping) else None
    return f" ({name}: {printable(text)})" if isinstance(text, str) else ""


def _problem(fault: ArgumentFault) -> str:
    if fault.problem == "is required":
        return "is required by the plugin's settings schema"
    if fault.expected == "no such field":
        return "is no setting of the plugin"
    expected = f": expected {fault.expected}" if fault.expected is not None else ""
    return f"does not fit the plugin's settings schema{expected}"
