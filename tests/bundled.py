"""Calling a bundled plugin as the daemon does: loaded by content, arguments validated, results encoded."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from hermesd.model.definition import Parsed, parse_definition
from hermesd.model.schema import Schema
from hermesd.plugin import ToolContext, ToolError
from hermesd.plugin.bind import BoundTool, bind_tools
from hermesd.plugin.encode import encode_result
from hermesd.plugin.load import load_package, package_name

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"
NAMES = ("files", "store", "text", "time")


@dataclass
class Bundled:
    """One bundled plugin with the settings that its calls get."""

    name: str
    module: ModuleType
    manifest: dict[str, Any]
    bound: dict[str, BoundTool]
    parsed: dict[str, Parsed]
    settings: dict[str, Any] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def call(self, verb: str, **arguments: Any) -> Any:
        """The decoded result; ToolError as the tool raised it, AssertionError from the schema."""
        bound, parsed = self.bound[f"{self.name}.{verb}"], self.parsed[f"{self.name}.{verb}"]
        faults = parsed.schema.faults(arguments)
        assert not faults, faults
        values = bound.arguments(arguments)
        data = json.loads(encode_result(bound.function(self.context(bound.name), **values)))
        if parsed.definition.returns is not None:
            assert Schema.compile(parsed.definition.returns).faults(data) == []
        return data

    def context(self, tool: str, deadline: float | None = None) -> ToolContext:
        return ToolContext(
            tool=tool,
            request_id="r-1",
            session_id="",
            attempt=1,
            deadline=deadline,
            settings=self.settings,
            secrets={},
            shared={},
            emit=lambda kind, fields: None,
            call=None,
            cancelled=self.cancelled,
            asynchronous=False,
        )

    def refused(self, verb: str, **arguments: Any) -> ToolError:
        """The ToolError that the call must end with."""
        try:
            answer = self.call(verb, **arguments)
        except ToolError as error:
            return error
        raise AssertionError(f"{verb} was not refused: {answer}")

    def part(self, name: str) -> ModuleType:
        """A module of the plugin, such as `reading`."""
        return load_package(PLUGINS / self.name, f"{name}.py", _package(self.name))


def bundled(name: str, **settings: Any) -> Bundled:
    """The plugin `name` from this checkout, with these settings; they must fit the manifest's schema."""
    manifest, module, bound, parsed = _loaded(name)
    assert Schema.compile(manifest["settings"]).faults(settings) == []
    return Bundled(name, module, manifest, bound, parsed, settings)


@lru_cache(maxsize=8)
def _loaded(name: str) -> tuple[dict[str, Any], ModuleType, dict[str, BoundTool], dict[str, Parsed]]:
    root = PLUGINS / name
    manifest = yaml.safe_load((root / "plugin.yaml").read_text(encoding="utf-8"))
    module = load_package(root, manifest["entry"], _package(name))
    bound = {each.name: each for each in bind_tools(module, name)}
    parsed = {
        each.name: parse_definition(each.raw, plugin=name, version=manifest["version"])
        for each in bound.values()
    }
    return manifest, module, bound, parsed


def _package(name: str) -> str:
    return package_name(name, "sha256:" + hashlib.sha256(name.encode()).hexdigest())
