"""Whether what a tool needs is there, as the place where its code runs would find it.

Looking imports nothing and runs nothing; it reads the disk, so it belongs on a thread.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path

from hermesd.model.requirement import Kind, Requirement
from hermesd.runtimes.spec import PluginSpec


class Surroundings:
    """What the code of one plugin has around it: its environment, its folder, what it was given."""

    def __init__(self, spec: PluginSpec, environ: Mapping[str, str]) -> None:
        self._spec = spec
        self._environ = environ
        self._checks: Mapping[Kind, Callable[[str], tuple[str, str] | None]] = {
            "env": self._variable,
            "command": self._command,
            "file": self._file,
            "python": self._module,
            "secret": self._secret,
            "setting": self._setting,
        }

    def lacking(self, requirement: Requirement) -> tuple[str, str] | None:
        """(reason, remedy) when it is not there; None when it is."""
        found = self._checks[requirement.kind](requirement.name)
        if found is None or not requirement.remedy:
            return found
        return found[0], requirement.remedy

    def first_lacking(self, requirements: tuple[Requirement, ...]) -> tuple[str, str] | None:
        """Of several; the reason names all that are missing, the remedy is that of the first."""
        missing = [each for each in map(self.lacking, requirements) if each is not None]
        if not missing:
            return None
        return "; ".join(reason for reason, _ in missing), missing[0][1]

    def _variable(self, name: str) -> tuple[str, str] | None:
        if self._environ.get(name):
            return None
        return (
            f"the environment variable {name} is not set where it runs",
            f"set {name} for the daemon and restart it; a plugin with a process of its own gets no more "
            "than paths and language: give it a setting or a secret",
        )

    def _command(self, name: str) -> tuple[str, str] | None:
        if shutil.which(name, path=self._environ.get("PATH", os.defpath)) is not None:
            return None
        return f"the command {name} is not on the daemon's PATH", f"install {name}, then reload"

    def _file(self, name: str) -> tuple[str, str] | None:
        try:
            there = (self._spec.root / Path(name)).exists()
        except (OSError, ValueError):
            there = False
        return None if there else (f"{name} does not exist", f"put {name} there, then reload")

    def _module(self, name: str) -> tuple[str, str] | None:
        if _is_installed(name):
            return None
        package = name.partition(".")[0]
        return f"the Python module {name} is not installed", f"install {package} beside hermesd, then reload"

    def _secret(self, name: str) -> tuple[str, str] | None:
        if self._spec.secrets.get(name):
            return None
        plugin = self._spec.name
        remedy = f"set secrets.{name} in the configuration and grant it to {plugin}"
        return f"the secret {name} is not granted to {plugin}", remedy

    def _setting(self, name: str) -> tuple[str, str] | None:
        value: object = self._spec.settings
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value not in (None, "", [], {}):
            return None
        key = f"plugins.settings.{self._spec.name}.{name}"
        return f"the setting {name} is empty", f"set {key} in the configuration"


def _is_installed(module: str) -> bool:
    """Whether it could be imported. No parent package is run, as `find_spec` of importlib.util would."""
    path, parts = None, module.split(".")
    for index in range(len(parts)):
        try:
            spec = PathFinder.find_spec(".".join(parts[: index + 1]), path)
        except (ImportError, OSError, ValueError):
            return False
        if spec is None:
            return index == 0 and len(parts) == 1 and _is_built_in(module)
        path = spec.submodule_search_locations
        if path is None and index + 1 < len(parts):
            return False
    return True


def _is_built_in(module: str) -> bool:
    import sys  # noqa: PLC0415 - only where no file was found

    return module in sys.builtin_module_names or module in sys.stdlib_module_names
