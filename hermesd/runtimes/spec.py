"""What a runtime is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """One plugin at one content digest, with what the operator gave it. Durations are seconds.

    `root` is the plugin's folder in the content store; `tools` are the manifest's own definitions, or None
    when the code is to be asked.
    """

    name: str
    version: str
    digest: str
    root: Path
    entry: str
    tools: tuple[Mapping[str, object], ...] | None
    settings: Mapping[str, object]
    secrets: Mapping[str, str]
    max_concurrency: int
    prepare_timeout_s: float
    close_timeout_s: float
    max_stray_threads: int
    idle_stop_s: float
    grace_s: float
    #: The plugin's own folder, which outlives reloads; None where nothing can be kept.
    state_dir: Path | None = None
