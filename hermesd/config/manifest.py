"""A plugin's manifest: `plugin.yaml` of a folder, or what stands for it in a single file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesd.config.permission import Permissions

API = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a plugin says about itself. Nothing in it decides where its code runs.

    `entry` is a relative path that ends in .py, or "" for a plugin of declarative tools alone. `settings` is
    a JSON schema that compiles, or None. `tools` are raw definitions. `exclusive` names resources, such as a
    fixed port, that two instances cannot hold at once.
    """

    name: str
    version: str
    requires_hermesd: str = ""
    api: int = API
    entry: str = ""
    requirements: tuple[str, ...] = ()
    settings: Mapping[str, object] | None = None
    permissions: Permissions = field(default_factory=Permissions)
    tools: tuple[Mapping[str, object], ...] | None = None
    exclusive: tuple[str, ...] = ()


def read_manifest(data: bytes, file: str) -> Manifest:
    """Read and check a whole manifest. Raises PluginError with every fault at its place."""
    raise NotImplementedError


def python_manifest(path: str, source: bytes) -> Manifest:
    """What stands for the manifest of a single .py: its stem and its `__version__`. Raises PluginError."""
    raise NotImplementedError
